#include "agent/platform/token_endpoint.hpp"
#include "agent/platform/token_record.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// Responses of the token endpoint, tokens, and our own file: no reader throws, a token fits in a header, and
// a record that was read survives a round trip through our format.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    (void)platform::read_claims(crypto::secret(text));
    if (const auto answer = platform::read_token_answer(text, policy::instant())) {
        const auto token = answer->access_token.view();
        if (token.empty() || token.find_first_of(" \r\n") != std::string_view::npos) std::abort();
    }
    if (const auto record = platform::read_tokens(text)) {
        const auto written = platform::write_tokens(*record);
        const auto again = platform::read_tokens(written.view());
        if (!again || platform::write_tokens(*again) != written) std::abort();
    }
    return 0;
}
