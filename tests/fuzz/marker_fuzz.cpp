#include "policy/naming.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// Descriptions written by others on the platform: any marker found is one that we could have written, and it
// is also found after any other text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto found = policy::find_marker(text);
    if (!found) return 0;
    if (text.find(policy::marker_text(*found)) == std::string_view::npos) std::abort();
    if (policy::find_marker(policy::describe(text, *found)) != found) std::abort();
    return 0;
}
