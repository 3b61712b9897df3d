#pragma once

#include "agent/reconcile/state.hpp"
#include "policy/action.hpp"
#include "policy/events.hpp"

#include <functional>
#include <vector>

// Performs what the plan says: one straight-line coroutine an action. It decides nothing: it reports what
// happened, and the next plan starts from the records that this leaves. Every intent is stored before its
// effect.

namespace reconcile {

class executor {
public:
    // In the turn of the exposure that the actions are about.
    executor(state& s, const state::hold& held, policy::origin from = {})
        : state_(s), held_(held), origin_(std::move(from))
    {
    }

    // The action's effect, and its record on stable storage. A failure is not yet remembered. Hooks are for
    // run_hooks().
    io::task<void> perform(policy::action);

private:
    io::task<void> record(const policy::action& a, policy::user_event what)
    {
        return state_.record(held_, a.name, std::move(what), origin_);
    }
    // With what belongs to the same transaction.
    io::task<void> record(const policy::action& a, policy::user_event what, disk::change with)
    {
        return state_.record(held_, a.name, std::move(what), origin_, std::move(with));
    }

    // execute.cpp: an exposure, a generation on its way
    io::task<void> onboard(const policy::action&);
    io::task<void> remember_instance(const policy::action&);
    io::task<void> forget_instance(const policy::action&);
    io::task<void> note(const policy::action&);
    io::task<void> issue(const policy::action&);
    io::task<void> submit(const policy::action&);
    io::task<void> adopt(const policy::action&);
    io::task<void> disown(policy::action, std::string id, std::string why);
    bool is_another_user(const policy::user_name&, const policy::generation&,
                         const policy::remote_user&) const;
    io::task<void> collect(const policy::action&);

    // execute_use.cpp: into use
    io::task<void> verify(const policy::action&);
    io::task<void> publish(const policy::action&);
    io::task<void> leave_old_directory(const policy::action&, std::string directory);

    // execute_delete.cpp: off the platform
    io::task<void> delete_before_replace(const policy::action&);
    io::task<void> retire(const policy::action&);
    io::task<void> remove(const policy::action&);
    io::task<void> forget(const policy::action&);
    io::task<void> delete_remote(platform::exposure_address, std::string instance, std::string id);
    io::task<void> delete_if_ours(const policy::action&, policy::generation, std::string id);
    io::task<void> delete_user_of(const policy::action&, policy::generation);
    std::vector<policy::remote_user> users_with_key(const policy::user_name&,
                                                    const policy::generation&) const;
    io::task<void> delete_all_of(const policy::action&, policy::generation);
    io::task<std::vector<policy::remote_user>> shown_beside(platform::exposure_address, policy::generation);

    // The business group to send: the configured one, else what the instance shows, else the tenant's name
    // and no id; and the names of its members, as far as they are known.
    platform::group_choice group_for(const policy::desired_exposure&);
    io::task<void> remember_fields(const policy::desired_exposure&, policy::group_fields);

    policy::instant now() const { return state_.outside().clock.now(); }
    // A copy: the record may change while it is used.
    policy::result<policy::generation> generation(const policy::action&);
    boost::asio::any_io_executor pool() { return state_.outside().pool; }

    state& state_;
    const state::hold& held_;
    policy::origin origin_;
};

// Told how the hooks of a user ended, in a turn of its exposure.
using hooks_listener = std::function<io::awaitable<void>(const state::hold&, const policy::action&,
                                                         const policy::result<void>& outcome)>;

// Runs the hooks of these users of one exposure, whose turn is given back meanwhile; those of one user that
// run already are waited for instead. What their end changes is recorded in a turn of its own, on the record
// as it is then.
io::awaitable<void> run_hooks(state&, state::hold&, std::vector<policy::action>, policy::origin,
                              hooks_listener ended);

}  // namespace reconcile
