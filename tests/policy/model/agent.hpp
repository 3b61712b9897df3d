#pragma once

#include "policy/events.hpp"
#include "policy/observed.hpp"
#include "policy/plan.hpp"
#include "tests/policy/model/cloud.hpp"
#include "tests/policy/model/laws.hpp"
#include "tests/policy/model/world.hpp"

#include <functional>

// A minimal mirror of agent/reconcile: same effects in the same order, same records, the real plan. It can be
// killed before and after every effect. Keep it in step with execute*.cpp and pass.cpp of agent/reconcile.

namespace model {

class agent {
public:
    agent(world& w, laws& l) : w_(w), laws_(l), cloud_(w) {}

    // Loads the disk state: at start and after every kill.
    void start();

    // Runs one pass over all exposures and returns the time of the next one.
    instant pass(policy::plan_options = {});

    // Commands of an operator.
    void rotate(const user_name&, bool retire_now);
    void rollback(const user_name&);
    void forget_backoffs();

    const policy::stored_state& memory() const { return stored_; }
    const policy::plan_result& last_plan() const { return last_; }
    policy::errc last_look_failure() const;
    bool waits() const { return waits_; }

private:
    using outcome = policy::result<void>;

    // ---- pass.cpp
    void exempt_slow_creations();
    void pass_of(const std::string& exposure, policy::plan_options);
    void look(const policy::desired_exposure&);
    policy::observed_exposure observe(const std::string& place, const policy::inquiry&);
    std::optional<policy::observed_exposure> observe_by_id(const std::string& place, const policy::inquiry&,
                                                           std::set<std::string>& missing);
    void inspect_outputs(const std::string& exposure);
    void follow_entries(const std::string& exposure);
    void perform_in_order(const std::vector<policy::action>&);
    void remember_failure(const policy::action&, const policy::failure&);
    void remember_exposure(const std::string& exposure, const policy::failure&, const std::string& what);
    void keep_conclusions(const policy::plan_result&, const std::string& exposure);

    // ---- execute*.cpp
    outcome perform(const policy::action&);
    outcome note(const policy::action&);
    outcome issue(const policy::action&);
    outcome submit(const user_name&, const std::string& id);
    outcome adopt(const policy::action&);
    void leave_alone(const std::string& id);
    outcome disown(const policy::action&, const std::string& id);
    bool is_another_user(const user_name&, const policy::generation&, const policy::remote_user&) const;
    outcome collect(const policy::action&);
    outcome verify(const policy::action&);
    outcome publish(const policy::action&);
    outcome deploy(const policy::action&);
    outcome delete_before_replace(const policy::action&);
    outcome retire(const policy::action&);
    outcome remove(const policy::action&);
    outcome forget(const policy::action&);
    outcome onboard(const policy::action&);
    outcome remember_instance(const policy::action&);
    outcome forget_instance(const policy::action&);
    outcome delete_remote(const policy::action&, const policy::place&, const std::string& id);
    outcome delete_if_ours(const policy::action&, const policy::generation&, const std::string& id);
    outcome delete_user_of(const policy::action&, const policy::generation&);
    std::vector<policy::remote_user> users_with_key(const user_name&, const policy::generation&) const;
    outcome delete_all_of(const policy::action&, const policy::generation&);
    policy::result<std::vector<policy::remote_user>> shown_beside(const policy::generation&);

    // ---- world.cpp
    const policy::desired_exposure* exposure(const std::string&) const;
    const policy::desired_user* wanted(const user_name&) const;
    policy::stored_user& user(const user_name&);
    policy::stored_exposure& exposure_record(const policy::desired_exposure&);
    const policy::generation& generation(const policy::action& a) { return *user(a.name).find(a.generation); }
    // Same as reconcile::world.
    outcome record(const user_name&, const std::vector<policy::user_event>&);
    outcome record_exposure(const policy::desired_exposure&, const policy::exposure_event&);

    // An effect that outlives the process: it may fail, and the agent may be killed before or after it.
    outcome effect(const char* what, const std::string& of, const std::function<void()>&);
    void point(const char* what, const std::string& of);
    instant now() const { return w_.agent_now(); }

    world& w_;
    laws& laws_;
    cloud cloud_;
    policy::desired_state file_;  // as last read
    policy::stored_state stored_;
    policy::observed_state observed_;
    policy::plan_result last_;
    bool waits_ = false;
    std::optional<instant> listed_at_;  // list time of this pass, if it is to be recorded
};

}  // namespace model
