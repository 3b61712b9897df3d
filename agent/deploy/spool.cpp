#include "agent/deploy/spool.hpp"

#include <boost/json.hpp>

#include <algorithm>

namespace deploy {
namespace {

namespace json = boost::json;

constexpr std::size_t longest_entry_name = 180;  // room for what a temporary name adds, within NAME_MAX
constexpr std::size_t longest_word = 64;
constexpr std::size_t longest_failure = 4096;
constexpr char joint = '+';  // in no name of the configuration

bool is_digit_or(char c, char first, char last)
{
    return (c >= '0' && c <= '9') || (c >= first && c <= last);
}

// [a-z0-9-]*[a-z0-9], as names in the configuration
bool is_name(std::string_view text)
{
    return !text.empty() && text.back() != '-' &&
           std::ranges::all_of(text, [](char c) { return c == '-' || is_digit_or(c, 'a', 'z'); });
}

bool is_word(std::string_view text)
{
    return text.size() <= longest_word && std::ranges::all_of(text, [](char c) {
               return is_digit_or(c, 'a', 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
           });
}

bool is_ticket(std::string_view text)
{
    return !text.empty() && text.size() <= longest_word &&
           std::ranges::all_of(text, [](char c) { return is_digit_or(c, 'a', 'f'); });
}

policy::failure strange(const char* what)
{
    return {.code = policy::errc::bad_answer,
            .context = std::string(what) + " is not one that exposure-agent writes",
            .kind = policy::retry::never};
}

std::optional<json::object> object_in(std::string_view text)
{
    json::error_code error;
    auto document = json::parse(text, error);
    if (error || !document.is_object()) return {};
    return std::move(document.get_object());
}

std::optional<std::string> text_in(const json::object& object, std::string_view key)
{
    const auto* value = object.if_contains(key);
    if (!value || !value->is_string()) return {};
    return std::string(value->get_string());
}

}  // namespace

std::optional<std::string> spool_entry_name(const policy::user_name& name)
{
    if (!(name.exposure.empty() || is_name(name.exposure)) || !is_name(name.user)) return {};
    auto entry = name.exposure + joint + name.user;
    if (entry.size() > longest_entry_name) return {};
    return entry;
}

std::optional<policy::user_name> parse_spool_entry_name(std::string_view entry)
{
    const auto at = entry.find(joint);
    if (at == std::string_view::npos) return {};
    policy::user_name name{std::string(entry.substr(0, at)), std::string(entry.substr(at + 1))};
    if (spool_entry_name(name) != entry) return {};
    return name;
}

policy::result<std::string> write_spool_request(const spool_request& request)
{
    if (!is_ticket(request.ticket) || !is_word(request.generation) || !is_word(request.reason))
        return policy::failure{.code = policy::errc::internal,
                               .context = "a deploy request holds something that is no word: generation \"" +
                                          request.generation + "\", reason \"" + request.reason + "\"",
                               .kind = policy::retry::never};
    return json::serialize(json::object{{"ticket", request.ticket},
                                        {"generation", request.generation},
                                        {"not_after", request.not_after.time_since_epoch().count()},
                                        {"reason", request.reason}});
}

policy::result<spool_request> read_spool_request(std::string_view text)
{
    const auto object = object_in(text);
    if (!object) return strange("the content");
    const auto ticket = text_in(*object, "ticket");
    const auto generation = text_in(*object, "generation");
    const auto reason = text_in(*object, "reason");
    const auto* not_after = object->if_contains("not_after");
    if (!ticket || !is_ticket(*ticket) || !generation || !is_word(*generation) || !reason ||
        !is_word(*reason) || !not_after || !not_after->is_int64())
        return strange("the content");
    // the year 9999: beyond it, dates have no ISO 8601 form of usual length
    const auto seconds = std::clamp<std::int64_t>(not_after->get_int64(), 0, 253'402'300'799);
    return spool_request{.ticket = *ticket,
                         .generation = *generation,
                         .not_after = policy::instant(std::chrono::seconds(seconds)),
                         .reason = *reason};
}

std::string write_spool_answer(const spool_answer& answer)
{
    json::object object{{"ticket", answer.ticket}, {"failure", nullptr}};
    if (answer.failure) object["failure"] = std::string_view(*answer.failure).substr(0, longest_failure);
    return json::serialize(object);
}

policy::result<spool_answer> read_spool_answer(std::string_view text)
{
    const auto object = object_in(text);
    const auto ticket = object ? text_in(*object, "ticket") : std::nullopt;
    const auto* failure = object ? object->if_contains("failure") : nullptr;
    if (!ticket || !failure || !(failure->is_null() || failure->is_string())) return strange("the answer");
    return spool_answer{.ticket = *ticket, .failure = text_in(*object, "failure")};
}

}  // namespace deploy
