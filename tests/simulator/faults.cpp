#include "faults.hpp"

#include <boost/json.hpp>

#include <algorithm>

namespace simulator {

namespace json = boost::json;

namespace {

std::string text_of(const json::value& value)
{
    return std::string{std::string_view{value.as_string()}};
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

void set_body(response& answer, const json::value& body)
{
    const bool plain = body.is_string();
    answer.body = plain ? text_of(body) : json::serialize(body);
    if (find(answer.fields, "Content-Type")) return;
    const bool html = plain && !answer.body.empty() && answer.body.front() == '<';
    answer.fields.emplace_back("Content-Type", html ? "text/html; charset=utf-8" : "application/json");
}

// "before": the request is not processed. "after": it is, and only the answer is lost.
void lose(effect& what, delivery how, const json::value& when)
{
    const std::string text = text_of(when);
    if (text != "before" && text != "after")
        throw bad_request{"expected \"before\" or \"after\", not " + text};
    what.how = how;
    what.work = text == "after";
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
    rule r;
    r.given = given;
    // The keys that replace the answer come first: "process" speaks about them.
    for (const auto& [name, value] : given) {
        const std::string_view key = name;
        if (key == "name")
            r.what.rule = text_of(value);
        else if (key == "method")
            r.method = text_of(value);
        else if (key == "path")
            r.path = std::regex{text_of(value)};
        else if (key == "operation" && value.is_string())
            r.operations = {text_of(value)};
        else if (key == "operation")
            for (const auto& each : value.as_array())
                r.operations.push_back(text_of(each));
        else if (key == "nth")
            r.nth = value.to_number<std::uint64_t>();
        else if (key == "times")
            r.times = value.to_number<std::uint64_t>();
        else if (key == "sequence")
            r.sequence = value.to_number<std::uint64_t>();
        else if (key == "delay_ms")
            r.what.delay = milliseconds_of(value);
        else if (key == "delay_after_ms")
            r.what.delay_after = milliseconds_of(value);
        else if (key == "late_ms")
            r.what.late = milliseconds_of(value);
        else if (key == "status")
            replacement(r.what).status = value.to_number<int>();
        else if (key == "headers")
            for (const auto& [field, text] : value.as_object())
                replacement(r.what).fields.emplace_back(field, text_of(text));
        else if (key == "body")
            set_body(replacement(r.what), value);
        else if (key == "redirect")
            replacement(r.what) = {.status = 302, .fields = {{"Location", text_of(value)}}};
        else if (key == "close")
            lose(r.what, delivery::close, value);
        else if (key == "reset")
            lose(r.what, delivery::reset, value);
        else if (key == "hang")
            lose(r.what, delivery::hang, value);
        else if (key == "truncate")
            r.what.truncate = value.to_number<std::size_t>();
        else if (key == "huge_bytes")
            r.what.huge = value.to_number<std::size_t>();
        else if (key == "framing")
            r.what.frame = framing_of(text_of(value));
        else if (key != "process")
            throw bad_request{"a rule has no key \"" + std::string{key} + "\""};
    }
    if (const auto* process = given.if_contains("process")) r.what.work = process->as_bool();
    return r;
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
