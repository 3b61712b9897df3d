#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

// One history: a seed, and all that follows from it.

namespace simulation {

struct options {
    std::uint64_t seed = 1;
    std::uint64_t steps = 20'000;  // then the faults stop, and everything must converge
    std::filesystem::path root;
    bool verbose = false;
    bool power = false;  // every life ends in a power cut
    // So many times somebody or something interferes, and then nobody does: what breaks with few is easy to
    // read.
    std::uint64_t events = ~0ULL;
};

struct outcome {
    std::vector<std::string> broken;  // laws, with what happened
    std::uint64_t steps = 0;
    std::uint64_t events = 0;
    std::map<std::string, std::uint64_t> counted;
};

outcome play(const options&);

}  // namespace simulation
