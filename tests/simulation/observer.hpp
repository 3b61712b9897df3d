#pragma once

#include "policy/plan.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

// What the program decides and does. The linker wraps policy::plan, reconcile::executor::perform and
// reconcile::run_hooks, so that every plan and every step is seen here without a line in the shipped code.

namespace simulation {

class observer {
public:
    void planned(const policy::desired_state&, const policy::observed_state&, const policy::stored_state&,
                 policy::instant now, const policy::plan_result&);
    void began(const policy::action&);
    void performed(const policy::action&, const policy::result<void>& outcome);

    // Called with each plan, and what it was made from.
    std::function<void(const policy::desired_state&, const policy::stored_state&, policy::instant now,
                       const policy::plan_result&)>
        on_plan;
    std::function<void(const policy::action&)> on_step;  // of a one-shot
    std::function<void(const policy::action&)> on_any_step;

    // How often each rule, action, outcome of an action and error was reached.
    std::map<std::string, std::uint64_t> counted() const;
    // The same words with 0, for everything that the shipped tables of rules, actions and errors contain.
    static std::map<std::string, std::uint64_t> reachable();

private:
    std::map<policy::reason, std::uint64_t> rules_;
    std::map<policy::errc, std::uint64_t> errors_;
    std::map<policy::action_kind, std::map<std::string, std::uint64_t>> steps_;  // by outcome
};

// Null: nothing is observed.
observer*& the_observer();

}  // namespace simulation
