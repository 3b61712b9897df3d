#include "agent/platform/token_answer.hpp"

#include "agent/platform/json.hpp"
#include "agent/platform/wiping_storage.hpp"
#include "crypto/digest.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>

namespace platform {

namespace json = boost::json;

namespace {

constexpr std::int64_t longest_life = 10LL * 365 * 86400;  // s; beyond it, expires_in is not believed
constexpr std::int64_t last_instant = 253'402'300'799;     // 9999-12-31T23:59:59Z

// Digits up to a fraction; none for everything else.
std::optional<std::int64_t> seconds_in(const json::object& object, std::string_view key)
{
    const auto text = text_of(object, key);
    std::int64_t value = 0;
    const auto end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec != std::errc() || (read.ptr != end && *read.ptr != '.')) return std::nullopt;
    return value;
}

// A token goes into a header: nothing but visible ASCII does (RFC 6750 section 2.1, RFC 6749 appendix A).
crypto::secret token_in(const json::object& object, const char* key)
{
    const auto* value = object.if_contains(key);
    const auto* text = value == nullptr ? nullptr : value->if_string();
    if (text == nullptr || !std::ranges::all_of(*text, [](char c) { return c > ' ' && c < '\x7f'; }))
        return {};
    return crypto::secret(std::string_view(text->data(), text->size()));
}

}  // namespace

token_claims read_claims(const crypto::secret& token)
{
    const auto text = token.view();
    const auto first = text.find('.');
    const auto second = first == std::string_view::npos ? first : text.find('.', first + 1);
    if (second == std::string_view::npos) return {};
    const auto payload = crypto::base64_decode(text.substr(first + 1, second - first - 1));
    if (!payload) return {};
    const auto claims = parse_object(*payload);
    if (!claims) return {};
    token_claims found;
    const auto exp = seconds_in(*claims, "exp");
    if (exp && *exp > 0 && *exp <= last_instant) found.expires_at = policy::instant(policy::duration(*exp));
    for (const auto key : {"sub", "prn", "user", "user_name", "preferred_username"})
        if (found.subject.empty()) found.subject = text_of(*claims, key);
    return found;
}

policy::result<token_answer> read_token_answer(std::string_view body, policy::instant now)
{
    wiping_storage memory;
    const auto object = parse_object(body, &memory);
    if (!object) return object.error();
    token_answer answer{.access_token = token_in(*object, "access_token"),
                        .refresh_token = token_in(*object, "refresh_token"),
                        .expires_at = std::nullopt,
                        .subject = {}};
    if (answer.access_token.empty()) return unexpected_answer("it has no access token");
    auto claims = read_claims(answer.access_token);
    answer.subject = std::move(claims.subject);
    const auto life = seconds_in(*object, "expires_in");
    answer.expires_at =
        life && *life > 0 && *life <= longest_life ? now + policy::duration(*life) : claims.expires_at;
    return answer;
}

}  // namespace platform
