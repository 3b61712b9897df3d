#include "policy/fingerprint.hpp"

#include <array>
#include <cstdio>

namespace policy {
std::uint64_t stable_hash(std::string_view text) noexcept
{
    std::uint64_t hash = 14695981039346656037ULL;
    for (const unsigned char c : text)
        hash = (hash ^ c) * 1099511628211ULL;
    return hash;
}

std::string stable_fingerprint(std::string_view text)
{
    std::array<char, 17> hex{};
    std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(stable_hash(text)));
    return hex.data();
}

std::string entry_fingerprint(const desired_exposure& exposure, const desired_user& user)
{
    std::string text;
    append_canonical<&desired_exposure::name, &desired_exposure::users>(text, exposure);
    append_canonical(text, user);
    return stable_fingerprint(text);
}

std::string entry_fingerprint(const desired_credential& credential)
{
    std::string text;
    append_canonical<&desired_credential::name, &desired_credential::interval, &desired_credential::hooks>(
        text, credential);
    return stable_fingerprint(text);
}

}  // namespace policy
