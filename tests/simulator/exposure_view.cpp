#include "exposure_view.hpp"

#include "text.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <vector>

namespace simulator {

namespace json = boost::json;

namespace {

std::string status_after(std::int64_t created_ms, std::int64_t own_delay_ms, std::int64_t delay_ms)
{
    const auto delay = own_delay_ms >= 0 ? own_delay_ms : delay_ms;
    return delay >= 0 && now_ms() >= created_ms + delay ? "READY" : "IN PROGRESS";
}

std::string date_text(std::int64_t ms, const std::string& format)
{
    std::string fraction = std::to_string(1000 + ms % 1000).substr(1);
    constexpr std::int64_t two_hours_ms = 7'200'000;
    if (format == "iso") return format_utc(ms, "%Y-%m-%dT%H:%M:%SZ");
    if (format == "iso-millis") return format_utc(ms, "%Y-%m-%dT%H:%M:%S.") + fraction + "Z";
    if (format == "iso-nanos") return format_utc(ms, "%Y-%m-%dT%H:%M:%S.") + fraction + "000000Z";
    if (format == "iso-offset") return format_utc(ms + two_hours_ms, "%Y-%m-%dT%H:%M:%S+02:00");
    if (format == "iso-compact-offset")
        return format_utc(ms + two_hours_ms, "%Y-%m-%dT%H:%M:%S.") + fraction + "+0200";
    if (format == "iso-no-zone") return format_utc(ms, "%Y-%m-%dT%H:%M:%S");
    if (format == "date") return format_utc(ms, "%Y-%m-%d");
    if (format == "blank") return format_utc(ms, "%Y-%m-%d %H:%M:%S");
    if (format == "blank-millis") return format_utc(ms, "%Y-%m-%d %H:%M:%S.") + fraction + "Z";
    if (format == "rfc1123") return http_date(ms);
    if (format == "unix-text") return std::to_string(ms / 1000);
    if (format == "unix-ms-text") return std::to_string(ms);
    return format == "empty" ? "" : "in about a year";
}

void put_date(json::object& view, std::string_view key, std::int64_t ms, const std::string& format)
{
    if (format == "absent") return;
    if (format == "null")
        view[key] = nullptr;
    else if (format == "unix")
        view[key] = ms / 1000;
    else if (format == "unix-ms")
        view[key] = ms;
    else
        view[key] = date_text(ms, format);
}

void put_group(json::object& view, const variant& service, const json::value& id, const json::value& name,
               const std::string& spelling)
{
    if (spelling == "absent") return;
    const bool all = spelling == "all";
    const bool null = spelling == "null";
    const bool spaces =
        spelling == "space" || spelling == "space-id" || ((null || spelling == "variant") && service.spaces);
    const json::value shown_id = null ? json::value(nullptr) : id;
    const json::value shown_name = null ? json::value(nullptr) : name;
    if (all || !spaces) view["businessGroupId"] = shown_id;
    if (all || !spaces) view["businessGroupName"] = shown_name;
    if (all || (spaces && spelling != "space")) view["spaceID"] = shown_id;
    if (all || spelling == "space") view["space"] = shown_id;
    if (all || spaces) view["spaceName"] = shown_name;
}

void put_contact(json::object& view, const std::string& email, const std::string& spelling)
{
    if (spelling == "nested" || spelling == "both") view["contact"] = json::object{{"email", email}};
    if (spelling == "flat" || spelling == "both") view["contact.email"] = email;
    if (spelling == "null") view["contact"] = nullptr;
}

void put_optional(json::object& view, std::string_view key, const std::string& value, const std::string& mode)
{
    if (mode == "present") view[key] = value;
    if (mode == "null") view[key] = nullptr;
}

void put_unknown(json::object& view)
{
    view["links"] = json::array{{{"rel", "self"}, {"href", "https://elsewhere.example.com"}}};
    view["schemaRevision"] = 7;
}

void replace_all(std::string& text, std::string_view what, std::string_view by)
{
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
}

std::vector<X509*> chain_of(X509* leaf, const certificate_behaviour& rules, const user_authority& authority)
{
    std::vector<X509*> chain{leaf};
    if (rules.chain != "none") chain.push_back(authority.issuer.certificate.get());
    if (rules.chain == "full") chain.push_back(authority.root.certificate.get());
    if (rules.order == "leaf-last") std::ranges::reverse(chain);
    if (rules.order == "shuffled") std::ranges::rotate(chain, chain.begin() + 1);
    return chain;
}

std::string certificate_text(const user& shown, const certificate_behaviour& rules,
                             const user_authority& authority)
{
    if (rules.format == "base64-der") return base64_encode(shown.certificate_der);
    const auto leaf = openssl::certificate_from_der(shown.certificate_der);
    std::string pem;
    for (X509* each : chain_of(leaf.get(), rules, authority)) {
        if (rules.format == "pem-text") pem += "subject and issuer, as some tools print them\n";
        pem += openssl::to_pem(each);
    }
    if (rules.format == "pem-crlf") replace_all(pem, "\n", "\r\n");
    if (rules.format == "pem-escaped") replace_all(pem, "\n", "\\n");
    return rules.format == "base64-pem" ? base64_encode(pem) : pem;
}

void put_certificate(json::object& view, const user& shown, const certificate_behaviour& rules,
                     const user_authority& authority)
{
    if (rules.answer == "absent") return;
    if (rules.answer == "null")
        view["certificate"] = nullptr;
    else if (rules.answer == "empty")
        view["certificate"] = "";
    else if (rules.answer == "garbage")
        view["certificate"] =
            "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";
    else
        view["certificate"] = certificate_text(shown, rules, authority);
}

void put_replacements(json::object& view, const json::object& fields)
{
    for (const auto& [key, value] : fields)
        view[key] = value;
}

}  // namespace

std::string status_of(const instance& shown, const exposure_behaviour& rules)
{
    if (!shown.status.empty()) return shown.status;
    return status_after(shown.created_ms, shown.ready_delay_ms, rules.instance_ready_delay_ms);
}

std::string status_of(const user& shown, const exposure_behaviour& rules)
{
    if (!shown.status.empty()) return shown.status;
    return status_after(shown.created_ms, shown.ready_delay_ms, rules.ready_delay_ms);
}

json::object view_of(const instance& shown, const exposure_behaviour& rules)
{
    json::object view{{"id", shown.id}, {"name", shown.name}, {"status", status_of(shown, rules)}};
    put_group(view, *shown.service, shown.group_id, shown.group_name, rules.group);
    if (rules.unknown_fields) put_unknown(view);
    return view;
}

json::object view_of(const user& shown, const exposure_behaviour& rules)
{
    const auto status = status_of(shown, rules);
    json::object view(20);
    view["id"] = shown.id;
    view["name"] = shown.name;
    view["status"] = status;
    view["description"] = shown.description;
    view["consumerGroup"] = shown.consumer_group;
    put_optional(view, "createdBy", shown.created_by, rules.optional_fields);
    put_group(view, *shown.service, shown.group_id, shown.group_name, rules.group);
    put_contact(view, shown.email, rules.contact);
    if (status == "READY") {
        put_date(view, "creationDate", shown.created_ms, rules.date_format);
        put_date(view, "expirationDate", shown.expires_ms + rules.expiration_offset_s * 1000,
                 rules.date_format);
    } else if (rules.optional_fields != "absent") {
        view["creationDate"] = nullptr;
        view["expirationDate"] = nullptr;
    }
    if (rules.unknown_fields) put_unknown(view);
    put_replacements(view, shown.fields);
    view.erase("csr");
    view.erase("certificate");
    return view;
}

json::object full_view_of(const user& shown, const exposure_behaviour& rules, const user_authority& authority)
{
    auto view = view_of(shown, rules);
    if (rules.show_csr) view["csr"] = shown.csr;
    if (status_of(shown, rules) == "READY")
        put_certificate(view, shown, rules.certificate, authority);
    else if (rules.optional_fields != "absent")
        view["certificate"] = nullptr;
    put_replacements(view, shown.fields);
    return view;
}

}  // namespace simulator
