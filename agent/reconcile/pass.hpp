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
    std::set<policy::user_name> only;  // empty: every user
    bool scheduled = false;            // one of the service's own, which repeat
    bool interactive = false;          // a person waits: failed steps are tried again soon, a few times
    policy::origin from;               // for the history
};

// What one pass left: whether to observe again, and when.
struct pass_outcome {
    policy::plan_result plan;                       // the last one, with nothing left to do now
    std::optional<policy::failure> observe_failed;  // the exposure could not be looked at
    std::optional<std::chrono::milliseconds> soon;  // something is on its way: observe again then
    bool acted = false;
};

// Told of every step as it begins and ends, for progress bars and metrics.
using step_listener = std::function<void(const policy::action&, const policy::result<void>* outcome)>;

// What is remembered of a step that failed, in a pass as after a verb.
policy::user_event failure_of(state&, const policy::action&, const policy::failure&);

class exposure_pass {
public:
    exposure_pass(state& s, std::string exposure, step_listener listener = {});

    // In the exposure's turn, which is given back while hooks run.
    io::awaitable<pass_outcome> run(state::hold&, pass_options);

    // Users whose steps failed for good in this run of a person's, with the last sentence.
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
    std::map<policy::user_name, int> failures_;  // in the records, when this pass last knew of each
    std::map<policy::user_name, std::string> failed_;
    int failed_observations_ = 0;
    bool has_instance_ = false;                 // in this pass, as are these
    bool platform_failed_ = false;              // a step met a platform that could not serve it
    std::optional<policy::instant> listed_at_;  // in this pass, and worth remembering
    std::chrono::milliseconds poll_{0};
};

}  // namespace reconcile
