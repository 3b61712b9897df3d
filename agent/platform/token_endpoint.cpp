#include "agent/platform/token_endpoint.hpp"

#include "agent/io/url.hpp"
#include "agent/platform/json.hpp"
#include "agent/platform/response.hpp"
#include "crypto/digest.hpp"
#include "policy/fingerprint.hpp"
#include "policy/limits.hpp"

#include <boost/beast/http/status.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace platform {

namespace json = boost::json;

namespace {

using policy::errc;
using policy::failure;
using policy::retry;

constexpr std::int64_t longest_life = 10LL * 365 * 86400;  // s; a longer expires_in is ignored
constexpr auto answer_time = std::chrono::minutes(2);      // of a single-use exchange: giving up spends it
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

// Tokens go into a header, so only visible ASCII is allowed (RFC 6750 section 2.1, RFC 6749 appendix A).
crypto::secret token_in(const json::object& object, const char* key)
{
    const auto* value = object.if_contains(key);
    const auto* text = value == nullptr ? nullptr : value->if_string();
    if (text == nullptr || !std::ranges::all_of(*text, [](char c) { return c > ' ' && c < '\x7f'; }))
        return {};
    return crypto::secret(std::string_view(text->data(), text->size()));
}

// None if absent or absurd.
std::optional<policy::instant> end_of_life(const json::object& object, std::string_view key,
                                           policy::instant now)
{
    const auto life = seconds_in(object, key);
    if (!life || *life <= 0 || *life > longest_life) return std::nullopt;
    return now + policy::duration(*life);
}

// The error codes of RFC 6749 section 5.2. Anything else under that name is somebody else's error page.
constexpr std::array verdicts = {"invalid_grant",   "invalid_client",         "unauthorized_client",
                                 "invalid_request", "unsupported_grant_type", "invalid_scope"};

// The authorization server's own error code; empty if the response has none.
std::string verdict_in(const io::http_response& answer)
{
    if (answer.status < 400 || answer.status >= 500) return {};
    const auto object = parse_object(answer.body);
    if (!object) return {};
    auto word = text_of(*object, "error");
    return std::ranges::find(verdicts, word) == verdicts.end() ? std::string() : word;
}

// Failure-modes S2: with these statuses the server has certainly not processed the request.
bool certainly_unprocessed(unsigned status)
{
    return (status >= 400 && status < 500) || status == 503;
}

// For example: "login.example.com answered 503 (Service Unavailable): the proxy's words".
failure describe(const io::http_response& answer, std::string_view what, const std::string& host,
                 policy::instant now, std::span<const std::string_view> hidden)
{
    auto why = failure_of(answer, what, host, now, hidden);
    if (why.code == errc::throttled || answer.status < 300 || answer.status >= 400) {
        why.context = std::string(what) + ": " + host + " answered " + std::to_string(answer.status);
        const auto status = boost::beast::http::int_to_status(answer.status);
        if (status != boost::beast::http::status::unknown)
            why.context += " (" + std::string(boost::beast::http::obsolete_reason(status)) + ")";
        if (const auto reason = reason_in(answer.body, hidden); !reason.empty()) why.context += ": " + reason;
    }
    why.kind = retry::later;
    if (why.code != errc::throttled) why.code = errc::unavailable;
    return why;
}

crypto::secret basic(const client_credentials& client)
{
    auto pair = (client.form_encoded ? io::escaped(client.id) : client.id) + ":";
    auto word = client.form_encoded ? io::escaped(client.secret.view()) : std::string(client.secret.view());
    pair.reserve(pair.size() + word.size());
    pair.append(word);
    crypto::wipe(word);
    auto encoded = crypto::base64(pair);
    crypto::wipe(pair);
    crypto::secret value("Basic " + encoded);
    crypto::wipe(encoded);
    return value;
}

exchange_outcome ended(exchange_end end, failure why)
{
    return {.end = end, .failure = std::move(why)};
}

exchange_outcome refused_client(failure why, const std::string& verdict, unsigned status)
{
    why.code = errc::client_refused;
    why.kind = retry::after_change;
    if (verdict == "invalid_client" || status == 401)  // Keycloak: unauthorized_client for a wrong secret
        why.context +=
            "; the client id or secret is wrong: check identity.client_id and identity.client_secret";
    else if (verdict == "unauthorized_client")
        why.context += "; the operator of the platform must permit this for the client";
    else
        why.context += "; check identity.auth_url and redirect_url";
    return ended(exchange_end::client_refused, std::move(why));
}

// Classifies a response other than 2xx.
exchange_outcome judge(const io::http_response& answer, failure why)
{
    const auto verdict = verdict_in(answer);
    if (verdict == "invalid_grant") {
        why.code = errc::login_required;
        why.kind = retry::never;
        return ended(exchange_end::grant_refused, std::move(why));
    }
    if (!verdict.empty()) return refused_client(std::move(why), verdict, answer.status);
    const bool unprocessed = certainly_unprocessed(answer.status);
    return ended(unprocessed ? exchange_end::unprocessed : exchange_end::unknown, std::move(why));
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
    found.user = text_of(*claims, "preferred_username");
    return found;
}

policy::result<token_answer> read_token_answer(std::string_view body, policy::instant now)
{
    wiping_storage memory;
    const auto object = parse_object(body, &memory);
    if (!object) return object.error();
    token_answer answer;
    answer.access_token = token_in(*object, "access_token");
    answer.refresh_token = token_in(*object, "refresh_token");
    if (answer.access_token.empty()) return unexpected_answer("it has no access token");
    for (const auto* token : {&answer.access_token, &answer.refresh_token})
        if (token->view().size() > policy::limits::token_bytes)
            return unexpected_answer("its token has " + std::to_string(token->view().size()) +
                                     " bytes; at most " + std::to_string(policy::limits::token_bytes) +
                                     " are accepted");
    auto claims = read_claims(answer.access_token);
    answer.subject = std::move(claims.subject);
    answer.user = std::move(claims.user);
    answer.expires_at = end_of_life(*object, "expires_in", now);
    if (!answer.expires_at) answer.expires_at = claims.expires_at;
    answer.refresh_expires_at = end_of_life(*object, "refresh_expires_in", now);
    return answer;
}

bool client_credentials::ambiguous() const
{
    const auto differs = [](std::string_view text) {
        return text.find_first_of("+%") != std::string_view::npos;
    };
    return differs(secret.view()) || differs(id);
}

io::awaitable<exchange_outcome> token_endpoint::redeem_code(policy::identity_settings settings,
                                                            client_credentials client, crypto::secret code,
                                                            crypto::secret verifier)
{
    auto text = io::form({{"grant_type", "authorization_code"},
                          {"code", code.view()},
                          {"redirect_uri", settings.redirect_url}});
    if (!verifier.empty()) text += "&" + io::form({{"code_verifier", verifier.view()}});
    crypto::secret body(std::move(text));
    return exchange("log in", std::move(settings), std::move(client), std::move(code), std::move(body));
}

io::awaitable<exchange_outcome> token_endpoint::refresh(policy::identity_settings settings,
                                                        client_credentials client,
                                                        crypto::secret refresh_token)
{
    crypto::secret body(io::form({{"grant_type", "refresh_token"},
                                  {"refresh_token", refresh_token.view()},
                                  {"redirect_uri", settings.redirect_url}}));
    return exchange("refresh the access token", std::move(settings), std::move(client),
                    std::move(refresh_token), std::move(body));
}

io::awaitable<exchange_outcome> token_endpoint::exchange(std::string what, policy::identity_settings settings,
                                                         client_credentials client, crypto::secret grant,
                                                         crypto::secret body)
{
    auto outcome = co_await post(what, settings, client.clone(), grant.clone(), body.clone());
    outcome.form_encoded = client.form_encoded;
    if (outcome.end != exchange_end::client_refused || !client.ambiguous()) co_return outcome;
    client.form_encoded = !client.form_encoded;
    auto other = co_await post(what, settings, client.clone(), std::move(grant), std::move(body));
    other.form_encoded = client.form_encoded;
    co_return other;
}

io::awaitable<exchange_outcome> token_endpoint::post(std::string what, policy::identity_settings settings,
                                                     client_credentials client, crypto::secret grant,
                                                     crypto::secret body)
{
    io::http_request request{
        .method = "POST",
        .url = settings.auth_url + "/auth/oauthtoken",
        .headers = {{"Accept", "application/json"}, {"Content-Type", "application/x-www-form-urlencoded"}},
        .authorization = basic(client),
        .body = std::move(body),
        .limits = {.answer = answer_time},
        .idempotent = false,
        .single_use = true};
    auto answer = co_await http_.exchange(std::move(request));
    if (!answer) {
        auto why = answer.error();
        // A wrong address or a bug of ours also stops it before anything is sent.
        const bool unsent = policy::never_sent(why) || why.code == errc::config || why.code == errc::internal;
        co_return ended(unsent ? exchange_end::unprocessed : exchange_end::unknown,
                        policy::with_context(what, std::move(why)));
    }
    const auto host = io::host_of(settings.auth_url);
    if (!succeeded(*answer)) {
        const std::array hidden = {client.secret.view(), grant.view()};
        co_return judge(*answer, describe(*answer, what, host, clock_.now(), hidden));
    }
    auto tokens = read_token_answer(answer->body, clock_.now());
    crypto::wipe(answer->body);
    if (!tokens)
        co_return ended(
            exchange_end::unknown,
            policy::with_context(what + ": " + host + " sent an invalid response", tokens.error()));
    exchange_outcome granted{.end = exchange_end::granted, .answer = std::move(*tokens)};
    co_return granted;
}

std::string client_fingerprint(const policy::identity_settings& settings, const crypto::secret& client_secret)
{
    using identity = policy::identity_settings;
    std::string text;
    policy::append_canonical<&identity::client_secret, &identity::refresh_every, &identity::access_token,
                             &identity::scope, &identity::publish_command>(text, settings);
    policy::append_canonical(text, client_secret.view());
    auto fingerprint = crypto::sha256_hex(text).substr(0, 32);
    crypto::wipe(text);
    return fingerprint;
}

}  // namespace platform
