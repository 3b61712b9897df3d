#pragma once

#include "policy/action.hpp"
#include "policy/plan.hpp"
#include "tests/policy/model/world.hpp"

// The invariants of failure-modes 4.0, checked after every effect, independent of how policy decides.

namespace model {

class laws {
public:
    explicit laws(world& w) : w_(w) {}

    // Called after every effect: I1, I2, I5.
    void check() const;
    // Called before the first byte of a POST is sent: I2, I3, I5.
    void on_post(const user_name&, const policy::generation&, const policy::observed_exposure* seen);
    void on_post_result(const policy::generation&, bool certainly_nothing);
    // Called when the platform deletes a user: I4, I8.
    void on_delete(const cloud_user&, const policy::action&, const policy::stored_state& memory,
                   const policy::desired_state& file, const policy::observed_state& seen) const;
    // Called with each plan: I10, wake_at.
    void on_plan(const policy::plan_result&, const policy::stored_state& memory, instant now,
                 const policy::desired_state&) const;
    // Called before an instance is requested: empty is not absent (design 1.5).
    void on_onboard(const policy::stored_exposure&) const;
    void on_publish(const user_name&, const certificate_file&) const;

    // The operator ran `rotate`: the creation budget starts over.
    void rotated(const user_name&);
    // State was lost or restored, so what was counted here no longer applies.
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
