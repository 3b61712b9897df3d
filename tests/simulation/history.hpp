#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

// One history: everything in it follows from its seed.

namespace simulation {

struct options {
    std::uint64_t seed = 1;
    std::uint64_t steps = 20'000;  // then faults stop, and everything must converge
    std::filesystem::path root;
    bool verbose = false;
    bool power = false;        // every life ends with a power cut
    std::uint64_t states = 0;  // that are built of each cut and judged, besides the one that goes on
    // Number of events (faults and actions of others) before they stop, and those before it that do not
    // happen: a failure with few events is easy to read.
    std::uint64_t events = ~0ULL;
    std::set<std::uint64_t> skipped = {};
};

// The number of the power cut at the end of a life: events in time have smaller ones.
inline constexpr std::uint64_t power_cuts = 1'000'000;
inline constexpr std::uint64_t state_losses = 2'000'000;  // the same for a loss of the private directory

struct outcome {
    std::vector<std::string> broken;  // violated invariants, with details
    std::uint64_t steps = 0;
    std::uint64_t events = 0;
    std::vector<std::uint64_t> happened;           // numbers of the events and power cuts
    std::map<std::string, std::uint64_t> counted;  // "most ...": the largest value, else a sum
};

outcome play(const options&);

}  // namespace simulation
