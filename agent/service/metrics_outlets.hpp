#pragma once

#include "agent/service/application.hpp"
#include "agent/service/pages.hpp"
#include "agent/service/web_server.hpp"

#include <memory>
#include <string>

// Where the daemon shows its metrics: an address to ask (`metrics.listen`), a file for node_exporter
// (`metrics.textfile`). Trouble with either is logged and never stops the work.

namespace service {

class metrics_outlets {
public:
    metrics_outlets(application& app, task_group& group, timers& t, const pages& shown)
        : app_(app),
          group_(group),
          pages_(shown),
          writing_(group, t, "metrics.textfile", [this] { return write_textfile(); })
    {
    }

    // Listens where the configuration wants it now. Said again at each tick until it works: the address may
    // be taken for a moment.
    void open();

    void close();

    // Writes the text file from now on: soon, and whenever something changed.
    void start() { writing_.start(); }
    void changed() { writing_.wake(); }

private:
    io::awaitable<std::chrono::milliseconds> write_textfile();

    application& app_;
    task_group& group_;
    const pages& pages_;
    periodic_task writing_;  // one write at a time, and behind nothing but the file's own disk
    std::unique_ptr<web_server> server_;
    std::string listens_at_;
    std::string failure_;   // said once
    std::string textfile_;  // its last content
};

}  // namespace service
