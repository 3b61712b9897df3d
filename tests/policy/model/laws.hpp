#pragma once

#include "policy/action.hpp"
#include "policy/plan.hpp"
#include "tests/policy/model/world.hpp"

// The invariants of failure-modes 4.0, checked after every effect. They know nothing of how policy decides.

namespace model {

class laws {
public:
    explicit laws(world& w) : w_(w) {}

    // After every effect: I1, I2, I5.
    void check() const;
    // Before the first byte of a POST leaves: I2, I3, I5.
    void on_post(const user_name&, const policy::generation&, const policy::observed_exposure* seen);
    void on_post_result(const policy::generation&, bool certainly_nothing);
    // The platform deletes: I4, I8.
    void on_delete(const cloud_user&, const policy::action&, const policy::stored_state& memory,
                   const policy::desired_state& file, const policy::observed_state& seen) const;
    // A plan: I10, wake_at.
    void on_plan(const policy::plan_result&, const policy::stored_state& memory, instant now,
                 const policy::desired_state&) const;
    // Before an instance is asked for: empty is not absent (design 1.5).
    void on_onboard(const policy::stored_exposure&) const;
    void on_publish(const user_name&, const certificate_file&) const;

    // A person said `rotate`: the budget starts anew.
    void rotated(const user_name&);
    // State was lost or restored: what is counted here was forgotten with it.
    void forget()
    {
        creations_.clear();
        sent_.clear();
    }

    [[noreturn]] void broken(const std::string& law) const;

private:
    void check_budget(const user_name&, instant made);
    void check_retirement(const policy::action&, const policy::stored_user&,
                          const policy::desired_user*) const;

    struct request {
        policy::submission sent;
        instant at;  // on the agent's clock
        bool certainly_nothing = false;
    };

    world& w_;
    std::map<user_name, std::vector<instant>> creations_;
    std::map<user_name, instant> rotated_;
    std::map<std::string, request> sent_;  // by key
};

}  // namespace model
