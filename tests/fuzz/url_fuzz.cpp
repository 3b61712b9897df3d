#include "agent/io/url.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// A URL, a proxy URL and a NO_PROXY list, one per line: whatever is accepted survives a round trip, and no
// error message repeats its input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view all(reinterpret_cast<const char*>(data), size);
    const auto first = all.substr(0, all.find('\n'));
    const auto rest = all.substr(std::min(first.size() + 1, all.size()));
    const auto second = rest.substr(0, rest.find('\n'));
    const auto third = rest.substr(std::min(second.size() + 1, rest.size()));

    const auto address = io::parse_http_address(first);
    if (!address) return 0;
    const auto again = io::parse_http_address(io::origin(*address) + address->target);
    if (!again || *again != *address) std::abort();
    if (address->target.find_first_of("\r\n ") != std::string::npos) std::abort();

    io::proxy_environment environment;
    environment.no_proxy = std::string(third);
    const bool bypassed = io::bypasses_proxy(*address, third);
    const auto via = io::proxy_for(*address, std::string(second), environment);
    if (bypassed && via && via->has_value()) std::abort();
    return 0;
}
