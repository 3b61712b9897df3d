#include "journal.hpp"

#include "text.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <string_view>

namespace simulator {

namespace json = boost::json;

journal_record& journal::open(request& incoming, const std::string& operation)
{
    incoming.sequence = next_++;
    if (records_.size() == kept_) records_.pop_front();
    auto& record = records_.emplace_back();
    record.sequence = incoming.sequence;
    record.at_ms = now_ms();
    record.method = incoming.method;
    record.path = incoming.path;
    record.operation = operation;
    for (const auto& header : incoming.fields) {
        if (header.first != "authorization") record.headers.push_back(header);
    }
    constexpr std::string_view scheme = "Bearer ";
    const std::string authorization = incoming.field("authorization");
    if (authorization.starts_with(scheme))
        record.bearer = fingerprint(std::string_view{authorization}.substr(scheme.size()));
    return record;
}

journal_record* journal::find(std::uint64_t sequence)
{
    if (records_.empty() || sequence < records_.front().sequence) return nullptr;
    const auto at = sequence - records_.front().sequence;
    return at < records_.size() ? &records_[at] : nullptr;
}

void journal::close(std::uint64_t sequence, int status, const std::string& outcome)
{
    auto* record = find(sequence);
    if (record == nullptr) return;
    record->status = status;
    record->outcome = outcome;
    ++counts_[record->operation][status];
}

void journal::clear()
{
    records_.clear();
    counts_.clear();
    connections_ = {.open = connections_.open, .most_open = connections_.open};
}

void journal::connection_opened()
{
    ++connections_.accepted;
    ++connections_.open;
    connections_.most_open = std::max(connections_.most_open, connections_.open);
}

void journal::connection_ended(bool refused)
{
    --connections_.open;
    if (refused) ++connections_.refused;
}

json::object journal::connections() const
{
    return {{"accepted", connections_.accepted},
            {"refused", connections_.refused},
            {"open", connections_.open},
            {"most_open", connections_.most_open}};
}

json::array journal::describe(std::uint64_t since) const
{
    json::array list;
    for (const auto& record : records_) {
        if (record.sequence <= since) continue;
        json::object entry{
            {"sequence", record.sequence},   {"at_ms", record.at_ms},
            {"method", record.method},       {"path", record.path},
            {"operation", record.operation}, {"bearer", record.bearer},
            {"status", record.status},       {"outcome", record.outcome},
            {"rule", record.rule},           {"violations", json::value_from(record.violations)},
            {"body", record.body},           {"details", record.details}};
        json::object headers;
        for (const auto& [name, value] : record.headers)
            headers[name] = value;
        entry["headers"] = std::move(headers);
        list.push_back(std::move(entry));
    }
    return list;
}

json::object journal::counts() const
{
    json::object all;
    for (const auto& [operation, statuses] : counts_) {
        json::object of_operation;
        for (const auto& [status, count] : statuses)
            of_operation[std::to_string(status)] = count;
        all[operation] = std::move(of_operation);
    }
    return all;
}

}  // namespace simulator
