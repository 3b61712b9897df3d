#include "agent/platform/token_record.hpp"

#include "agent/platform/json.hpp"
#include "crypto/digest.hpp"
#include "policy/dates.hpp"

#include <boost/describe/enum_from_string.hpp>
#include <boost/describe/enum_to_string.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace platform {

namespace json = boost::json;

namespace {

constexpr std::int64_t format = 1;
constexpr std::size_t remembered = 32;  // presented secrets, at most

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
    object["refresh_expires_at"] = date(pair.refresh_expires_at);
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

long long number_in(const json::object& object, const char* key)
{
    const auto* value = object.if_contains(key);
    const auto* number = value == nullptr ? nullptr : value->if_int64();
    return number == nullptr ? 0 : *number;
}

token_pair pair_in(const json::object& object)
{
    return {.access_token = secret_in(object, "access_token"),
            .refresh_token = secret_in(object, "refresh_token"),
            .obtained_at = date_in(object, "obtained_at").value_or(policy::instant()),
            .expires_at = date_in(object, "expires_at"),
            .refresh_expires_at = date_in(object, "refresh_expires_at")};
}

std::vector<presented_secret> presented_in(const json::object& object)
{
    std::vector<presented_secret> presented;
    const auto* value = object.if_contains("presented");
    if (value == nullptr || !value->is_array()) return presented;
    for (const auto& entry : value->get_array()) {
        const auto* fields = entry.if_object();
        if (fields == nullptr) continue;
        presented.push_back({.fingerprint = text_of(*fields, "fingerprint"),
                             .attempts = static_cast<int>(number_in(*fields, "attempts")),
                             .spent = flag_in(*fields, "spent"),
                             .last = date_in(*fields, "last").value_or(policy::instant())});
    }
    return presented;
}

login_trouble trouble_in(const json::object& object)
{
    auto trouble = login_trouble::none;
    boost::describe::enum_from_string(text_of(object, "trouble").c_str(), trouble);
    return trouble;
}

json::object pending_json(const pending_login& pending, const json::storage_ptr& storage)
{
    json::object object(storage);
    object["verifier"] = view_of(pending.verifier);
    object["state"] = pending.state;
    object["begun_at"] = date(pending.begun_at);
    return object;
}

policy::failure damaged(std::string why)
{
    return {.code = policy::errc::disk,
            .context = "the stored tokens are damaged (" + std::move(why) + "). Run: exposure-agent login",
            .kind = policy::retry::never};
}

}  // namespace

const presented_secret* token_record::find(std::string_view fingerprint) const
{
    const auto found = std::ranges::find(presented, fingerprint, &presented_secret::fingerprint);
    return found == presented.end() ? nullptr : &*found;
}

presented_secret& token_record::at(const std::string& fingerprint)
{
    const auto found = std::ranges::find(presented, fingerprint, &presented_secret::fingerprint);
    if (found != presented.end()) return *found;
    if (presented.size() >= remembered) presented.erase(presented.begin());
    presented_secret fresh;
    fresh.fingerprint = fingerprint;
    return presented.emplace_back(std::move(fresh));
}

void token_record::forget(std::string_view fingerprint)
{
    std::erase_if(presented, [&](const presented_secret& p) { return p.fingerprint == fingerprint; });
}

std::string fingerprint_of(const crypto::secret& secret)
{
    return crypto::sha256_hex(secret.view()).substr(0, 32);
}

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
    object["session_ends_at"] = date(record.session_ends_at);
    object["subject"] = record.subject;
    object["user"] = record.user;
    object["granted_to"] = record.granted_to;
    object["presented"] = presented_json(record.presented);
    object["trouble"] = boost::describe::enum_to_string(record.trouble, "none");
    object["trouble_text"] = record.trouble_text;
    object["trouble_since"] = date(record.trouble_since);
    object["refused_client"] = record.refused_client;
    object["form_encoded_client"] = record.form_encoded_client;
    object["failing_since"] = date(record.failing_since);
    object["failing_text"] = record.failing_text;
    if (record.pending) object["pending"] = pending_json(*record.pending, &memory);
    object["published"] = {{"fingerprint", record.published.fingerprint},
                           {"at", date(record.published.at)},
                           {"failures", record.published.failures}};
    return crypto::secret(json::serialize(object));
}

policy::result<token_record> read_tokens(std::string_view text)
{
    wiping_storage memory;
    const auto object = parse_object(text, &memory);
    if (!object) return damaged(object.error().context);
    const auto* version = object->if_contains("format");
    if (version == nullptr || !version->is_int64()) return damaged("the format is missing");
    if (version->get_int64() > format)
        return policy::failure{
            .code = policy::errc::config,
            .context = "the stored tokens were written by a newer exposure-agent; install that version",
            .kind = policy::retry::never};
    const auto* tokens = object_of(*object, "tokens");
    if (tokens == nullptr) return damaged("the tokens are missing");
    token_record record;
    record.tokens = pair_in(*tokens);
    record.worked = flag_in(*object, "worked");
    record.second_chance = flag_in(*object, "second_chance");
    record.last_refresh_at = date_in(*object, "last_refresh_at");
    record.session_ends_at = date_in(*object, "session_ends_at");
    record.subject = text_of(*object, "subject");
    record.user = text_of(*object, "user");
    record.granted_to = text_of(*object, "granted_to");
    record.presented = presented_in(*object);
    record.trouble = trouble_in(*object);
    record.trouble_text = text_of(*object, "trouble_text");
    record.trouble_since = date_in(*object, "trouble_since");
    record.refused_client = text_of(*object, "refused_client");
    record.form_encoded_client = text_of(*object, "form_encoded_client");
    record.failing_since = date_in(*object, "failing_since");
    record.failing_text = text_of(*object, "failing_text");
    if (const auto* previous = object_of(*object, "previous")) record.previous = pair_in(*previous);
    if (const auto* pending = object_of(*object, "pending"))
        record.pending = pending_login{.verifier = secret_in(*pending, "verifier"),
                                       .state = text_of(*pending, "state"),
                                       .begun_at = date_in(*pending, "begun_at").value_or(policy::instant())};
    if (const auto* published = object_of(*object, "published"))
        record.published = {.fingerprint = text_of(*published, "fingerprint"),
                            .at = date_in(*published, "at"),
                            .failures = number_in(*published, "failures")};
    return record;
}

// ---- when to refresh

namespace {

using namespace std::chrono_literals;
using policy::duration;
using policy::instant;

constexpr int spread_attempts = 8;            // spread over the access token's remaining life
constexpr duration spread_unknown_life = 1h;  // between attempts, if its expiry is unknown

duration life_of(const token_pair& tokens)
{
    return std::max(duration(1), *tokens.expires_at - tokens.obtained_at);
}

duration lead_of(const token_pair& tokens, bool for_readers)
{
    const auto life = life_of(tokens);
    return std::min(std::clamp<duration>(life / (for_readers ? 3 : 10), 60s, 1h), life / 2);
}

const presented_secret* presented_refresh_token(const token_record& record)
{
    return record.find(fingerprint_of(record.tokens.refresh_token));
}

}  // namespace

bool refresh_token_spent(const token_record& record)
{
    const auto* presented = presented_refresh_token(record);
    return presented != nullptr && presented->spent;
}

instant next_spread_attempt(const token_record& record)
{
    const auto& presented = *presented_refresh_token(record);
    if (presented.attempts == 1) return presented.last + second_try;  // interrupted before the second attempt
    const auto& end = record.tokens.expires_at;
    if (!end) return presented.last + spread_unknown_life;
    const auto rest = std::max(longest_refresh_pause, (*end - presented.last) / spread_attempts);
    return std::min(presented.last + rest, *end);
}

duration heartbeat(duration refresh_every, std::string_view owner)
{
    unsigned share = 0;  // in 1/65535 of a tenth
    const auto digits = crypto::sha256_hex(owner).substr(0, 4);
    std::from_chars(digits.data(), digits.data() + digits.size(), share, 16);
    return refresh_every - refresh_every / 10 * share / 65535;
}

int open_attempts(const token_record& record)
{
    const auto* presented = presented_refresh_token(record);
    return presented == nullptr || presented->spent ? 0 : presented->attempts;
}

std::optional<instant> refresh_due(const token_record& record, duration every, bool for_readers)
{
    const auto& tokens = record.tokens;
    if (tokens.refresh_token.empty() || refresh_token_spent(record)) return std::nullopt;
    if (record.trouble == login_trouble::client_refused)
        return record.trouble_since.value_or(tokens.obtained_at) + client_pause;
    if (record.trouble != login_trouble::none) return std::nullopt;
    if (open_attempts(record) > 0) return next_spread_attempt(record);
    auto due = tokens.obtained_at + every;
    if (tokens.expires_at) due = std::min(due, *tokens.expires_at - lead_of(tokens, for_readers));
    if (tokens.refresh_expires_at && !record.session_ends_at)
        due = std::min(due, tokens.obtained_at + (*tokens.refresh_expires_at - tokens.obtained_at) * 2 / 3);
    const bool short_lived = for_readers && tokens.expires_at && life_of(tokens) / 2 < refresh_pause;
    return std::max(due, tokens.obtained_at + (short_lived ? life_of(tokens) / 2 : refresh_pause));
}

std::vector<policy::forecast_entry> forecast(const token_record& record, duration every, instant now,
                                             instant until, bool for_readers)
{
    // copy only the dates: presented and spent secrets belong to the real record
    token_record future;
    future.trouble = record.trouble;
    future.trouble_since = record.trouble_since;
    future.session_ends_at = record.session_ends_at;
    auto& tokens = future.tokens;
    if (!record.tokens.refresh_token.empty()) tokens.refresh_token = crypto::secret("of the forecast");
    tokens.obtained_at = record.tokens.obtained_at;
    tokens.expires_at = record.tokens.expires_at;
    tokens.refresh_expires_at = record.tokens.refresh_expires_at;
    const auto life_until = [&](const std::optional<instant>& end) {
        return end.value_or(tokens.obtained_at) - tokens.obtained_at;
    };
    const duration access_life = life_until(tokens.expires_at);
    const duration refresh_life = life_until(tokens.refresh_expires_at);

    std::vector<policy::forecast_entry> entries;
    const auto ends = [&]() -> std::optional<instant> {
        if (tokens.refresh_token.empty()) return tokens.expires_at;
        return future.session_ends_at;
    };
    bool first = true;
    while (true) {
        auto due = refresh_due(future, every, for_readers);
        if (first && open_attempts(record) > 0) due = refresh_due(record, every, for_readers);
        first = false;
        const auto end = ends();
        const bool over = end && (!due || *end <= *due);
        if (!over && !due) return entries;
        const auto at = std::max(over ? *end : *due, now);
        if (at > until) return entries;
        using policy::forecast_action;
        if (over)
            entries.push_back({.at = at,
                               .name = {},
                               .action = forecast_action::login,
                               .reason = tokens.refresh_token.empty() ? "no_refresh_token" : "session_ends",
                               .sentence = tokens.refresh_token.empty()
                                               ? "the login server gives no refresh token. Run: "
                                                 "exposure-agent login"
                                               : "the login server ends the session. Run: exposure-agent "
                                                 "login"});
        else
            entries.push_back({.at = at,
                               .name = {},
                               .action = forecast_action::refresh,
                               .reason = "refresh_due",
                               .sentence = "the access token is due for refresh"});
        if (over) future.session_ends_at.reset();  // the length of the next session is unknown
        future.trouble = login_trouble::none;
        tokens.obtained_at = std::max(at, tokens.obtained_at + refresh_pause);
        if (tokens.expires_at) tokens.expires_at = at + access_life;
        if (tokens.refresh_expires_at) tokens.refresh_expires_at = at + refresh_life;
        now = tokens.obtained_at;
    }
}

}  // namespace platform
