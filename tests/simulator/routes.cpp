#include "routes.hpp"

#include <array>
#include <vector>

namespace simulator {

namespace {

constexpr std::array variants{
    variant{.name = "log", .path = "les", .name_prefix = "logs", .spaces = false},
    variant{.name = "health", .path = "hes", .name_prefix = "health", .spaces = true},
    variant{.name = "lifecycle", .path = "lces", .name_prefix = "lifecycle", .spaces = false},
};

using segments = std::vector<std::string>;

// Whether the path matches the pattern; "*" matches any one segment.
bool fits(const segments& path, const std::vector<std::string_view>& pattern)
{
    if (path.size() != pattern.size()) return false;
    for (std::size_t i = 0; i < path.size(); ++i) {
        if (pattern[i] != "*" && pattern[i] != path[i]) return false;
    }
    return true;
}

std::string by_method(const request& incoming, std::string_view method, std::string_view operation)
{
    return std::string{incoming.method == method ? operation : "wrong_method"};
}

// /SAAS/auth/… and, with several tenants, /SAAS/t/{tenant}/auth/…
route identity_route(const request& incoming, segments path)
{
    route found;
    if (path.size() > 3 && path[1] == "t") {
        found.tenant = path[2];
        path.erase(path.begin() + 1, path.begin() + 3);
    }
    if (fits(path, {"SAAS", "auth", "oauth2", "authorize"}))
        found.operation = by_method(incoming, "GET", "authorize");
    if (fits(path, {"SAAS", "auth", "oauthtoken"})) found.operation = by_method(incoming, "POST", "token");
    if (path.size() > 2 && path[1] == "API") found.operation = "platform_api";
    return found;
}

route exposure_route(const request& incoming, const segments& path, const variant& service)
{
    route found{.service = &service};
    if (fits(path, {"*", "swagger", "index.html"})) {
        found.operation = by_method(incoming, "GET", "swagger");
        return found;
    }
    if (path.size() < 6 || path[1] != "api" || path[2] != "v1" || path[3] != "tenants" ||
        path[5] != "instances")
        return found;
    const bool posts = incoming.method == "POST";
    found.tenant = path[4];
    if (path.size() > 6) found.instance = path[6];
    if (path.size() > 8) found.user = path[8];
    if (path.size() == 6)
        found.operation = posts ? "create_instance" : by_method(incoming, "GET", "list_instances");
    else if (path.size() == 7)
        found.operation = by_method(incoming, "GET", "get_instance");
    else if (path.size() == 8 && path[7] == "users")
        found.operation = posts ? "create_user" : by_method(incoming, "GET", "list_users");
    else if (path.size() == 9 && path[7] == "users")
        found.operation =
            incoming.method == "DELETE" ? "delete_user" : by_method(incoming, "GET", "get_user");
    return found;
}

route catalog_route(const request& incoming, const segments& path)
{
    route found;
    if (path.size() < 5 || path[1] != "api" || path[2] != "consumer") return found;
    const segments rest{path.begin() + 3, path.end()};
    found.item = rest[1];
    if (fits(rest, {"entitledCatalogItems", "*", "requests", "customTemplate"}))
        found.operation = by_method(incoming, "GET", "catalog_template");
    else if (fits(rest, {"entitledCatalogItems", "*", "requests"}))
        found.operation = by_method(incoming, "POST", "catalog_submit");
    else if (fits(rest, {"requests", "*"}))
        found.operation = by_method(incoming, "GET", "catalog_request");
    else if (fits(rest, {"resources", "*", "actions", "*", "forms", "request"}))
        found.operation = by_method(incoming, "GET", "action_form");
    else if (fits(rest, {"resources", "*", "actions", "*", "forms", "request", "update"}))
        found.operation = by_method(incoming, "POST", "action_values");
    if (rest.size() > 3) found.action = rest[3];
    return found;
}

}  // namespace

const variant& find_variant(std::string_view name_or_path)
{
    for (const auto& each : variants) {
        if (name_or_path == each.name || name_or_path == each.path || name_or_path == each.name_prefix)
            return each;
    }
    throw bad_request{"there is no variant " + std::string{name_or_path}};
}

route find_route(const request& incoming)
{
    const auto path = incoming.segments();
    if (path.empty()) return {};
    if (path[0] == "SAAS") return identity_route(incoming, path);
    if (path[0] == "catalog-service") return catalog_route(incoming, path);
    for (const auto& each : variants) {
        if (path[0] == each.path) return exposure_route(incoming, path, each);
    }
    return {};
}

}  // namespace simulator
