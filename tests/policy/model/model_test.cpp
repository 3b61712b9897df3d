#include "tests/policy/model/history.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

// Random histories of the real policy::plan: platform and disk in memory, an executor that is killed before
// and after every effect, lost and late responses, duplicates, delays, wrong answers, deletions and marker
// changes by others, edits of the file, lost and restored state, clock steps, and operators who rotate, roll
// back and accept losses. Invariants I1 to I10 hold after every step; once faults stop, everything converges.
//
//   model-test                    1,000,000 steps of histories, starting at seed 1
//   model-test --seed 42          this history only, with its tail if an invariant is violated
//   model-test --seed 42 --verbose            ... and every line of it
//   model-test --seed 42 --steps 100000       histories starting at seed 42

namespace {

struct request {
    std::uint64_t seed = 1;
    std::uint64_t steps = 1'000'000;
    bool one = false;
    bool verbose = false;
};

request read(int argc, char** argv)
{
    request asked;
    bool counted = false;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const bool more = i + 1 < argc;
        if (word == "--verbose") {
            asked.verbose = true;
        } else if (word == "--seed" && more) {
            asked.seed = std::strtoull(argv[++i], nullptr, 10);
            asked.one = true;
        } else if (word == "--steps" && more) {
            asked.steps = std::strtoull(argv[++i], nullptr, 10);
            counted = true;
        } else {
            std::fprintf(stderr, "usage: model-test [--seed N] [--steps M] [--verbose]\n");
            std::exit(64);
        }
    }
    asked.one = asked.one && !counted;
    return asked;
}

void print(const model::ending& end, std::uint64_t seed)
{
    for (const auto& line : end.tail)
        std::printf("%s\n", line.c_str());
    std::printf("BROKEN after %llu steps: %s\nreplay: model-test --seed %llu --verbose\n",
                static_cast<unsigned long long>(end.steps), end.broken.c_str(),
                static_cast<unsigned long long>(seed));
}

}  // namespace

int main(int argc, char** argv)
{
    const auto asked = read(argc, argv);
    const auto began = std::chrono::steady_clock::now();
    std::uint64_t steps = 0, histories = 0, posts = 0, deletions = 0, kills = 0;
    for (auto seed = asked.seed; histories == 0 || (!asked.one && steps < asked.steps); ++seed) {
        const auto end = model::history(seed, asked.verbose, asked.verbose).play();
        ++histories;
        steps += end.steps;
        posts += end.posts;
        deletions += end.deletions;
        kills += end.kills;
        if (asked.verbose && end.broken.empty()) continue;
        if (!end.broken.empty()) {
            print(asked.verbose ? end : model::history(seed, true, false).play(), seed);
            return EXIT_FAILURE;
        }
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf(
        "%llu steps in %llu histories from seed %llu: %llu POSTs, %llu deletions, %llu kills, %.1f s; "
        "every law held\n",
        static_cast<unsigned long long>(steps), static_cast<unsigned long long>(histories),
        static_cast<unsigned long long>(asked.seed), static_cast<unsigned long long>(posts),
        static_cast<unsigned long long>(deletions), static_cast<unsigned long long>(kills), took.count());
    return EXIT_SUCCESS;
}
