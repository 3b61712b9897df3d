#include "agent/platform/authorize.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// Arbitrary text pasted by a user or sent by a browser: yields a code that fits a form, or an error message
// without control characters.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const auto read = platform::parse_redirected(std::string_view(reinterpret_cast<const char*>(data), size));
    if (read && read->code.empty()) std::abort();
    const std::string text(read ? std::string(read->code.view()) : read.error().context);
    for (const char c : text)
        if ((c >= 0 && c < ' ') || c == 0x7f) std::abort();
    return 0;
}
