#pragma once

#include "agent/service/application.hpp"
#include "agent/service/exposure_tasks.hpp"
#include "agent/service/login_watch.hpp"
#include "agent/service/metrics.hpp"
#include "agent/service/notifier.hpp"
#include "agent/service/status_view.hpp"
#include "agent/service/web_server.hpp"
#include "policy/forecast.hpp"

#include <memory>
#include <string>

// What the daemon shows to people and monitoring, and where: pages over HTTP, the metrics listener and text
// file.

namespace service {

// The status page: what needs attention with the command that helps, every user, the coming year (null:
// not known). It runs no scripts and loads nothing, and its Content-Security-Policy allows neither.
web_answer status_page(const status_view&, const policy::forecast_result*, const std::string& version,
                       policy::instant now);

// Serves the status page (/), /status.json, /metrics, /healthz and /readyz (contract section 7).
class pages {
public:
    // The arguments must outlive this object.
    pages(application&, const exposure_tasks&, const login_watch&, const notifier&, const counters&,
          std::string version);

    io::awaitable<web_answer> show(web_request) const;

    status_view view() const;  // points into the state: do not keep it across a co_await
    std::string metrics() const;

private:
    io::awaitable<web_answer> front_page() const;

    application& app_;
    const exposure_tasks& tasks_;
    const login_watch& login_;
    const notifier& notifier_;
    const counters& counted_;
    std::string version_;
};

// Publishes the metrics: on an address (`metrics.listen`), in a file for node_exporter (`metrics.textfile`).
// A failure of either is logged and never stops the work.
class metrics_outlets {
public:
    metrics_outlets(application& app, task_group& group, timers& t, const pages& shown)
        : app_(app),
          group_(group),
          pages_(shown),
          writing_(group, t, "metrics.textfile", [this] { return write_textfile(); })
    {
    }

    // Listens on the configured address. Called again at each tick until it works: the address may be in use
    // for a moment.
    void open();

    void close();

    // Writes the text file from now on: soon, and after every change.
    void start() { writing_.start(); }
    void changed() { writing_.wake(); }

private:
    io::awaitable<std::chrono::milliseconds> write_textfile();

    application& app_;
    task_group& group_;
    const pages& pages_;
    periodic_task writing_;  // one write at a time; a slow disk delays nothing else
    std::unique_ptr<web_server> server_;
    std::string listens_at_;
    std::string failure_;   // logged once
    std::string textfile_;  // its last content
};

}  // namespace service
