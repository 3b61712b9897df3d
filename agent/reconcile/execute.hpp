#pragma once

#include "agent/reconcile/world.hpp"
#include "policy/action.hpp"

// Performs what the plan says: one straight-line coroutine an action. It decides nothing but how it went; the
// records that it leaves are what the next plan looks at. Every intent is on disk before its effect.

namespace reconcile {

class executor {
public:
    explicit executor(world& w) : world_(w) {}

    // The action's effect, and its record on stable storage. A failure is not yet remembered.
    io::task<void> perform(policy::action);

private:
    // one generation on its way: execute_issue.cpp
    io::task<void> issue(const policy::action&);
    io::task<void> submit(const policy::user_name&, const std::string& generation);
    io::task<void> adopt(const policy::action&);
    io::task<void> collect(const policy::action&);

    // into use: execute_switch.cpp
    io::task<void> prove(const policy::action&);
    io::task<void> publish(const policy::action&);
    io::task<void> leave_old_directory(policy::user_name, std::string directory);
    io::task<void> deploy(const policy::action&);

    // out of the world: execute_clear.cpp
    io::task<void> delete_before_replace(const policy::action&);
    io::task<void> retire(const policy::action&);
    io::task<void> remove(const policy::action&);
    io::task<void> forget(const policy::action&);
    io::task<void> delete_remote(platform::exposure_address, std::string instance, std::string id);
    io::task<void> delete_user_of(const policy::user_name&, policy::generation);
    std::vector<policy::remote_user> users_with_key(const policy::user_name&,
                                                    const policy::generation&) const;
    io::task<void> delete_all_of(const policy::user_name&, policy::generation);
    io::task<std::vector<policy::remote_user>> shown_beside(platform::exposure_address, policy::generation);

    // an exposure: execute_instance.cpp
    io::task<void> onboard(const policy::action&);
    io::task<void> remember_instance(const policy::action&);
    io::task<void> forget_instance(const policy::action&);

    // bookkeeping
    io::task<void> note(const policy::action&);

    // The business group to send: the configured one, else what the instance shows, else the tenant's name
    // and no id; and the names of its members, as far as they are known.
    platform::group_choice group_for(const policy::desired_exposure&);
    io::task<void> remember_fields(std::string exposure, policy::group_fields);

    policy::instant now() const { return world_.outside().clock.now(); }
    policy::generation& generation(const policy::action& a)
    {
        return *world_.user(a.name).find(a.generation);
    }
    boost::asio::any_io_executor pool() { return world_.outside().pool; }

    world& world_;
};

}  // namespace reconcile
