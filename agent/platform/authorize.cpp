#include "agent/platform/authorize.hpp"

#include "agent/platform/address.hpp"
#include "agent/platform/shown.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace platform {
namespace {

constexpr std::size_t longest_paste = 64 << 10;

policy::failure no_code(std::string why)
{
    return {
        .code = policy::errc::usage,
        .context = std::move(why) +
                   ": paste the whole address that the browser was sent to after the login, or the value of "
                   "code in it",
        .kind = policy::retry::never};
}

std::string_view trimmed(std::string_view text)
{
    constexpr std::string_view around = " \t\r\n\"'<>";
    const auto first = text.find_first_not_of(around);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(around) - first + 1);
}

// The query of an address, a query with or without its "?", or nothing.
std::string_view query_in(std::string_view text)
{
    text = text.substr(0, text.find('#'));
    if (const auto mark = text.find('?'); mark != std::string_view::npos) return text.substr(mark + 1);
    if (text.find("://") != std::string_view::npos) return {};
    const bool named = text.starts_with("code=") || text.starts_with("error=") ||
                       text.find("&code=") != std::string_view::npos ||
                       text.find("&error=") != std::string_view::npos;
    return named ? text : std::string_view();
}

// The first value of each name, still escaped.
std::map<std::string_view, std::string_view> fields_of(std::string_view query)
{
    std::map<std::string_view, std::string_view> fields;
    while (!query.empty()) {
        const auto field = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(field.size() + 1, query.size()));
        const auto equals = std::min(field.find('='), field.size());
        fields.emplace(field.substr(0, equals), field.substr(std::min(equals + 1, field.size())));
    }
    return fields;
}

bool looks_like_a_code(std::string_view text)
{
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

policy::failure reported(std::string_view error, std::string_view description)
{
    std::string words = shown(unescaped(error, true));
    if (!description.empty()) words += ": " + shown(unescaped(description, true));
    return {.code = policy::errc::refused,
            .context = "the identity provider refused the login: " + words,
            .kind = policy::retry::never};
}

}  // namespace

std::string authorize_url(const policy::identity_settings& settings, std::string_view state)
{
    auto url = settings.auth_url + "/auth/oauth2/authorize?" +
               form({{"response_type", "code"},
                     {"client_id", settings.client_id},
                     {"redirect_uri", settings.redirect_url}});
    if (!state.empty()) url += "&" + form({{"state", state}});
    return url;
}

policy::result<redirected> parse_redirected(std::string_view text)
{
    if (text.size() > longest_paste) return no_code("this is too long for a redirected address");
    text = trimmed(text);
    if (text.empty()) return no_code("nothing was given");
    const auto query = query_in(text);
    const bool bare = query.empty() && text.find_first_of("/?#") == std::string_view::npos;
    auto fields = fields_of(query);
    if (bare) fields["code"] = text;
    if (!fields["error"].empty()) return reported(fields["error"], fields["error_description"]);
    auto code = unescaped(fields["code"], false);
    if (!looks_like_a_code(code)) return no_code("there is no authorization code in it");
    return redirected{.code = crypto::secret(std::move(code)),
                      .state = unescaped(fields["state"], true),
                      .userstore = unescaped(fields["userstore"], true)};
}

policy::result<void> check_state(const redirected& redirected, std::string_view sent)
{
    if (redirected.state.empty() || redirected.state == sent) return {};
    return policy::failure{.code = policy::errc::refused,
                           .context =
                               "the redirected address belongs to another login (its state is not the one "
                               "that was sent): open the address that was just printed",
                           .kind = policy::retry::never};
}

}  // namespace platform
