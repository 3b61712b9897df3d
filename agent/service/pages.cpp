#include "agent/service/pages.hpp"

#include "agent/disk/files.hpp"
#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "agent/service/forecast_view.hpp"
#include "agent/service/status_view.hpp"
#include "config/values.hpp"
#include "crypto/digest.hpp"
#include "policy/dates.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace service {

// ---- the status page

namespace {

using policy::user_state;

constexpr std::size_t next_entries = 5;

constexpr const char* css = R"css(
:root{color-scheme:light dark;--text:#1f2328;--soft:#59636e;--paper:#ffffff;--card:#f6f8fa;--line:#d1d9e0;--good:#1a7f37;--warn:#9a6700;--bad:#cf222e}
@media (prefers-color-scheme:dark){:root{--text:#e6edf3;--soft:#9198a1;--paper:#0d1117;--card:#151b23;--line:#3d444d;--good:#3fb950;--warn:#d29922;--bad:#f85149}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:64rem;background:var(--paper);color:var(--text);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:0}
h2{font-size:1.1rem;margin:2rem 0 .5rem}
p{margin:.25rem 0}
.soft{color:var(--soft)}
.good{color:var(--good)}
.warn{color:var(--warn)}
.bad{color:var(--bad)}
.notices{list-style:none;margin:0;padding:0}
.notices li{margin:.5rem 0;padding:.6rem .8rem;background:var(--card);border-left:4px solid var(--bad)}
.notices li.later{border-color:var(--line)}
code{display:inline-block;margin-top:.25rem;padding:.1rem .4rem;border:1px solid var(--line);border-radius:4px;background:var(--paper);font:14px ui-monospace,monospace}
table{width:100%;border-collapse:collapse}
th,td{padding:.4rem .6rem .4rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{font-weight:600;color:var(--soft)}
.scroll{overflow-x:auto;border:1px solid var(--line)}
.scroll svg{display:block;width:100%;min-width:45rem;height:auto}
a{color:inherit}
footer{margin-top:2rem;border-top:1px solid var(--line);padding-top:.5rem}
@media (min-width:40.01rem){th,td[data-label=State],td[data-label=Action]{white-space:nowrap}}
@media (max-width:40rem){
thead{position:absolute;clip-path:inset(50%)}
table,tbody,tr,td{display:block}
tr{padding:.5rem 0;border-bottom:1px solid var(--line)}
td{border:0;padding:.1rem 0}
td::before{content:attr(data-label) ": ";color:var(--soft)}
}
)css";

const char* style_of(user_state state)
{
    switch (state) {
        case user_state::valid:
            return "good";
        case user_state::expired:
        case user_state::failing:
        case user_state::blocked:
            return "bad";
        default:
            return "warn";
    }
}

std::string element(const std::string& name, const std::string& style, const std::string& text)
{
    return "<" + name + (style.empty() ? "" : " class=\"" + style + "\"") + ">" + escape(text) + "</" + name +
           ">";
}

std::string cell(const char* label, const std::string& text, const char* style = "")
{
    return "<td data-label=\"" + std::string(label) + "\"" +
           (*style ? " class=\"" + std::string(style) + "\"" : "") + ">" + escape(text) + "</td>";
}

std::string heading(std::initializer_list<const char*> columns)
{
    std::string row;
    for (const char* column : columns)
        row += "<th scope=\"col\">" + std::string(column) + "</th>";
    return "<table><thead><tr>" + row + "</tr></thead><tbody>\n";
}

// A date, and how far away it is.
std::string date_cell(const char* label, const std::optional<policy::instant>& at, policy::instant now)
{
    if (!at) return cell(label, "-");
    return cell(label, policy::format_utc(*at).substr(0, 10) +
                           (*at <= now ? " (now)" : " (in " + until(at, now) + ")"));
}

std::string list_of(const std::vector<notice>& all, bool attention)
{
    std::string out;
    for (const auto& n : all) {
        if (n.attention != attention) continue;
        out += std::string("<li") + (attention ? "" : " class=\"later\"") + ">" + escape(n.sentence);
        if (!n.command.empty()) out += "<br>" + element("code", "", n.command);
        out += "</li>\n";
    }
    return out.empty() ? "" : "<ul class=\"notices\">\n" + out + "</ul>\n";
}

std::string attention(const std::vector<notice>& all)
{
    const auto pressing = list_of(all, true);
    const auto later = list_of(all, false);
    return "<h2>Needs attention</h2>\n" +
           (pressing.empty() ? element("p", "good", "Nothing needs attention.") + "\n" : pressing) +
           (later.empty() ? "" : "<h2>In progress</h2>\n" + later);
}

std::string users_table(const std::vector<policy::user_status>& users, policy::instant now)
{
    if (users.empty()) return element("p", "soft", "No users are configured.") + "\n";
    auto out = heading({"User", "State", "Expires", "Rotates", "Hooks"});
    for (const auto& s : users) {
        const auto* c = s.current && s.current->certificate ? &*s.current->certificate : nullptr;
        out +=
            "<tr>" + cell("User", s.name.text()) +
            cell("State", policy::word_of(s.state), style_of(s.state)) +
            date_cell("Expires", c ? std::optional(c->expiry()) : std::nullopt, now) +
            date_cell("Rotates", s.rotate_at, now) +
            cell("Hooks", policy::word_of(s.deploy), s.deploy == policy::deploy_state::failed ? "bad" : "") +
            "</tr>\n";
    }
    return out + "</tbody></table>\n";
}

std::string credentials_table(const std::vector<credential_view>& credentials)
{
    if (credentials.empty()) return "";
    auto out = "<h2>Credentials</h2>\n" + heading({"Credential", "State", "Updated"});
    for (const auto& c : credentials)
        out += "<tr>" + cell("Credential", c.name) +
               cell("State", c.state, c.last_error.empty() ? "" : "bad") +
               cell("Updated", c.updated_at ? policy::format_utc(*c.updated_at) : "-") + "</tr>\n";
    return out + "</tbody></table>\n";
}

std::string coming(const policy::forecast_result& ahead, const std::string& owner)
{
    std::string out = "<h2>The coming year</h2>\n<div class=\"scroll\" tabindex=\"0\">\n" +
                      timeline_svg(ahead, owner, false) + "</div>\n<h2>Next</h2>\n";
    std::string rows;
    std::size_t shown = 0;
    for (const auto& e : ahead.entries) {
        if (e.action == policy::forecast_action::refresh || shown == next_entries) continue;
        ++shown;
        rows += "<tr>" + date_cell("Date", e.at, ahead.from) +
                cell("User", e.name.user.empty() ? "-" : e.name.text()) +
                cell("Action", policy::word_of(e.action)) + cell("Reason", e.sentence) + "</tr>\n";
    }
    if (rows.empty()) return out + element("p", "soft", "Nothing is due within a year.") + "\n";
    return out + heading({"Date", "User", "Action", "Reason"}) + rows + "</tbody></table>\n";
}

std::string stylesheet()
{
    return css + timeline_css();
}

}  // namespace

web_answer status_page(const status_view& view, const policy::forecast_result* ahead,
                       const std::string& version, policy::instant now)
{
    const auto style = stylesheet();
    const bool well = !needs_attention(view);
    std::string out =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
        element("title", "", view.owner + ": " + policy::tally_of(view.users).sentence()) + "\n<style>" +
        style + "</style>\n</head>\n<body>\n<header>\n" + element("h1", "", "Certificates of " + view.owner) +
        "\n" + element("p", well ? "good" : "bad", policy::tally_of(view.users).sentence()) + "\n" +
        element("p", "soft", "As of " + policy::format_utc(now)) + "\n</header>\n<main>\n" +
        attention(notices(view, now)) + "<h2>Users</h2>\n" + users_table(view.users, now) +
        credentials_table(view.credentials);
    if (ahead) out += coming(*ahead, view.owner);
    out += "</main>\n<footer class=\"soft\">" + escape("exposure-agent " + version) +
           " · <a href=\"/status.json\">status.json</a> · <a href=\"/metrics\">metrics</a></footer>\n"
           "</body>\n</html>\n";
    return {.type = "text/html; charset=utf-8",
            .body = std::move(out),
            .security_policy = "default-src 'none'; style-src 'sha256-" +
                               crypto::base64(crypto::sha256(style)) +
                               "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"};
}

// ---- answers to requests

namespace {

web_answer words(unsigned status, const char* text)
{
    return {.status = status, .type = "text/plain", .body = text};
}

}  // namespace

pages::pages(application& app, const exposure_tasks& tasks, const login_watch& login, const notifier& told,
             const counters& counted, std::string version)
    : app_(app),
      tasks_(tasks),
      login_(login),
      notifier_(told),
      counted_(counted),
      version_(std::move(version))
{
}

status_view pages::view() const
{
    auto seen = view_of(app_.desired(), app_.state().stored(), login_.status(),
                        credential_views(app_.desired(), app_.paths()), app_.clock().now());
    seen.disk = disk_trouble(app_.paths());
    if (app_.desired().notify.enabled()) seen.notify = notifier_.memory();
    return seen;
}

std::string pages::metrics() const
{
    return metrics_text(view(), counted_, version_, app_.clock().now());
}

// The status page with a forecast of one year, which is computed on another thread.
io::awaitable<web_answer> pages::front_page() const
{
    constexpr auto year = std::chrono::days(365);
    const auto ahead = co_await forecast_of(app_, app_.clock().now() + year);
    co_return status_page(view(), ahead ? &*ahead : nullptr, version_, app_.clock().now());
}

io::awaitable<web_answer> pages::show(web_request request) const
{
    const auto target = request.target.substr(0, request.target.find('?'));
    if (request.method != "GET") co_return words(405, "only GET is allowed\n");
    if (target == "/metrics") co_return web_answer{.type = metrics_type, .body = metrics()};
    if (target == "/") co_return co_await front_page();
    if (target == "/status.json")
        co_return web_answer{.body = boost::json::serialize(to_json(view())) + "\n"};
    if (target == "/healthz")
        co_return tasks_.stuck() ? words(503, "a pass has exceeded its time limits\n") : words(200, "ok\n");
    if (target == "/readyz")
        co_return tasks_.observed() ? words(200, "ok\n")
                                    : words(503, "the first pass has not finished yet\n");
    co_return words(404, "not found; try /, /status.json, /metrics, /healthz or /readyz\n");
}

// ---- metrics: the listener and the text file

namespace {

constexpr std::chrono::milliseconds until_changed = std::chrono::hours(1);

}  // namespace

void metrics_outlets::open()
{
    const auto& wanted = app_.desired().metrics.listen;
    if (listens_at_ == wanted) return;
    server_.reset();
    listens_at_.clear();
    if (wanted.empty() || group_.stopping()) return;
    server_ = std::make_unique<web_server>(
        group_, "metrics", [this](web_request request) { return pages_.show(std::move(request)); });
    constexpr std::string_view unix_prefix = "unix:";
    policy::result<void> open;
    if (wanted.starts_with(unix_prefix)) {
        open = server_->listen_unix(wanted.substr(unix_prefix.size()), 0660, false);
    } else {
        const auto at = config::read_host_port(wanted).value_or(config::host_port{.host = wanted});
        open = server_->listen_tcp(at.host, at.port);
    }
    if (open) {
        listens_at_ = wanted;
        failure_.clear();
    } else if (failure_ != open.error().context) {
        failure_ = open.error().context;
        io::log(io::severity::error, "metrics: " + failure_ + "; retried every minute");
    }
}

void metrics_outlets::close()
{
    if (server_) server_->close();
}

io::awaitable<std::chrono::milliseconds> metrics_outlets::write_textfile()
{
    const auto path = app_.desired().metrics.textfile;
    if (path.empty()) co_return until_changed;
    auto text = pages_.metrics();
    if (text == textfile_) co_return until_changed;
    auto written =
        co_await io::offload(app_.outputs(), [&] { return disk::write_file(path, text, {.mode = 0644}); });
    if (!written)
        io::log(io::severity::warning, "metrics: " + written.error().context);
    else
        textfile_ = std::move(text);
    co_return until_changed;
}

}  // namespace service
