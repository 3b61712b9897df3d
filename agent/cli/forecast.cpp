#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/reconcile/run.hpp"
#include "agent/service/forecast_view.hpp"
#include "policy/dates.hpp"
#include "policy/fingerprint.hpp"
#include "policy/limits.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"
#include "policy/text.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <map>

// Future events as a table, JSON, a calendar (RFC 5545) or a chart.

namespace cli {
namespace {

using boost::json::array;
using boost::json::object;
using policy::forecast_action;
using policy::forecast_entry;

constexpr const char* usual_time = "1y";
constexpr auto year = std::chrono::days(365);
constexpr std::size_t calendar_line = 75;  // octets, RFC 5545 section 3.1

// A duration as in the configuration, or a number of years.
policy::result<policy::duration> time_of(const std::string& text)
{
    int years = 0;
    const auto end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, years);
    auto time = error == std::errc() && std::string_view(rest, end) == "y" && years > 0 && years < 1000
                    ? policy::result<policy::duration>(years * year)
                    : parse_duration("--for", text);
    if (time && *time > policy::longest_forecast)
        return policy::failure{.code = policy::errc::usage,
                               .context = "--for: a forecast looks ahead 10 years at most",
                               .kind = policy::retry::never};
    return time;
}

bool is_refresh(const forecast_entry& e)
{
    return e.action == forecast_action::refresh;
}

object to_json(const policy::forecast_result& all)
{
    array entries;
    for (const auto& e : all.entries)
        entries.push_back(object{{"at", policy::format_utc(e.at)},
                                 {"exposure", text_or_null(e.name.exposure)},
                                 {"name", text_or_null(e.name.user)},
                                 {"action", policy::word_of(e.action)},
                                 {"reason", e.reason},
                                 {"sentence", e.sentence}});
    return {{"schema", "exposure-agent.forecast/v1"},
            {"until", policy::format_utc(all.until)},
            {"entries", std::move(entries)}};
}

colour paint_of(forecast_action what)
{
    if (what == forecast_action::expire) return colour::red;
    return what == forecast_action::login ? colour::yellow : colour::none;
}

void print(const policy::forecast_result& all)
{
    table shown({"AT", "IN", "USER", "ACTION", "REASON"});
    for (const auto& e : all.entries)
        if (!is_refresh(e))
            shown.add({{policy::format_utc(e.at)},
                       {e.at <= all.from ? "now" : policy::format_duration(e.at - all.from)},
                       {e.name.user.empty() ? "-" : e.name.text()},
                       {policy::word_of(e.action), paint_of(e.action)},
                       {e.sentence}});
    std::cout << shown.text();
    const auto first = std::ranges::find_if(all.entries, is_refresh);
    if (first != all.entries.end())
        std::cout << "The access token is refreshed "
                  << policy::count(static_cast<std::size_t>(std::ranges::count_if(all.entries, is_refresh)),
                                   "time")
                  << ", next at " << policy::format_utc(first->at) << "\n";
    std::cout << "Until " << policy::format_utc(all.until) << ": " << service::summary(all) << "\n";
}

// ---- the calendar

std::string calendar_time(policy::instant at)
{
    std::string text = policy::format_utc(at);
    std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
    return text;
}

std::string calendar_text(const std::string& text)
{
    std::string out;
    for (const char c : text) {
        if (c == '\\' || c == ';' || c == ',') out += '\\';
        if (c == '\n')
            out += "\\n";
        else if (static_cast<unsigned char>(c) >= ' ')
            out += c;
    }
    return out;
}

// Folds between characters, never within one.
void add_line(std::string& to, const std::string& line)
{
    std::size_t length = 0;
    for (std::size_t i = 0; i < line.size();) {
        std::size_t size = 1;
        while (i + size < line.size() && policy::is_continuation(line[i + size]))
            ++size;
        if (length + size > calendar_line) {
            to += "\r\n ";
            length = 1;
        }
        to.append(line, i, size);
        length += size;
        i += size;
    }
    to += "\r\n";
}

std::string title_of(const forecast_entry& e)
{
    switch (e.action) {
        case forecast_action::create:
            return e.name.text() + ": first certificate";
        case forecast_action::rotate:
            return e.name.text() + ": certificate rotates";
        case forecast_action::retire:
            return e.name.text() + ": replaced user is deleted";
        case forecast_action::remove:
            return e.name.text() + ": user is deleted";
        case forecast_action::expire:
            return e.name.text() + ": certificate expires";
        case forecast_action::login:
            return "exposure-agent: log in";
        case forecast_action::refresh:
            break;
    }
    return "exposure-agent: access token is refreshed";
}

// An event keeps its UID in the next forecast, so that a calendar replaces it.
std::string calendar(const policy::forecast_result& all, const std::string& owner)
{
    std::string out;
    for (const char* line :
         {"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//exposure-agent//forecast//EN", "CALSCALE:GREGORIAN"})
        add_line(out, line);
    std::map<std::string, int> known;
    for (const auto& e : all.entries) {
        if (is_refresh(e)) continue;
        auto id = policy::stable_fingerprint(owner + '\n' + e.name.text() + '\n' + policy::word_of(e.action) +
                                             '\n' + policy::format_utc(e.at).substr(0, 10));
        if (const int again = known[id]++; again > 0) id += "-" + std::to_string(again);
        add_line(out, "BEGIN:VEVENT");
        add_line(out, "UID:" + id + "@exposure-agent");
        add_line(out, "DTSTAMP:" + calendar_time(all.from));
        add_line(out, "DTSTART:" + calendar_time(e.at));
        add_line(out, "SUMMARY:" + calendar_text(title_of(e)));
        add_line(out, "DESCRIPTION:" + calendar_text("Host " + owner + ": " + e.sentence));
        add_line(out, "CATEGORIES:" + std::string(policy::word_of(e.action)));
        add_line(out, "TRANSP:TRANSPARENT");
        add_line(out, "END:VEVENT");
    }
    add_line(out, "END:VCALENDAR");
    return out;
}

io::awaitable<int> show(service::application& app, const globals& common, const forecast_options& options)
{
    const auto only = parse_names(options.names, app.desired());
    if (!only) co_return report_failure(only.error());
    const auto time = time_of(options.time.value_or(usual_time));
    if (!time) co_return report_failure(time.error());
    auto& state = app.state();
    if (auto loaded = co_await state.load(); !loaded) co_return report_failure(loaded.error());
    if (auto known = reconcile::check_names(state, *only); !known) co_return report_failure(known.error());
    co_await state.inspect_outputs("");
    auto seen = co_await service::forecast_of(app, app.clock().now() + *time);
    if (!seen) co_return report_failure(seen.error());
    if (!only->empty()) policy::keep_only(*seen, *only);
    const auto owner = state.stored().owner;
    if (common.output == "json")
        print_json(to_json(*seen));
    else if (common.output == "ics")
        std::cout << calendar(*seen, owner);
    else if (common.output == "svg")
        std::cout << service::timeline_svg(*seen, owner, true);
    else
        print(*seen);
    co_return policy::exit_code::done;
}

}  // namespace

int forecast(const globals& common, const forecast_options& options)
{
    return read_state(common, [&](service::application& app) { return show(app, common, options); });
}

}  // namespace cli
