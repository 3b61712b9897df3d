#include "oauth.hpp"

#include "text.hpp"

#include <boost/json.hpp>

#include <algorithm>

namespace simulator {

namespace json = boost::json;

namespace {

response oauth_error(int status, std::string_view error, std::string_view description)
{
    return json_response(status, {{"error", error}, {"error_description", description}});
}

response invalid_grant(journal_record& record, std::string_view why)
{
    record.details["error"] = "invalid_grant";
    record.details["why"] = why;
    return oauth_error(400, "invalid_grant", why);
}

std::string_view without_slash(std::string_view url)
{
    if (url.ends_with('/')) url.remove_suffix(1);
    return url;
}

bool is_registered(const oauth_client& client, const std::string& redirect_url)
{
    return std::ranges::any_of(client.redirect_urls, [&](const std::string& each) {
        return without_slash(each) == without_slash(redirect_url);
    });
}

// "Basic <base64(client_id:client_secret)>" (reference, section 5)
std::pair<std::string, std::string> basic_credentials(const std::string& authorization)
{
    if (!authorization.starts_with("Basic ")) return {};
    const auto plain = base64_decode(std::string_view{authorization}.substr(6));
    const auto colon = plain ? plain->find(':') : std::string::npos;
    if (colon == std::string::npos) return {};
    return {plain->substr(0, colon), plain->substr(colon + 1)};
}

}  // namespace

response oauth_service::authorize(const request& incoming)
{
    const auto client_id = find(incoming.query, "client_id").value_or("");
    const auto redirect_uri = find(incoming.query, "redirect_uri").value_or("");
    const auto* client = find_client(client_id);
    // Never redirect to an address that the client has not registered (RFC 6749 section 4.1.2.1).
    if (client == nullptr) return html_response(400, "Unknown client_id");
    if (!is_registered(*client, redirect_uri))
        return html_response(400, "The redirect_uri is not registered");

    std::string target = redirect_uri + (redirect_uri.find('?') == std::string::npos ? "?" : "&");
    if (find(incoming.query, "response_type").value_or("") != "code") {
        target += "error=unsupported_response_type";
    } else if (!rules().authorize_error.empty()) {
        target += "error=" + percent_encode(rules().authorize_error);
        if (!rules().authorize_error_description.empty())
            target += "&error_description=" + percent_encode(rules().authorize_error_description);
    } else {
        target += "code=" + mint_code(client_id, "", redirect_uri) +
                  "&userstore=" + percent_encode(rules().userstore);
    }
    const auto state = find(incoming.query, "state");
    if (state && rules().echo_state) target += "&state=" + percent_encode(*state);
    return {.status = 302, .fields = {{"Location", target}}};
}

response oauth_service::token(const request& incoming, journal_record& record)
{
    if (!incoming.field("content-type").starts_with("application/x-www-form-urlencoded"))
        record.violations.emplace_back(
            "Content-Type of the token request is not application/x-www-form-urlencoded");
    const auto [id, secret] = basic_credentials(incoming.field("authorization"));
    const auto* client = find_client(id);
    record.details["client"] = id;
    if (client == nullptr || client->secret != secret) {
        record.details["error"] = "invalid_client";
        auto refusal = oauth_error(401, "invalid_client", "client authentication failed");
        refusal.fields.emplace_back("WWW-Authenticate", "Basic realm=\"platform\"");
        return refusal;
    }
    const auto form = read_form(incoming.body);
    const auto grant_type = find(form, "grant_type").value_or("");
    record.details["grant_type"] = grant_type;
    if (!find(form, "redirect_uri")) record.violations.emplace_back("token request without redirect_uri");
    if (grant_type == "authorization_code") return exchange_code(*client, form, record);
    if (grant_type == "refresh_token") return refresh(*client, form, record);
    // The real product answers 500 here, not 400 as RFC 6749 requires.
    return oauth_error(500, "server_error", "grant_type is incorrect or absent");
}

response oauth_service::exchange_code(const oauth_client& client, const parameters& form,
                                      journal_record& record)
{
    const auto text = find(form, "code").value_or("");
    record.details["code"] = fingerprint(text);
    record.details["code_verifier"] = find(form, "code_verifier").value_or("");  // not in the reference
    const auto found = codes_.find(text);
    if (found == codes_.end()) return invalid_grant(record, "unknown authorization code");
    auto& entry = found->second;
    if (++entry.presented > 1) return invalid_grant(record, "the authorization code was used before");
    if (entry.expires_ms < now_ms()) return invalid_grant(record, "the authorization code has expired");
    if (entry.owner.client != client.id) return invalid_grant(record, "the code belongs to another client");
    if (find(form, "redirect_uri").value_or("") != entry.redirect_uri)
        return invalid_grant(record, "redirect_uri differs from the one of the authorize request");
    return answer(client, entry.owner, "");
}

response oauth_service::refresh(const oauth_client& client, const parameters& form, journal_record& record)
{
    const auto text = find(form, "refresh_token").value_or("");
    record.details["refresh_token"] = fingerprint(text);
    const auto found = refresh_tokens_.find(text);
    if (found == refresh_tokens_.end()) return invalid_grant(record, "unknown refresh token");
    auto& entry = found->second;
    ++entry.presented;
    record.details["presented"] = entry.presented;
    if (entry.owner.client != client.id) return invalid_grant(record, "the token belongs to another client");
    if (entry.revoked) return invalid_grant(record, "the refresh token was revoked");
    const auto redirect_uri = find(form, "redirect_uri");
    if (redirect_uri && !is_registered(client, *redirect_uri))
        return invalid_grant(record, "unknown redirect_uri");

    const bool in_grace = now_ms() - entry.used_ms <= rules().refresh_grace_s * 1000;
    if (entry.used_ms != 0 && !in_grace) {
        if (rules().revoke_family_on_reuse) {
            for (auto& each : refresh_tokens_) {
                if (each.second.owner.family == entry.owner.family) each.second.revoked = true;
            }
        }
        return invalid_grant(record, "the refresh token was used before");
    }
    const bool stays_good = rules().refresh_token == "same" || rules().refresh_token == "login-only";
    if (entry.used_ms == 0 && !stays_good) entry.used_ms = now_ms();
    return answer(client, entry.owner, text);
}

response oauth_service::answer(const oauth_client& client, const grant& owner,
                               const std::string& old_refresh_token)
{
    json::object body{{"access_token", add_access_token(owner, rules().access_token_lifetime_s)},
                      {"token_type", "Bearer"},
                      {"scope", "user"}};
    const auto& expires_in = rules().expires_in;
    if (expires_in == "auto")
        body["expires_in"] = rules().access_token_lifetime_s;
    else if (expires_in != "absent")
        body["expires_in"] = expires_in;

    const bool is_login = old_refresh_token.empty();
    const auto& mode = rules().refresh_token;
    if (client.refresh_tokens && (mode == "rotate" || (is_login && mode != "none")))
        body["refresh_token"] = add_refresh_token(owner);
    else if (client.refresh_tokens && mode == "same")
        body["refresh_token"] = old_refresh_token;
    auto given = json_response(200, body);
    given.fields.emplace_back("Cache-Control", "no-store");
    return given;
}

std::string oauth_service::person_behind(const std::string& authorization) const
{
    if (!authorization.starts_with("Bearer ")) return {};
    const auto found = access_tokens_.find(authorization.substr(7));
    if (found == access_tokens_.end() || found->second.revoked || found->second.expires_ms <= now_ms())
        return {};
    return found->second.owner.person;
}

const oauth_person& oauth_service::person(const std::string& login) const
{
    const auto found = std::ranges::find(rules().persons, login, &oauth_person::login);
    if (found == rules().persons.end()) throw bad_request{"there is no person " + login};
    return *found;
}

const oauth_client* oauth_service::find_client(const std::string& id) const
{
    const auto found = std::ranges::find(rules().clients, id, &oauth_client::id);
    return found == rules().clients.end() ? nullptr : &*found;
}

grant oauth_service::new_grant(const std::string& client, const std::string& login)
{
    const std::string client_id = client.empty() ? rules().clients.at(0).id : client;
    if (find_client(client_id) == nullptr) throw bad_request{"there is no client " + client_id};
    return {.client = client_id,
            .person = person(login.empty() ? rules().person : login).login,
            .family = ++families_};
}

std::string oauth_service::mint_code(const std::string& client, const std::string& login,
                                     const std::string& redirect_uri)
{
    auto owner = new_grant(client, login);
    const std::string target =
        redirect_uri.empty() ? find_client(owner.client)->redirect_urls.at(0) : redirect_uri;
    const std::string text = random_hex(16);
    codes_[text] = {.owner = std::move(owner),
                    .redirect_uri = target,
                    .expires_ms = now_ms() + rules().code_lifetime_s * 1000};
    return text;
}

std::string oauth_service::mint_refresh_token(const std::string& client, const std::string& login)
{
    return add_refresh_token(new_grant(client, login));
}

std::string oauth_service::mint_access_token(const std::string& client, const std::string& login,
                                             std::int64_t lifetime_s)
{
    return add_access_token(new_grant(client, login), lifetime_s);
}

std::string oauth_service::add_refresh_token(const grant& owner)
{
    const std::string text = random_hex(24);
    refresh_tokens_[text] = {.owner = owner};
    return text;
}

// Issues a token shaped like a JWT, as the platform's tokens are, with readable claims and a meaningless
// signature.
std::string oauth_service::add_access_token(const grant& owner, std::int64_t lifetime_s)
{
    const auto now = now_ms();
    const auto tenant = std::string{"platform"};
    const json::object header{{"typ", "JWT"}, {"alg", "RS256"}};
    const json::object claims{{"jti", random_uuid()}, {"prn", owner.person + "@" + tenant},
                              {"sub", owner.person},  {"eml", person(owner.person).email},
                              {"cid", owner.client},  {"scp", "user"},
                              {"iat", now / 1000},    {"exp", now / 1000 + lifetime_s}};
    const std::string text = base64url_encode(json::serialize(header)) + "." +
                             base64url_encode(json::serialize(claims)) + "." +
                             base64url_encode(random_hex(32));
    access_tokens_[text] = {.owner = owner, .expires_ms = now + lifetime_s * 1000};
    return text;
}

}  // namespace simulator
