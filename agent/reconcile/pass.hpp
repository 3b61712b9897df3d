#pragma once

#include "agent/reconcile/execute.hpp"
#include "policy/plan.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

// One exposure, pass after pass: observe, plan, perform, observe again. The daemon sleeps between passes,
// `reconcile` repeats them until nothing is left to do.

namespace reconcile {

struct pass_options {
    policy::plan_options plan;
    std::set<policy::user_name> only;              // empty: every user
    std::optional<policy::instant> previous = {};  // pass of the service's schedule, or when that began
    bool interactive = false;   // a person waits: failed steps are retried soon, a few times
    bool logs_failures = true;  // false: the caller prints them
    policy::origin from;        // for the history
};

// The outcome of one pass: whether to observe again, and when.
struct pass_outcome {
    policy::plan_result plan;                       // the last one, with nothing left to do now
    std::optional<policy::failure> observe_failed;  // the exposure could not be observed
    std::optional<std::chrono::milliseconds> soon;  // something is in progress: observe again after this
    bool acted = false;
};

// Called when a step begins (outcome: null) and when it ends, for progress bars and metrics.
using step_listener = std::function<void(const policy::action&, const policy::result<void>* outcome)>;

// The event that records a failed step, of a pass or of a command.
policy::user_event failure_of(state&, const policy::action&, const policy::failure&);

class exposure_pass {
public:
    exposure_pass(state& s, std::string exposure, step_listener listener = {});

    // Needs the exposure's lock; releases it while hooks run.
    io::awaitable<pass_outcome> run(state::hold&, pass_options);

    // Users whose steps failed for good in this interactive run, with the last error.
    const std::map<policy::user_name, std::string>& failed() const { return failed_; }

private:
    class turn_of_pass;

    policy::plan_result plan(const pass_options&) const;
    io::awaitable<void> keep_observations();
    std::vector<policy::action> mine(std::vector<policy::action>, const pass_options&) const;
    io::awaitable<void> follow_entries();
    io::awaitable<std::optional<policy::failure>> observe_exposure(const pass_options&);
    io::awaitable<void> remember_exposure(policy::failure, std::string what, pass_options);
    io::awaitable<void> forget_failure();
    io::awaitable<void> remember_list();
    io::awaitable<void> perform_all(std::vector<policy::action>, pass_options);
    io::awaitable<void> perform_in_order(std::vector<policy::action>, pass_options);
    io::awaitable<void> perform_hooks(std::vector<policy::action>, pass_options);
    io::awaitable<void> remember_failure(const state::hold&, policy::action, policy::failure, pass_options);
    io::awaitable<void> keep_conclusions(policy::decision);
    io::awaitable<void> keep_conclusions(policy::plan_result);
    std::optional<std::chrono::milliseconds> next_pass(const pass_outcome&, bool onboarding,
                                                       const pass_options&);

    state& state_;
    state::hold* held_ = nullptr;  // set while a pass runs (turn_of_pass)
    std::string exposure_;
    step_listener listener_;
    std::map<policy::user_name, int> attempts_;
    std::map<policy::user_name, int> failed_attempts_;  // in the record, when this pass last counted them
    std::map<policy::user_name, std::string> failed_;
    int failed_observations_ = 0;
    bool has_instance_ = false;                 // of this pass, like the next two
    bool platform_failed_ = false;              // a step failed because of the platform
    bool interrupted_ = false;                  // a step ended early, perhaps because of a stop request
    std::optional<policy::instant> listed_at_;  // when the users were listed, if that is to be stored
    policy::instant planned_at_;                // when the last plan of this pass was made
    std::chrono::milliseconds poll_{0};
};

}  // namespace reconcile
