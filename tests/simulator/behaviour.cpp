#include "behaviour.hpp"

#include "http.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace simulator {

namespace json = boost::json;

namespace {

constexpr std::string_view defaults_text = R"({
  "server_certificate": "good",
  "clock_offset_s": 0,
  "requests_per_s": 0,
  "retry_after_s": 0,
  "tenants": [],
  "oauth": {
    "clients": [
      {"id": "exposure-automation", "secret": "simulator-client-secret",
       "redirect_urls": ["http://localhost", "http://localhost:8089", "http://127.0.0.1:8089"],
       "refresh_tokens": true}
    ],
    "persons": [
      {"login": "svc-exposure", "email": "svc-exposure@example.com", "first_name": "Service", "last_name": "Exposure"},
      {"login": "alice", "email": "alice@example.com", "first_name": "Alice", "last_name": "Example"}
    ],
    "person": "svc-exposure",
    "userstore": "userstore-1",
    "authorize_error": "",
    "authorize_error_description": "",
    "echo_state": true,
    "code_lifetime_s": 600,
    "access_token_lifetime_s": 604799,
    "expires_in": "auto",
    "refresh_token": "rotate",
    "refresh_grace_s": 0,
    "revoke_family_on_reuse": false
  },
  "exposure": {
    "instance_ready_delay_ms": 200,
    "ready_delay_ms": 200,
    "list_lag_ms": 0,
    "list": "full",
    "list_limit": 0,
    "list_fields": {},
    "empty_list": "items",
    "date_format": "iso-millis",
    "expiration_offset_s": 0,
    "contact": "nested",
    "group": "variant",
    "group_in_body": "any",
    "group_id_required": false,
    "optional_fields": "present",
    "unknown_fields": false,
    "csr_encoding": "any",
    "show_csr": true,
    "description_limit": 0,
    "surplus_users": 0,
    "exclusive_consumer_group": false,
    "unique_common_names": true,
    "create_status": 201,
    "delete_status": 204,
    "id_in_answer": true,
    "certificate": {
      "lifetime_s": 31536000,
      "not_before_offset_s": -60,
      "usage": "client",
      "key": "own",
      "answer": "present",
      "format": "pem",
      "chain": "intermediate",
      "order": "leaf-first"
    }
  },
  "catalog": {
    "items": {},
    "id_in": "body",
    "status_style": "final",
    "steps": ["SUBMITTED", "IN_PROGRESS"],
    "step_ms": 200,
    "outcome": "successful",
    "elements": {},
    "missing_elements": [],
    "decoys": true,
    "reversed": false,
    "raw_update": null
  }
})";

const json::value& defaults()
{
    static const json::value document = json::parse(defaults_text);
    return document;
}

// Objects that are empty by default are free-form maps: any key may be set there.
void merge(json::value& target, const json::value& change, const json::value& standard, const std::string& at)
{
    if (change.is_null()) {
        target = standard;
        return;
    }
    if (!standard.is_object()) {
        target = change;
        return;
    }
    if (!change.is_object()) throw bad_request{at + " must be an object"};
    const bool free = standard.as_object().empty();
    for (const auto& [key, value] : change.as_object()) {
        const std::string path = at.empty() ? std::string{key} : at + "." + std::string{key};
        if (free) {
            target.as_object()[key] = value;
            continue;
        }
        const auto* known = standard.as_object().if_contains(key);
        if (known == nullptr) throw bad_request{"there is no behaviour \"" + path + "\""};
        merge(target.as_object()[key], value, *known, path);
    }
}

// Reads the members of an object; a type error names the member.
class member_reader {
public:
    member_reader(const json::value& object, std::string at) : object_{object.as_object()}, at_{std::move(at)}
    {
    }

    const json::value& at(std::string_view key) const { return object_.at(key); }

    std::string text(std::string_view key) const
    {
        if (!at(key).is_string()) fail(key, "a string");
        return std::string{std::string_view{at(key).as_string()}};
    }

    bool flag(std::string_view key) const
    {
        if (!at(key).is_bool()) fail(key, "true or false");
        return at(key).as_bool();
    }

    std::int64_t number(std::string_view key) const
    {
        if (!at(key).is_number()) fail(key, "a number");
        return at(key).to_number<std::int64_t>();
    }

    std::string choice(std::string_view key, std::initializer_list<std::string_view> known) const
    {
        const std::string value = text(key);
        if (std::ranges::find(known, value) != known.end()) return value;
        std::string list;
        for (const auto each : known)
            list += (list.empty() ? "" : ", ") + std::string{each};
        fail(key, "one of " + list);
    }

    std::vector<std::string> texts(std::string_view key) const
    {
        std::vector<std::string> list;
        if (!at(key).is_array()) fail(key, "an array of strings");
        for (const auto& each : at(key).as_array()) {
            if (!each.is_string()) fail(key, "an array of strings");
            list.emplace_back(std::string_view{each.as_string()});
        }
        return list;
    }

    member_reader object(std::string_view key) const { return {at(key), at_ + std::string{key} + "."}; }

private:
    [[noreturn]] void fail(std::string_view key, const std::string& wanted) const
    {
        throw bad_request{at_ + std::string{key} + " must be " + wanted};
    }

    const json::object& object_;
    std::string at_;
};

oauth_behaviour read_oauth(const member_reader& from)
{
    oauth_behaviour out{
        .person = from.text("person"),
        .userstore = from.text("userstore"),
        .authorize_error = from.text("authorize_error"),
        .authorize_error_description = from.text("authorize_error_description"),
        .echo_state = from.flag("echo_state"),
        .code_lifetime_s = from.number("code_lifetime_s"),
        .access_token_lifetime_s = from.number("access_token_lifetime_s"),
        .expires_in = from.at("expires_in"),
        .refresh_token = from.choice("refresh_token", {"rotate", "same", "login-only", "none"}),
        .refresh_grace_s = from.number("refresh_grace_s"),
        .revoke_family_on_reuse = from.flag("revoke_family_on_reuse")};
    for (const auto& each : from.at("clients").as_array()) {
        const member_reader client{each, "oauth.clients."};
        const auto* refresh = each.as_object().if_contains("refresh_tokens");
        out.clients.push_back({.id = client.text("id"),
                               .secret = client.text("secret"),
                               .redirect_urls = client.texts("redirect_urls"),
                               .refresh_tokens = refresh == nullptr || refresh->as_bool()});
    }
    for (const auto& each : from.at("persons").as_array()) {
        const member_reader person{each, "oauth.persons."};
        out.persons.push_back({.login = person.text("login"),
                               .email = person.text("email"),
                               .first_name = person.text("first_name"),
                               .last_name = person.text("last_name")});
    }
    return out;
}

certificate_behaviour read_certificate(const member_reader& from)
{
    return {.lifetime_s = from.number("lifetime_s"),
            .not_before_offset_s = from.number("not_before_offset_s"),
            .usage = from.choice("usage", {"client", "server", "both", "none"}),
            .key = from.choice("key", {"own", "other"}),
            .answer = from.choice("answer", {"present", "absent", "null", "empty", "garbage"}),
            .format = from.choice("format",
                                  {"pem", "pem-crlf", "pem-escaped", "pem-text", "base64-pem", "base64-der"}),
            .chain = from.choice("chain", {"none", "intermediate", "full"}),
            .order = from.choice("order", {"leaf-first", "leaf-last", "shuffled"})};
}

exposure_behaviour read_exposure(const member_reader& from)
{
    return {
        .instance_ready_delay_ms = from.number("instance_ready_delay_ms"),
        .ready_delay_ms = from.number("ready_delay_ms"),
        .list_lag_ms = from.number("list_lag_ms"),
        .list = from.choice("list", {"full", "empty", "cut", "html"}),
        .list_limit = from.number("list_limit"),
        .list_fields = from.at("list_fields").as_object(),
        .empty_list = from.choice("empty_list", {"items", "null", "object"}),
        .date_format = from.choice(
            "date_format", {"iso", "iso-millis", "iso-nanos", "iso-offset", "iso-compact-offset",
                            "iso-no-zone", "date", "blank", "blank-millis", "rfc1123", "unix", "unix-text",
                            "unix-ms", "unix-ms-text", "garbage", "empty", "null", "absent"}),
        .expiration_offset_s = from.number("expiration_offset_s"),
        .contact = from.choice("contact", {"nested", "flat", "both", "null", "absent"}),
        .group =
            from.choice("group", {"variant", "business-group", "space-id", "space", "all", "null", "absent"}),
        .group_in_body = from.choice("group_in_body", {"any", "business-group", "space"}),
        .group_id_required = from.flag("group_id_required"),
        .optional_fields = from.choice("optional_fields", {"present", "null", "absent"}),
        .unknown_fields = from.flag("unknown_fields"),
        .csr_encoding = from.choice("csr_encoding", {"any", "pem", "der"}),
        .show_csr = from.flag("show_csr"),
        .description_limit = from.number("description_limit"),
        .surplus_users = from.number("surplus_users"),
        .exclusive_consumer_group = from.flag("exclusive_consumer_group"),
        .unique_common_names = from.flag("unique_common_names"),
        .create_status = from.number("create_status"),
        .delete_status = from.number("delete_status"),
        .id_in_answer = from.flag("id_in_answer"),
        .certificate = read_certificate(from.object("certificate"))};
}

catalog_behaviour read_catalog(const member_reader& from)
{
    return {.items = from.at("items").as_object(),
            .id_in = from.choice("id_in", {"body", "location", "both", "nowhere"}),
            .status_style = from.choice("status_style", {"final", "phase", "state"}),
            .steps = from.texts("steps"),
            .step_ms = from.number("step_ms"),
            .outcome = from.choice("outcome", {"successful", "failed", "rejected", "never"}),
            .elements = from.at("elements").as_object(),
            .missing_elements = from.texts("missing_elements"),
            .decoys = from.flag("decoys"),
            .reversed = from.flag("reversed"),
            .raw_update = from.at("raw_update")};
}

behaviour read(const json::value& document)
{
    const member_reader from{document, ""};
    return {.server_certificate =
                from.choice("server_certificate", {"good", "unknown-ca", "other-host", "expired"}),
            .clock_offset_s = from.number("clock_offset_s"),
            .requests_per_s = from.number("requests_per_s"),
            .retry_after_s = from.number("retry_after_s"),
            .tenants = from.texts("tenants"),
            .oauth = read_oauth(from.object("oauth")),
            .exposure = read_exposure(from.object("exposure")),
            .catalog = read_catalog(from.object("catalog"))};
}

}  // namespace

behaviour_document::behaviour_document()
{
    reset();
}

void behaviour_document::patch(const json::value& change)
{
    json::value next = document_;
    merge(next, change, defaults(), "");
    values_ = read(next);
    document_ = std::move(next);
}

void behaviour_document::reset()
{
    document_ = defaults();
    values_ = read(document_);
}

}  // namespace simulator
