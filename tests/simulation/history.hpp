#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

// One history: everything in it follows from its seed.

namespace simulation {

struct options {
    std::uint64_t seed = 1;
    std::uint64_t steps = 20'000;  // then faults stop, and everything must converge
    std::filesystem::path root;
    bool verbose = false;
    bool power = false;  // every life ends with a power cut
    // Number of events (faults and actions of others) before they stop: a failure with few events is easy to
    // read.
    std::uint64_t events = ~0ULL;
};

struct outcome {
    std::vector<std::string> broken;  // violated invariants, with details
    std::uint64_t steps = 0;
    std::uint64_t events = 0;
    std::map<std::string, std::uint64_t> counted;
};

outcome play(const options&);

}  // namespace simulation
