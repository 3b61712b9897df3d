#include "agent/platform/token_endpoint.hpp"

#include "agent/platform/address.hpp"
#include "agent/platform/json.hpp"
#include "agent/platform/status.hpp"
#include "crypto/digest.hpp"

#include <boost/json.hpp>

#include <array>
#include <utility>

namespace platform {
namespace {

using policy::errc;
using policy::failure;
using policy::retry;

// RFC 6749 section 5.2; empty when the body has none.
std::string error_word(const std::string& body)
{
    const auto object = parse_object(body);
    return object ? text_of(*object, "error") : std::string();
}

crypto::secret basic(const std::string& client_id, const crypto::secret& client_secret)
{
    auto pair = client_id + ":";
    pair.reserve(pair.size() + client_secret.view().size());
    pair.append(client_secret.view());
    auto encoded = crypto::base64(pair);
    crypto::wipe(pair);
    crypto::secret value("Basic " + encoded);
    crypto::wipe(encoded);
    return value;
}

exchange_outcome ended(exchange_end end, failure why)
{
    return {.end = end, .answer = std::nullopt, .failure = std::move(why)};
}

exchange_outcome refused_client(failure why, const std::string& remedy)
{
    why.code = errc::client_refused;
    why.kind = retry::after_change;
    why.context += ": " + remedy;
    return ended(exchange_end::client_refused, std::move(why));
}

// An answer other than 2xx.
exchange_outcome judge(const io::http_response& answer, failure why)
{
    if (why.code == errc::throttled) return ended(exchange_end::unsent, std::move(why));
    if (answer.status < 400 || answer.status >= 500) return ended(exchange_end::unknown, std::move(why));
    const auto word = error_word(answer.body);
    if (word == "invalid_grant") {
        why.code = errc::login_required;
        why.kind = retry::never;
        return ended(exchange_end::grant_refused, std::move(why));
    }
    if (answer.status == 401 || word == "invalid_client")
        return refused_client(std::move(why), "check identity.client_id and identity.client_secret");
    if (word == "unauthorized_client")
        return refused_client(std::move(why), "the operator of the platform must permit it for this client");
    return refused_client(std::move(why), "check identity.auth_url and identity.redirect_url");
}

}  // namespace

io::awaitable<exchange_outcome> token_endpoint::redeem_code(policy::identity_settings settings,
                                                            crypto::secret client_secret, crypto::secret code)
{
    crypto::secret body(form({{"grant_type", "authorization_code"},
                              {"code", code.view()},
                              {"redirect_uri", settings.redirect_url}}));
    return post("log in", std::move(settings), std::move(client_secret), std::move(code), std::move(body));
}

io::awaitable<exchange_outcome> token_endpoint::refresh(policy::identity_settings settings,
                                                        crypto::secret client_secret,
                                                        crypto::secret refresh_token)
{
    crypto::secret body(form({{"grant_type", "refresh_token"},
                              {"refresh_token", refresh_token.view()},
                              {"redirect_uri", settings.redirect_url}}));
    return post("refresh the tokens", std::move(settings), std::move(client_secret), std::move(refresh_token),
                std::move(body));
}

io::awaitable<exchange_outcome> token_endpoint::post(std::string what, policy::identity_settings settings,
                                                     crypto::secret client_secret, crypto::secret grant,
                                                     crypto::secret body)
{
    io::http_request request{
        .method = "POST",
        .url = settings.auth_url + "/auth/oauthtoken",
        .headers = {{"Accept", "application/json"}, {"Content-Type", "application/x-www-form-urlencoded"}},
        .authorization = basic(settings.client_id, client_secret),
        .body = std::move(body),
        .idempotent = false};
    auto answer = co_await http_.exchange(std::move(request));
    if (!answer) {
        const auto& why = answer.error();
        // A wrong address and a bug of ours stop it before anything is sent, too.
        const bool unsent = policy::never_sent(why) || why.code == errc::config || why.code == errc::internal;
        co_return ended(unsent ? exchange_end::unsent : exchange_end::unknown,
                        policy::with_context(what, why));
    }
    const auto host = host_of(settings.auth_url);
    if (!succeeded(*answer)) {
        const std::array hidden = {client_secret.view(), grant.view()};
        co_return judge(*answer, failure_of(*answer, what, host, clock_.now(), hidden));
    }
    auto tokens = read_token_answer(answer->body, clock_.now());
    crypto::wipe(answer->body);
    if (!tokens)
        co_return ended(
            exchange_end::unknown,
            policy::with_context(what + ": the answer of " + host + " is not believed", tokens.error()));
    co_return exchange_outcome{.end = exchange_end::granted, .answer = std::move(*tokens), .failure = {}};
}

std::string client_fingerprint(const policy::identity_settings& settings, const crypto::secret& client_secret)
{
    return crypto::sha256_hex(settings.auth_url + "\n" + settings.client_id + "\n" + settings.redirect_url +
                              "\n" + std::string(client_secret.view()))
        .substr(0, 32);
}

}  // namespace platform
