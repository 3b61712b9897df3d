#pragma once

#include "policy/desired.hpp"

#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Names that are sent to the platform: common name, description and its marker (contract section 3).

namespace policy {

// exposure/user: how people and markers refer to a desired user.
struct user_name {
    std::string exposure;
    std::string user;

    auto operator<=>(const user_name&) const = default;
    std::string text() const { return exposure + "/" + user; }
};
BOOST_DESCRIBE_STRUCT(user_name, (), (exposure, user))

// EXPOSURE/USER: exactly one slash, and neither part empty.
std::optional<user_name> parse_user_name(std::string_view);

// "logs", "health" or "lifecycle": the prefix of common names and topics.
const char* prefix_of(variant) noexcept;

// The generation id of a key: the first 8 hex digits of the SHA-256 of its SubjectPublicKeyInfo.
std::string generation_id(std::string_view fingerprint);
bool is_generation_id(std::string_view) noexcept;

// <prefix>-<tenant>-<user>-<generation>
std::string common_name(variant, std::string_view tenant, std::string_view user, std::string_view generation);

// The agent's marker in a user's description: who created it, for which user, with which key.
struct marker {
    std::string owner;
    user_name name;
    std::string key;  // first 16 hex digits of the public key's SHA-256

    bool operator==(const marker&) const = default;
};

std::string marker_key(std::string_view fingerprint);
std::string marker_text(const marker&);

// The configured text, a blank and the marker; the marker alone when there is no text.
std::string describe(std::string_view text, const marker&);

// The last complete marker in a description, at any position.
std::optional<marker> find_marker(std::string_view description);

// True when `shown` is a prefix of what we sent and still contains part of our marker:
// the platform truncated it.
bool is_cut_off(std::string_view shown, std::string_view sent);

// "1 user", "2 users", "0 users".
inline std::string count(std::size_t number, const std::string& noun)
{
    return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

// The sentence, prefixed with `whom: ` unless it already names them. A path or a command in it names nobody.
std::string about(const std::string& whom, const std::string& sentence);

inline std::string about(const user_name& name, const std::string& sentence)
{
    return about(name.text(), sentence);
}

}  // namespace policy
