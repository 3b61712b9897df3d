#include "policy/dates.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// Every text either is a date or is rejected, and every date survives a round trip through our format.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const auto when = policy::parse_date(std::string_view(reinterpret_cast<const char*>(data), size));
    if (when && policy::parse_date(policy::format_utc(*when)) != when) std::abort();
    return 0;
}
