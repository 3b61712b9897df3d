#pragma once

#include "agent/service/application.hpp"
#include "agent/service/exposure_tasks.hpp"
#include "agent/service/login_watch.hpp"
#include "agent/service/metrics.hpp"
#include "agent/service/notifier.hpp"
#include "agent/service/web_server.hpp"

#include <string>

namespace service {

// What the daemon shows: / for people, /status.json, /metrics, /healthz, /readyz (contract section 7).
class pages {
public:
    // All of them outlive this.
    pages(application&, const exposure_tasks&, const login_watch&, const notifier&, const counters&,
          std::string version);

    io::awaitable<web_answer> show(web_request) const;

    status_view view() const;  // pointing into the world: not across a co_await
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

}  // namespace service
