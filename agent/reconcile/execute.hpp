#pragma once

#include "agent/reconcile/state.hpp"
#include "policy/action.hpp"
#include "policy/events.hpp"

#include <functional>
#include <vector>

// Performs the actions of a plan, one straight-line coroutine per action. Decides nothing: it records what
// happened, and the next plan starts from those records. Every intent is stored before its effect takes
// place.

namespace reconcile {

class executor {
public:
    // `held`: the lock of the exposure that the actions belong to.
    executor(state& s, const state::hold& held, policy::origin from = {})
        : state_(s), held_(held), origin_(std::move(from))
    {
    }

    // Performs the action and records it on stable storage; recording a failure is up to the caller. Hooks go
    // through run_hooks() instead.
    io::task<void> perform(policy::action);

private:
    io::task<void> record(const policy::action& a, policy::user_event what)
    {
        return state_.record(held_, a.name, std::move(what), origin_);
    }
    // `with` goes into the same transaction.
    io::task<void> record(const policy::action& a, policy::user_event what, disk::change with)
    {
        return state_.record(held_, a.name, std::move(what), origin_, std::move(with));
    }

    // execute.cpp: exposures, issuing a generation
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

    // execute_use.cpp: verifying and publishing
    io::task<void> verify(const policy::action&);
    io::task<void> publish(const policy::action&);
    io::task<void> leave_old_directory(const policy::action&, std::string directory);

    // execute_delete.cpp: deleting from the platform
    io::task<void> delete_before_replace(const policy::action&);
    io::task<void> retire(const policy::action&);
    io::task<void> remove(const policy::action&);
    io::task<void> forget(const policy::action&);
    io::task<void> delete_remote(platform::exposure_address, std::string instance, std::string id);
    io::task<void> delete_if_ours(const policy::action&, policy::generation, std::string id);
    io::task<void> delete_user_of(const policy::action&, policy::generation);
    // True when this pass has listed that user.
    bool is_listed(const std::string& exposure, const std::string& id) const;
    std::vector<policy::remote_user> users_with_key(const policy::user_name&,
                                                    const policy::generation&) const;
    io::task<void> delete_all_of(const policy::action&, policy::generation);
    io::task<std::vector<policy::remote_user>> shown_beside(platform::exposure_address, policy::generation);

    // The business group to send: the configured one, else the one that the instance shows, else the tenant's
    // name without an id; and the names of its JSON members, if known.
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

// Called with the outcome of a user's hooks, while the exposure's lock is held.
using hooks_listener = std::function<io::awaitable<void>(const state::hold&, const policy::action&,
                                                         const policy::result<void>& outcome)>;

// Runs the hooks of these users of one exposure, and releases its lock meanwhile. If a user's hooks are
// already running, waits for them instead. Takes the lock again to record each outcome, on the record as it
// is by then.
io::awaitable<void> run_hooks(state&, state::hold&, std::vector<policy::action>, policy::origin,
                              hooks_listener ended);

}  // namespace reconcile
