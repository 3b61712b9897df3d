#include "oauth.hpp"
#include "text.hpp"

#include <boost/json.hpp>

// The identity service as seen and changed by the control API and the state file.

namespace simulator {

namespace json = boost::json;

namespace {

json::object describe(const grant& owner)
{
    return {{"client", owner.client}, {"person", owner.person}, {"family", owner.family}};
}

grant read_grant(const json::object& saved)
{
    return {.client = json::value_to<std::string>(saved.at("client")),
            .person = json::value_to<std::string>(saved.at("person")),
            .family = saved.at("family").to_number<std::uint64_t>()};
}

}  // namespace

void oauth_service::expire_access_tokens()
{
    for (auto& each : access_tokens_)
        each.second.expires_ms = now_ms();
}

void oauth_service::revoke_everything()
{
    for (auto& each : access_tokens_)
        each.second.revoked = true;
    for (auto& each : refresh_tokens_)
        each.second.revoked = true;
}

void oauth_service::forget_everything()
{
    codes_.clear();
    refresh_tokens_.clear();
    access_tokens_.clear();
}

json::object oauth_service::describe() const
{
    const auto now = now_ms();
    json::array codes;
    for (const auto& [text, entry] : codes_) {
        auto view = simulator::describe(entry.owner);
        view["fingerprint"] = fingerprint(text);
        view["presented"] = entry.presented;
        codes.push_back(std::move(view));
    }
    json::array refresh;
    for (const auto& [text, entry] : refresh_tokens_) {
        auto view = simulator::describe(entry.owner);
        view["fingerprint"] = fingerprint(text);
        view["presented"] = entry.presented;
        view["used"] = entry.used_ms != 0;
        view["revoked"] = entry.revoked;
        refresh.push_back(std::move(view));
    }
    json::array access;
    for (const auto& [text, entry] : access_tokens_) {
        auto view = simulator::describe(entry.owner);
        view["fingerprint"] = fingerprint(text);
        view["expires_ms"] = entry.expires_ms;
        view["valid"] = !entry.revoked && entry.expires_ms > now;
        access.push_back(std::move(view));
    }
    return {{"codes", std::move(codes)},
            {"refresh_tokens", std::move(refresh)},
            {"access_tokens", std::move(access)}};
}

json::object oauth_service::save() const
{
    json::object refresh;
    for (const auto& [text, entry] : refresh_tokens_) {
        auto view = simulator::describe(entry.owner);
        view["used_ms"] = entry.used_ms;
        view["revoked"] = entry.revoked;
        refresh[text] = std::move(view);
    }
    json::object access;
    for (const auto& [text, entry] : access_tokens_) {
        auto view = simulator::describe(entry.owner);
        view["expires_ms"] = entry.expires_ms;
        view["revoked"] = entry.revoked;
        access[text] = std::move(view);
    }
    return {{"families", families_},
            {"refresh_tokens", std::move(refresh)},
            {"access_tokens", std::move(access)}};
}

void oauth_service::load(const json::object& saved)
{
    forget_everything();
    families_ = saved.at("families").to_number<std::uint64_t>();
    for (const auto& [text, value] : saved.at("refresh_tokens").as_object()) {
        const auto& entry = value.as_object();
        refresh_tokens_[text] = {.owner = read_grant(entry),
                                 .used_ms = entry.at("used_ms").to_number<std::int64_t>(),
                                 .revoked = entry.at("revoked").as_bool()};
    }
    for (const auto& [text, value] : saved.at("access_tokens").as_object()) {
        const auto& entry = value.as_object();
        access_tokens_[text] = {.owner = read_grant(entry),
                                .expires_ms = entry.at("expires_ms").to_number<std::int64_t>(),
                                .revoked = entry.at("revoked").as_bool()};
    }
}

}  // namespace simulator
