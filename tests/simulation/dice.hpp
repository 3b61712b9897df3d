#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>

// All random decisions of a history derive from one seed (splitmix64).

namespace simulation {

class dice {
public:
    explicit dice(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next()
    {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    // 0 to count - 1
    std::uint64_t below(std::uint64_t count) { return next() % count; }
    std::int64_t between(std::int64_t from, std::int64_t to)
    {
        return from + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(to - from) + 1));
    }
    bool chance(double share) { return static_cast<double>(next() >> 11) * 0x1.0p-53 < share; }
    template <class T>
    T of(std::initializer_list<T> choices)
    {
        return *std::next(choices.begin(), static_cast<std::ptrdiff_t>(below(choices.size())));
    }
    std::string hex(int digits)
    {
        std::string text;
        while (digits-- > 0)
            text += "0123456789abcdef"[below(16)];
        return text;
    }

private:
    std::uint64_t state_;
};

}  // namespace simulation
