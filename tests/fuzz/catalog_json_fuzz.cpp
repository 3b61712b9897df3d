#include "agent/platform/catalog_client.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// Responses of the catalog service: no reader throws, every wanted element has a value or an error message,
// and a template that accepts an assignment is still a template.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view body(reinterpret_cast<const char*>(data), size);
    const auto state = platform::read_request_state(body);
    if (state && (state->text.empty() || (state->succeeded && !state->finished))) std::abort();
    const auto values = platform::extract_values(body, {"a", "provider-accessKeyID"});
    if (values && values->values.size() + values->missing.size() != 2) std::abort();
    const auto laid = platform::overlay(body, {"planName=small"});
    if (laid && !platform::overlay(*laid, {"planName=2"})) std::abort();
    (void)platform::read_submitted_id(body, body);
    return 0;
}
