#pragma once

#include "tests/policy/model/agent.hpp"
#include "tests/policy/model/laws.hpp"
#include "tests/policy/model/world.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

namespace model {

// Result of one history.
struct ending {
    std::string broken;  // the invariant that was violated; empty: none
    std::deque<std::string> tail;
    std::uint64_t steps = 0, posts = 0, deletions = 0;
    std::uint64_t kills = 0;
};

// Plays one history: a random configuration with random faults, then convergence without faults.
class history {
public:
    history(std::uint64_t seed, bool loud, bool everything);
    ending play();

private:
    // ---- storm.cpp: random events
    void found_configuration();
    void change_weather();
    void something_happens();
    void edit_file();
    void others_act();
    void disk_suffers();
    void time_passes();
    void person_speaks();
    void pass(policy::plan_options = {});
    void survive(const std::function<void()>&);

    // ---- converge.cpp: invariants after the faults have stopped
    void clear_sky();
    void help();
    std::string unsettled() const;
    std::string unsettled_user(const policy::desired_exposure&, const policy::desired_user&) const;
    std::string unsettled_leftovers() const;
    void show_all();
    void converge(const char* when);

    policy::desired_exposure& some_exposure();
    policy::desired_user* some_user();
    policy::desired_user new_user(const std::string& exposure, const std::string& name);

    world w_;
    laws laws_;
    agent agent_;
    instant wake_;  // on the agent's clock
    std::optional<disk> snapshot_;
    std::uint64_t kills_ = 0;
};

}  // namespace model
