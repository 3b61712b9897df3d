#include "faults.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <map>

namespace simulator {

namespace json = boost::json;

namespace {

std::string text_of(const json::value& value)
{
    return std::string{std::string_view{value.as_string()}};
}

std::vector<std::string> texts_of(const json::value& value)
{
    return value.is_string() ? std::vector{text_of(value)} : json::value_to<std::vector<std::string>>(value);
}

std::chrono::milliseconds milliseconds_of(const json::value& value)
{
    return std::chrono::milliseconds{value.to_number<std::int64_t>()};
}

response& replacement(effect& what)
{
    if (!what.instead) {
        what.instead = response{};
        what.work = false;
    }
    return *what.instead;
}

void set_headers(response& answer, const json::object& headers)
{
    for (const auto& [name, value] : headers)
        answer.fields.emplace_back(name, text_of(value));
}

void set_redirect(response& answer, const std::string& target)
{
    answer.status = 302;
    answer.fields.emplace_back("Location", target);
}

void set_body(response& answer, const json::value& body)
{
    const bool plain = body.is_string();
    answer.body = plain ? text_of(body) : json::serialize(body);
    if (find(answer.fields, "Content-Type")) return;
    const bool html = plain && !answer.body.empty() && answer.body.front() == '<';
    answer.fields.emplace_back("Content-Type", html ? "text/html; charset=utf-8" : "application/json");
}

// "before": the request is not processed. "after": it is processed and only the response is lost.
void lose(effect& what, delivery how, const std::string& when)
{
    if (when != "before" && when != "after")
        throw bad_request{"expected \"before\" or \"after\", not " + when};
    what.how = how;
    what.work = when == "after";
}

framing framing_of(const std::string& name)
{
    if (name == "length") return framing::length;
    if (name == "chunked") return framing::chunked;
    if (name == "until-close") return framing::until_close;
    throw bad_request{"framing is length, chunked or until-close, not " + name};
}

}  // namespace

void fault_rules::add(const json::value& rules)
{
    std::vector<rule> added;
    if (rules.is_object()) {
        added.push_back(read(rules.as_object()));
    } else {
        for (const auto& each : rules.as_array())
            added.push_back(read(each.as_object()));
    }
    for (auto& each : added) {
        if (each.what.rule.empty()) each.what.rule = "rule-" + std::to_string(rules_.size() + 1);
        rules_.push_back(std::move(each));
    }
}

fault_rules::rule fault_rules::read(const json::object& given)
{
    using setter = void (*)(rule&, const json::value&);
    static const std::map<std::string_view, setter> setters{
        {"name", [](rule& r, const json::value& v) { r.what.rule = text_of(v); }},
        {"method", [](rule& r, const json::value& v) { r.method = text_of(v); }},
        {"path", [](rule& r, const json::value& v) { r.path = std::regex{text_of(v)}; }},
        {"operation", [](rule& r, const json::value& v) { r.operations = texts_of(v); }},
        {"nth", [](rule& r, const json::value& v) { r.nth = v.to_number<std::uint64_t>(); }},
        {"times", [](rule& r, const json::value& v) { r.times = v.to_number<std::uint64_t>(); }},
        {"sequence", [](rule& r, const json::value& v) { r.sequence = v.to_number<std::uint64_t>(); }},
        {"delay_ms", [](rule& r, const json::value& v) { r.what.delay = milliseconds_of(v); }},
        {"delay_after_ms", [](rule& r, const json::value& v) { r.what.delay_after = milliseconds_of(v); }},
        {"late_ms", [](rule& r, const json::value& v) { r.what.late = milliseconds_of(v); }},
        {"status", [](rule& r, const json::value& v) { replacement(r.what).status = v.to_number<int>(); }},
        {"headers", [](rule& r, const json::value& v) { set_headers(replacement(r.what), v.as_object()); }},
        {"body", [](rule& r, const json::value& v) { set_body(replacement(r.what), v); }},
        {"redirect", [](rule& r, const json::value& v) { set_redirect(replacement(r.what), text_of(v)); }},
        {"close", [](rule& r, const json::value& v) { lose(r.what, delivery::close, text_of(v)); }},
        {"reset", [](rule& r, const json::value& v) { lose(r.what, delivery::reset, text_of(v)); }},
        {"hang", [](rule& r, const json::value& v) { lose(r.what, delivery::hang, text_of(v)); }},
        {"truncate", [](rule& r, const json::value& v) { r.what.truncate = v.to_number<std::size_t>(); }},
        {"huge_bytes", [](rule& r, const json::value& v) { r.what.huge = v.to_number<std::size_t>(); }},
        {"drip_ms", [](rule& r, const json::value& v) { r.what.drip = milliseconds_of(v); }},
        {"framing", [](rule& r, const json::value& v) { r.what.frame = framing_of(text_of(v)); }},
        {"process", [](rule&, const json::value& v) { v.as_bool(); }},
    };
    rule read{.given = given};
    for (const auto& [key, value] : given) {
        const auto known = setters.find(key);
        if (known == setters.end()) throw bad_request{"a rule has no key \"" + std::string{key} + "\""};
        known->second(read, value);
    }
    // Last, because a rule with a response of its own turns `work` off.
    if (const auto* process = given.if_contains("process")) read.what.work = process->as_bool();
    return read;
}

bool fault_rules::matches(const rule& candidate, const request& incoming, std::string_view operation)
{
    if (!candidate.method.empty() && candidate.method != incoming.method) return false;
    if (!candidate.operations.empty() &&
        std::ranges::find(candidate.operations, operation) == candidate.operations.end())
        return false;
    return !candidate.path || std::regex_search(incoming.path, *candidate.path);
}

effect fault_rules::arrive(const request& incoming, std::string_view operation)
{
    effect chosen;
    for (auto& each : rules_) {
        if (!matches(each, incoming, operation)) continue;
        ++each.seen;
        const bool due = each.sequence != 0 ? each.sequence == incoming.sequence : each.seen >= each.nth;
        const bool spent = each.times != 0 && each.fired >= each.times;
        if (!due || spent || !chosen.rule.empty()) continue;
        ++each.fired;
        chosen = each.what;
    }
    return chosen;
}

json::array fault_rules::describe() const
{
    json::array list;
    for (const auto& each : rules_) {
        json::object entry = each.given.as_object();
        entry["name"] = each.what.rule;
        entry["seen"] = each.seen;
        entry["fired"] = each.fired;
        list.push_back(std::move(entry));
    }
    return list;
}

}  // namespace simulator
