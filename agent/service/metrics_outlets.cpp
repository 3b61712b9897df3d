#include "agent/service/metrics_outlets.hpp"

#include "agent/disk/files.hpp"
#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "config/values.hpp"

#include <string_view>
#include <utility>

namespace service {
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
        io::log(io::severity::error, "metrics: " + failure_ + "; this is tried again every minute");
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
