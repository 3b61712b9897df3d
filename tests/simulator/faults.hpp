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

// Rules that inject faults into matching requests. README.md describes the keys of a rule.

namespace simulator {

enum class delivery { answer, close, reset, hang };
enum class framing { length, chunked, until_close };

// What happens to a request. Default: it is processed and answered.
struct effect {
    std::string rule{};                        // name of the rule, for the journal; empty: none
    std::chrono::milliseconds delay{0};        // before processing
    std::chrono::milliseconds delay_after{0};  // between processing and the response
    std::optional<std::chrono::milliseconds>
        late;  // the response is sent first, and the request processed this much later
    bool work = true;
    std::optional<response> instead{};  // sent instead of the actual response
    delivery how = delivery::answer;
    framing frame = framing::length;
    std::optional<std::size_t> truncate{};  // close the connection after this many bytes of the body
    std::size_t huge = 0;                   // send a body of this many bytes
    std::chrono::milliseconds drip{0};      // pause before each byte of the body
};

class fault_rules {
public:
    // Adds the rules; throws bad_request on an unknown key or value.
    void add(const boost::json::value& rules);
    void clear() { rules_.clear(); }

    // Selects the effect for this request and updates the counters of all matching rules.
    effect arrive(const request& incoming, std::string_view operation);

    // The rules as given, with the counters "seen" and "fired".
    boost::json::array describe() const;

private:
    struct rule {
        boost::json::value given{};
        std::string method{};
        std::optional<std::regex> path{};
        std::vector<std::string> operations{};
        std::uint64_t nth = 1;
        std::uint64_t times = 1;  // 0: unlimited
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
