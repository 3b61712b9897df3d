#include "crypto/certificate.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// Arbitrary certificates: read_chain never throws, and whatever it accepts can be ordered, verified and
// printed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const auto chain = crypto::read_chain(std::string_view(reinterpret_cast<const char*>(data), size));
    if (!chain) return 0;
    const auto& fingerprint = chain->back().facts.public_key_fingerprint;
    const auto ordered = crypto::order_chain(*chain, fingerprint);
    if (!ordered || crypto::read_chain(ordered->leaf.pem()).value().front() != ordered->leaf) std::abort();
    if (crypto::judge(ordered->leaf, fingerprint, {}) == crypto::verdict::wrong_key) std::abort();
    return 0;
}
