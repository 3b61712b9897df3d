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
    metrics_outlets(application& app, const pages& shown) : app_(app), pages_(shown) {}

    // Listens where the configuration wants it now. Said again at each tick until it works: the address may
    // be taken for a moment.
    void open();

    void close();

    // The text file, when its content has changed.
    io::awaitable<void> write_textfile();

private:
    application& app_;
    const pages& pages_;
    std::unique_ptr<web_server> server_;
    std::string listens_at_;
    std::string failure_;   // said once
    std::string textfile_;  // its last content
};

}  // namespace service
