#include "agent/service/pages.hpp"

#include "agent/service/credentials_view.hpp"
#include "agent/service/forecast_view.hpp"
#include "agent/service/status_page.hpp"

#include <boost/json.hpp>

namespace service {
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
    auto seen = view_of(app_.desired(), app_.world().stored(), login_.status(),
                        credential_views(app_.desired(), app_.paths()), app_.clock().now());
    seen.disk = disk_trouble(app_.paths());
    if (app_.desired().notify.enabled()) seen.notify = notifier_.memory();
    return seen;
}

std::string pages::metrics() const
{
    return metrics_text(view(), counted_, version_, app_.clock().now());
}

// For people: a forecast of a year, in a thread of its own, beside what is now.
io::awaitable<web_answer> pages::front_page() const
{
    constexpr auto year = std::chrono::days(365);
    const auto ahead = co_await look_ahead(app_, app_.clock().now() + year);
    co_return status_page(view(), ahead ? &*ahead : nullptr, version_, app_.clock().now());
}

io::awaitable<web_answer> pages::show(web_request request) const
{
    const auto target = request.target.substr(0, request.target.find('?'));
    if (request.method != "GET") co_return words(405, "only GET is answered here\n");
    if (target == "/metrics") co_return web_answer{.type = metrics_type, .body = metrics()};
    if (target == "/") co_return co_await front_page();
    if (target == "/status.json")
        co_return web_answer{.body = boost::json::serialize(to_json(view())) + "\n"};
    if (target == "/healthz")
        co_return tasks_.stuck() ? words(503, "a pass is past all its limits\n") : words(200, "ok\n");
    if (target == "/readyz")
        co_return tasks_.looked() ? words(200, "ok\n") : words(503, "the first pass is under way\n");
    co_return words(404, "not found; try /, /status.json, /metrics, /healthz or /readyz\n");
}

}  // namespace service
