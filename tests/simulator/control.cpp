#include "control.hpp"

#include <boost/json.hpp>

#include <array>
#include <stdexcept>

namespace simulator {

namespace json = boost::json;

namespace {

// The input of one call. `id`: the last path segment, for paths that end in "*".
struct call {
    platform& world;
    const request& incoming;
    std::string id{};
    json::object body{};  // empty if there was no body
};

using action = json::value (*)(call&);

std::string text_of(const json::object& body, std::string_view key)
{
    const auto* value = body.if_contains(key);
    return value == nullptr ? std::string{} : json::value_to<std::string>(*value);
}

json::value done()
{
    return json::object{{"done", true}};
}

json::value get_state(call& c)
{
    return c.world.describe();
}

json::value get_requests(call& c)
{
    const auto since = find(c.incoming.query, "since").value_or("0");
    return json::object{{"requests", c.world.log.describe(std::stoull(since))}};
}

json::value clear_requests(call& c)
{
    c.world.log.clear();
    return done();
}

json::value get_behaviour(call& c)
{
    return c.world.behaviour.json();
}

json::value patch_behaviour(call& c)
{
    c.world.behaviour.patch(c.body);
    return c.world.behaviour.json();
}

json::value get_faults(call& c)
{
    return json::object{{"faults", c.world.faults.describe()}};
}

// Parses the body itself: it may be an array, and the other calls accept objects only.
json::value add_faults(call& c)
{
    c.world.faults.add(json::parse(c.incoming.body));
    return get_faults(c);
}

json::value clear_faults(call& c)
{
    c.world.faults.clear();
    return done();
}

json::value mint_code(call& c)
{
    return json::object{{"code", c.world.oauth.mint_code(text_of(c.body, "client"), text_of(c.body, "person"),
                                                         text_of(c.body, "redirect_uri"))},
                        {"userstore", c.world.behaviour.get().oauth.userstore}};
}

json::value mint_refresh_token(call& c)
{
    return json::object{{"refresh_token", c.world.oauth.mint_refresh_token(text_of(c.body, "client"),
                                                                           text_of(c.body, "person"))}};
}

json::value mint_access_token(call& c)
{
    const auto* lifetime = c.body.if_contains("lifetime_s");
    const auto seconds = lifetime == nullptr ? c.world.behaviour.get().oauth.access_token_lifetime_s
                                             : lifetime->to_number<std::int64_t>();
    return json::object{{"access_token", c.world.oauth.mint_access_token(
                                             text_of(c.body, "client"), text_of(c.body, "person"), seconds)}};
}

json::value expire_tokens(call& c)
{
    c.world.oauth.expire_access_tokens();
    return done();
}

json::value revoke_tokens(call& c)
{
    c.world.oauth.revoke_everything();
    return done();
}

json::value put_users(call& c)
{
    const auto person = text_of(c.body, "created_by");
    const auto* count = c.body.if_contains("count");
    json::array ids;
    for (std::int64_t i = count == nullptr ? 1 : count->to_number<std::int64_t>(); i > 0; --i) {
        ids.emplace_back(c.world.exposure.put_user(c.body, person.empty() ? "portal" : person).id);
    }
    return json::object{{"ids", std::move(ids)}};
}

json::value patch_user(call& c)
{
    c.world.exposure.change_user(c.id, c.body);
    return done();
}

json::value delete_user(call& c)
{
    return json::object{{"deleted", c.world.exposure.delete_users({{"id", c.id}})}};
}

json::value delete_users(call& c)
{
    return json::object{{"deleted", c.world.exposure.delete_users(c.body)}};
}

json::value put_instance(call& c)
{
    return json::object{{"id", c.world.exposure.put_instance(c.body).id}};
}

json::value delete_instance(call& c)
{
    return json::object{{"deleted", c.world.exposure.delete_instances({{"id", c.id}})}};
}

json::value delete_instances(call& c)
{
    return json::object{{"deleted", c.world.exposure.delete_instances(c.body)}};
}

json::value reset(call& c)
{
    c.world.reset();
    return done();
}

struct entry {
    std::string_view method;
    std::string_view path;
    action perform;
};

constexpr std::array table{
    entry{"GET", "/state", get_state},
    entry{"POST", "/reset", reset},
    entry{"GET", "/requests", get_requests},
    entry{"POST", "/requests/clear", clear_requests},
    entry{"GET", "/behaviour", get_behaviour},
    entry{"PATCH", "/behaviour", patch_behaviour},
    entry{"GET", "/faults", get_faults},
    entry{"POST", "/faults", add_faults},
    entry{"DELETE", "/faults", clear_faults},
    entry{"POST", "/code", mint_code},
    entry{"POST", "/seed-refresh-token", mint_refresh_token},
    entry{"POST", "/access-token", mint_access_token},
    entry{"POST", "/tokens/expire", expire_tokens},
    entry{"POST", "/tokens/revoke", revoke_tokens},
    entry{"POST", "/users", put_users},
    entry{"DELETE", "/users", delete_users},
    entry{"PATCH", "/users/*", patch_user},
    entry{"DELETE", "/users/*", delete_user},
    entry{"POST", "/instances", put_instance},
    entry{"DELETE", "/instances", delete_instances},
    entry{"DELETE", "/instances/*", delete_instance},
};

bool fits(std::string_view path, std::string_view pattern, std::string& id)
{
    if (!pattern.ends_with('*')) return path == pattern;
    pattern.remove_suffix(1);
    if (!path.starts_with(pattern)) return false;
    id = path.substr(pattern.size());
    return !id.empty();
}

json::object read_body(const request& incoming)
{
    if (incoming.body.empty() || incoming.path == "/faults") return {};
    return json::parse(incoming.body).as_object();
}

}  // namespace

response control(platform& world, const request& incoming)
try {
    call c{.world = world, .incoming = incoming};
    for (const auto& each : table) {
        if (incoming.method != each.method || !fits(incoming.path, each.path, c.id)) continue;
        c.body = read_body(incoming);
        return json_response(200, each.perform(c));
    }
    return problem(404, "the control API has no " + incoming.method + " " + incoming.path);
} catch (const bad_request& mistake) {
    return problem(400, mistake.message);
} catch (const std::exception& mistake) {
    // Boost.JSON throws if the body has the wrong structure
    return problem(400, mistake.what());
}

}  // namespace simulator
