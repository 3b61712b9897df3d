#include "catalog.hpp"

#include "text.hpp"

#include <boost/json.hpp>

#include <algorithm>

namespace simulator {

namespace json = boost::json;

namespace {

constexpr std::string_view request_type =
    "com.example.vcac.catalog.domain.request.CatalogItemProvisioningRequest";

// The keys of the blank template in the reference.
json::object reference_data()
{
    return {{"aggregate", nullptr},          {"p_enabled_backup_configuration", nullptr},
            {"p_friendly_name", nullptr},    {"p_network_active_a", nullptr},
            {"p_network_active_b", nullptr}, {"p_oracle_db_version_type", nullptr},
            {"p_plan_mode", nullptr},        {"p_vm_cpu_count", nullptr},
            {"planName", nullptr},           {"serviceName", nullptr},
            {"tmpCatalog", nullptr},         {"uplinkTopology", nullptr}};
}

// The catalog service has an error format of its own.
response catalog_problem(int status, int code, std::string_view message)
{
    return json_response(
        status,
        json::object{{"errors", json::array{json::object{
                                    {"code", code}, {"message", message}, {"systemMessage", message}}}}});
}

json::value parse_body(const request& incoming, journal_record& record)
{
    if (!incoming.field("content-type").starts_with("application/json"))
        record.violations.emplace_back("Content-Type is not application/json");
    boost::system::error_code error;
    auto body = json::parse(incoming.body, error);
    if (error || !body.is_object()) throw bad_request{"the body is not a JSON object"};
    record.body = body;
    return body;
}

json::object facet(std::string_view type, const json::value& value)
{
    const std::string_view kind = value.is_bool() ? "boolean" : value.is_number() ? "integer" : "string";
    return {{"type", type}, {"value", json::object{{"type", kind}, {"value", value}}}};
}

std::string date(std::int64_t ms)
{
    return format_utc(ms, "%Y-%m-%dT%H:%M:%S.000Z");
}

}  // namespace

response catalog_service::handle(const route& to, const request& incoming, journal_record& record)
{
    if (to.operation == "catalog_request") return show_order(to.item);
    if (to.operation == "action_form") return form();
    if (to.operation == "action_values") return compute(incoming, record);

    const auto business_group = find(incoming.query, "businessGroupId").value_or("");
    if (business_group.empty()) return catalog_problem(400, 10101, "businessGroupId is required");
    if (!rules().items.empty() && !rules().items.contains(to.item))
        return catalog_problem(404, 20116, "there is no entitled catalog item " + to.item);
    if (to.operation == "catalog_template") return make_template(to.item);
    return submit(to, business_group, incoming, record);
}

response catalog_service::make_template(const std::string& item) const
{
    const auto* configured = rules().items.if_contains(item);
    const json::value data = configured == nullptr ? json::value(reference_data()) : *configured;
    return json_response(200, json::object{{"type", request_type}, {"data", data}});
}

response catalog_service::submit(const route& to, const std::string& business_group, const request& incoming,
                                 journal_record& record)
{
    const auto body = parse_body(incoming, record);
    const auto* type = body.as_object().if_contains("type");
    if (type == nullptr || !type->is_string() || type->as_string().empty())
        return catalog_problem(400, 12017, "type is mandatory");
    const auto* data = body.as_object().if_contains("data");
    if (data == nullptr || !data->is_object()) return catalog_problem(400, 12018, "data must be an object");

    const std::string id = random_uuid();
    const auto& made = orders_[id] = {
        .item = to.item, .business_group = business_group, .body = body, .created_ms = now_ms()};
    auto view = view_of(id, made);
    if (rules().id_in == "location" || rules().id_in == "nowhere") view = {};
    auto answer = view.empty() ? response{.status = 201} : json_response(201, view);
    if (rules().id_in == "location" || rules().id_in == "both")
        answer.fields.emplace_back(
            "Location", "https://" + incoming.field("host") + "/catalog-service/api/consumer/requests/" + id);
    return answer;
}

response catalog_service::show_order(const std::string& id) const
{
    const auto found = orders_.find(id);
    if (found == orders_.end()) return catalog_problem(404, 20111, "there is no request " + id);
    return json_response(200, view_of(id, found->second));
}

// Goes through the steps, each lasting step_ms, then reports the outcome.
json::object catalog_service::view_of(const std::string& id, const order& shown) const
{
    const auto age = now_ms() - shown.created_ms;
    const auto step = rules().step_ms > 0 ? age / rules().step_ms : std::ssize(rules().steps);
    const bool over = step >= std::ssize(rules().steps) && rules().outcome != "never";
    const bool successful = over && rules().outcome == "successful";
    std::string phase = "IN_PROGRESS";
    if (!rules().steps.empty())
        phase =
            rules().steps[std::min<std::size_t>(static_cast<std::size_t>(step), rules().steps.size() - 1)];
    if (over) phase = successful ? "SUCCESSFUL" : rules().outcome == "failed" ? "FAILED" : "REJECTED";

    json::object view{{"@type", "CatalogItemRequest"},
                      {"id", id},
                      {"requestNumber", 1000},
                      {"dateCreated", date(shown.created_ms)},
                      {"requestedItemName", shown.item}};
    if (rules().status_style == "final") {
        view["state"] = phase;
        view["phase"] = phase;
        view["final"] = over;
        view["successful"] = successful;
    } else if (rules().status_style == "phase") {
        view["phase"] = phase;
    } else {
        view["state"] = phase == "FAILED" ? "PROVIDER_FAILED" : phase;
    }
    if (over && !successful)
        view["requestCompletion"] = json::object{{"requestCompletionState", phase},
                                                 {"completionDetails", "the order was " + lower_case(phase)}};
    return view;
}

json::object catalog_service::elements() const
{
    if (!rules().elements.empty()) return rules().elements;
    return {{"provider-accessKeyID", "simulated-access-key"},
            {"provider-secretAccessKey", "simulated-secret-key"}};
}

response catalog_service::form() const
{
    json::array fields;
    for (const auto& [id, value] : elements()) {
        fields.push_back(json::object{{"id", id}, {"label", id}, {"dataType", "string"}, {"value", nullptr}});
    }
    return json_response(
        200, json::object{
                 {"layout",
                  json::object{{"pages", json::array{json::object{{"id", "page-1"}, {"elements", fields}}}}}},
                 {"values", json::object{}}});
}

response catalog_service::compute(const request& incoming, journal_record& record) const
{
    const auto body = parse_body(incoming, record);
    const auto* affected = body.as_object().if_contains("affectedElements");
    if (affected == nullptr || !affected->is_array())
        return catalog_problem(400, 10102, "affectedElements must be an array of strings");
    if (!rules().raw_update.is_null()) return json_response(200, rules().raw_update);

    json::array updates;
    if (rules().decoys) updates.push_back(element_update("provider-decoy", "not asked for"));
    const auto known = elements();
    for (const auto& each : affected->as_array()) {
        if (!each.is_string())
            return catalog_problem(400, 10102, "affectedElements must be an array of strings");
        const std::string id{std::string_view{each.as_string()}};
        const auto* value = known.if_contains(id);
        if (value == nullptr ||
            std::ranges::find(rules().missing_elements, id) != rules().missing_elements.end())
            continue;
        updates.push_back(element_update(id, *value));
    }
    if (rules().reversed) std::reverse(updates.begin(), updates.end());
    return json_response(200, json::object{{"elementUpdates", std::move(updates)}});
}

// A value {"facets": [...]} replaces the default facets.
json::object catalog_service::element_update(const std::string& id, const json::value& value) const
{
    json::array facets;
    const auto* own = value.is_object() ? value.as_object().if_contains("facets") : nullptr;
    if (own != nullptr) {
        facets = own->as_array();
    } else {
        if (rules().decoys) facets.push_back(facet("readOnly", true));
        if (rules().decoys) facets.push_back(facet("defaultValue", "a decoy"));
        facets.push_back(facet("fixedValue", value));
        if (rules().decoys) facets.push_back(facet("fixedValue", "a later decoy"));
    }
    if (rules().reversed && own == nullptr && rules().decoys)
        std::rotate(facets.begin(), facets.begin() + 2, facets.end());
    return {{"id", id}, {"facetValues", json::object{{"facets", std::move(facets)}}}};
}

json::object catalog_service::describe() const
{
    json::array list;
    for (const auto& [id, each] : orders_) {
        auto view = view_of(id, each);
        view["item"] = each.item;
        view["business_group"] = each.business_group;
        view["body"] = each.body;
        list.push_back(std::move(view));
    }
    return {{"requests", std::move(list)}};
}

}  // namespace simulator
