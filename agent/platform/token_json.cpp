#include "agent/platform/token_json.hpp"

#include "agent/platform/json.hpp"
#include "agent/platform/wiping_storage.hpp"
#include "policy/dates.hpp"

#include <boost/json.hpp>

#include <array>
#include <utility>

namespace platform {

namespace json = boost::json;

namespace {

constexpr std::int64_t format = 1;

constexpr std::array<std::pair<login_trouble, const char*>, 4> troubles = {
    {{login_trouble::none, "none"},
     {login_trouble::grant_refused, "grant_refused"},
     {login_trouble::client_refused, "client_refused"},
     {login_trouble::access_refused, "access_refused"}}};

json::string_view view_of(const crypto::secret& secret)
{
    return {secret.view().data(), secret.view().size()};
}

json::value date(const std::optional<policy::instant>& when)
{
    return when ? json::value(policy::format_utc(*when)) : json::value();
}

json::object pair_json(const token_pair& pair, const json::storage_ptr& storage)
{
    json::object object(storage);
    object["access_token"] = view_of(pair.access_token);
    object["refresh_token"] = view_of(pair.refresh_token);
    object["obtained_at"] = date(pair.obtained_at);
    object["expires_at"] = date(pair.expires_at);
    return object;
}

json::array presented_json(const std::vector<presented_secret>& presented)
{
    json::array array;
    for (const auto& p : presented)
        array.push_back({{"fingerprint", p.fingerprint},
                         {"attempts", p.attempts},
                         {"spent", p.spent},
                         {"last", policy::format_utc(p.last)}});
    return array;
}

std::optional<policy::instant> date_in(const json::object& object, std::string_view key)
{
    return policy::parse_date(text_of(object, key));
}

bool flag_in(const json::object& object, const char* key)
{
    const auto* value = object.if_contains(key);
    return value != nullptr && value->is_bool() && value->get_bool();
}

crypto::secret secret_in(const json::object& object, const char* key)
{
    const auto* value = object.if_contains(key);
    const auto* text = value == nullptr ? nullptr : value->if_string();
    return text == nullptr ? crypto::secret() : crypto::secret(std::string_view(text->data(), text->size()));
}

token_pair pair_in(const json::object& object)
{
    return {.access_token = secret_in(object, "access_token"),
            .refresh_token = secret_in(object, "refresh_token"),
            .obtained_at = date_in(object, "obtained_at").value_or(policy::instant()),
            .expires_at = date_in(object, "expires_at")};
}

std::vector<presented_secret> presented_in(const json::object& object)
{
    std::vector<presented_secret> presented;
    const auto* value = object.if_contains("presented");
    if (value == nullptr || !value->is_array()) return presented;
    for (const auto& entry : value->get_array()) {
        const auto* fields = entry.if_object();
        if (fields == nullptr) continue;
        const auto* attempts = fields->if_contains("attempts");
        const auto* count = attempts == nullptr ? nullptr : attempts->if_int64();
        presented.push_back({.fingerprint = text_of(*fields, "fingerprint"),
                             .attempts = count == nullptr ? 0 : static_cast<int>(*count),
                             .spent = flag_in(*fields, "spent"),
                             .last = date_in(*fields, "last").value_or(policy::instant())});
    }
    return presented;
}

login_trouble trouble_in(const json::object& object)
{
    const auto word = text_of(object, "trouble");
    for (const auto& [trouble, name] : troubles)
        if (word == name) return trouble;
    return login_trouble::none;
}

const char* word_for(login_trouble wanted)
{
    for (const auto& [trouble, name] : troubles)
        if (trouble == wanted) return name;
    return "";
}

policy::failure damaged(std::string why)
{
    return {.code = policy::errc::disk,
            .context = "the stored tokens are damaged (" + std::move(why) +
                       "): remove the file and run `exposure-agent login`",
            .kind = policy::retry::never};
}

}  // namespace

crypto::secret write_tokens(const token_record& record)
{
    wiping_storage memory;
    json::object object(&memory);
    object["format"] = format;
    object["tokens"] = pair_json(record.tokens, &memory);
    if (record.previous) object["previous"] = pair_json(*record.previous, &memory);
    object["worked"] = record.worked;
    object["second_chance"] = record.second_chance;
    object["last_refresh_at"] = date(record.last_refresh_at);
    object["subject"] = record.subject;
    object["granted_to"] = record.granted_to;
    object["presented"] = presented_json(record.presented);
    object["trouble"] = word_for(record.trouble);
    object["trouble_text"] = record.trouble_text;
    object["refused_client"] = record.refused_client;
    return crypto::secret(json::serialize(object));
}

policy::result<token_record> read_tokens(std::string_view text)
{
    wiping_storage memory;
    const auto object = parse_object(text, &memory);
    if (!object) return damaged(object.error().context);
    const auto* version = object->if_contains("format");
    if (version == nullptr || !version->is_int64()) return damaged("it has no format");
    if (version->get_int64() > format)
        return policy::failure{
            .code = policy::errc::config,
            .context = "a newer version of this program wrote the stored tokens: use that one",
            .kind = policy::retry::never};
    const auto* tokens = object_of(*object, "tokens");
    if (tokens == nullptr) return damaged("it has no tokens");
    token_record record{.tokens = pair_in(*tokens),
                        .previous = std::nullopt,
                        .worked = flag_in(*object, "worked"),
                        .second_chance = flag_in(*object, "second_chance"),
                        .last_refresh_at = date_in(*object, "last_refresh_at"),
                        .subject = text_of(*object, "subject"),
                        .granted_to = text_of(*object, "granted_to"),
                        .presented = presented_in(*object),
                        .trouble = trouble_in(*object),
                        .trouble_text = text_of(*object, "trouble_text"),
                        .refused_client = text_of(*object, "refused_client")};
    if (const auto* previous = object_of(*object, "previous")) record.previous = pair_in(*previous);
    return record;
}

}  // namespace platform
