#include "platform.hpp"

#include "text.hpp"

#include <boost/json.hpp>

namespace simulator {

namespace json = boost::json;

platform::platform(const json::value& configuration, const user_authority& authority)
    : oauth{behaviour}, exposure{behaviour, authority}, catalog{behaviour}, configuration_(configuration)
{
    reset();
}

void platform::reset()
{
    behaviour.reset();
    faults.clear();
    log.clear();
    oauth.forget_everything();
    exposure.forget_everything();
    catalog.forget_everything();
    if (configuration_.is_null()) return;
    auto changes = configuration_.as_object();
    if (const auto* rules = changes.if_contains("faults")) faults.add(*rules);
    changes.erase("faults");
    behaviour.patch(changes);
}

effect platform::arrive(request& incoming)
{
    const auto to = find_route(incoming);
    auto& record = log.open(incoming, to.operation);
    auto chosen = faults.arrive(incoming, to.operation);
    record.rule = chosen.rule;
    return chosen;
}

response platform::work(const request& incoming)
{
    journal_record forgotten;  // the control API may clear the journal while a request is delayed
    auto* record = log.find(incoming.sequence);
    if (record == nullptr) record = &forgotten;
    try {
        return dispatch(find_route(incoming), incoming, *record);
    } catch (const bad_request& mistake) {
        return problem(400, mistake.message);
    }
}

response platform::dispatch(const route& to, const request& incoming, journal_record& record)
{
    if (to.operation == "not_found") return problem(404, "there is nothing at this address");
    if (to.operation == "wrong_method") return problem(405, "this address has no such method");
    if (to.operation == "authorize") return oauth.authorize(incoming);
    if (to.operation == "token") return oauth.token(incoming, record);
    if (to.operation == "swagger") return html_response(200, "Event exposure self-service API");

    if (const auto limit = behaviour.get().requests_per_s; limit > 0) {
        if (now_ms() < next_allowed_ms_) {
            auto refusal = problem(429, "too many requests");
            if (const auto wait = behaviour.get().retry_after_s; wait > 0)
                refusal.fields.emplace_back("Retry-After", std::to_string(wait));
            return refusal;
        }
        next_allowed_ms_ = now_ms() + 1000 / limit;
    }
    if (incoming.field("accept") != "application/json")
        record.violations.emplace_back("Accept is not application/json");
    const auto person = oauth.person_behind(incoming.field("authorization"));
    if (person.empty()) {
        auto refusal = problem(401, "the access token is invalid or expired");
        refusal.fields.emplace_back("WWW-Authenticate", "Bearer error=\"invalid_token\"");
        return refusal;
    }
    if (to.operation == "platform_api") {
        const auto& who = oauth.person(person);
        return json_response(200, {{"userName", who.login},
                                   {"email", who.email},
                                   {"firstName", who.first_name},
                                   {"lastName", who.last_name}});
    }
    return to.service != nullptr ? exposure.handle(to, incoming, person, record)
                                 : catalog.handle(to, incoming, record);
}

void platform::finish(response& answer) const
{
    if (!find(answer.fields, "Date"))
        answer.fields.emplace_back("Date", http_date(now_ms() + behaviour.get().clock_offset_s * 1000));
}

json::object platform::describe() const
{
    auto view = exposure.describe();
    view["oauth"] = oauth.describe();
    view["catalog"] = catalog.describe();
    view["counts"] = log.counts();
    view["connections"] = log.connections();
    return view;
}

json::object platform::save() const
{
    return {{"exposure", exposure.save()}, {"oauth", oauth.save()}};
}

void platform::load(const json::object& saved)
{
    exposure.load(saved.at("exposure").as_object());
    oauth.load(saved.at("oauth").as_object());
}

}  // namespace simulator
