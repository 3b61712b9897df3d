#pragma once

#include "http.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

// Rules that say which request meets which trouble. The keys of a rule are described in README.md.

namespace simulator {

enum class delivery { answer, close, reset, hang };
enum class framing { length, chunked, until_close };

// What happens to one request. The default: it is processed and answered.
struct effect {
    std::string rule{};                        // the name of the rule, for the journal; empty: none
    std::chrono::milliseconds delay{0};        // before the work
    std::chrono::milliseconds delay_after{0};  // between the work and the answer
    std::optional<std::chrono::milliseconds>
        late;  // the answer goes out first, the work is done this much later
    bool work = true;
    std::optional<response> instead{};  // sent in place of what the work said
    delivery how = delivery::answer;
    framing frame = framing::length;
    std::optional<std::size_t> truncate{};  // so many bytes of the body, then the connection closes
    std::size_t huge = 0;                   // a body of so many bytes
};

class fault_rules {
public:
    // Adds the rules; throws bad_request on a key or a value that no rule has.
    void add(const boost::json::value& rules);
    void clear() { rules_.clear(); }

    // What happens to this request; counts it in every rule that matches.
    effect arrive(const request& incoming, std::string_view operation);

    // The rules as they were given, with the counts "seen" and "fired".
    boost::json::array describe() const;

private:
    struct rule {
        boost::json::value given{};
        std::string method{};
        std::optional<std::regex> path{};
        std::vector<std::string> operations{};
        std::uint64_t nth = 1;
        std::uint64_t times = 1;  // 0: without end
        std::uint64_t sequence = 0;
        effect what;
        std::uint64_t seen = 0;
        std::uint64_t fired = 0;
    };

    static rule read(const boost::json::object& given);
    static bool matches(const rule& candidate, const request& incoming, std::string_view operation);

    std::vector<rule> rules_;
};

}  // namespace simulator
