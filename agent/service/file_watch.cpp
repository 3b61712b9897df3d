#include "agent/service/file_watch.hpp"

#include "agent/io/log.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/inotify.h>
#include <unistd.h>

namespace service {
namespace {

constexpr auto quiet = boost::asio::as_tuple(boost::asio::use_awaitable);
// Not IN_MODIFY: a file that is being written is not looked at before it is closed.
constexpr std::uint32_t interest = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE |
                                   IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

}  // namespace

file_watch::file_watch(boost::asio::any_io_executor executor, std::filesystem::path file,
                       std::function<void()> changed)
    : file_(std::move(file)),
      changed_(std::move(changed)),
      seen_(facts_of(file_)),
      events_(executor),
      timer_(executor)
{
    if (const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC); fd >= 0) {
        events_.assign(fd);
    } else {
        io::log(io::severity::warning,
                std::string("edits of the configuration are noticed within a minute only: ") +
                    std::strerror(errno) + "; see inotify(7), limits");
    }
    watch_places();
}

void file_watch::watch_places()
{
    if (!events_.is_open()) return;
    std::map<int, std::set<std::string>> now;
    for (auto& [directory, names] : places_of(file_)) {
        const int watch = ::inotify_add_watch(events_.native_handle(), directory.c_str(), interest);
        if (watch >= 0) now[watch].merge(names);
    }
    for (const auto& [watch, names] : names_)
        if (!now.contains(watch)) ::inotify_rm_watch(events_.native_handle(), watch);
    names_ = std::move(now);
}

// Reads all events there are. True when one is about the way to the file.
bool file_watch::heard_of_it()
{
    alignas(inotify_event) std::array<char, 16 << 10> buffer{};
    bool ours = false;
    for (;;) {
        const auto size = ::read(events_.native_handle(), buffer.data(), buffer.size());
        if (size <= 0) return ours;
        for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
            inotify_event event{};
            std::memcpy(&event, &buffer.at(at), sizeof event);
            const char* name = event.len > 0 ? &buffer.at(at + sizeof event) : "";
            const auto watched = names_.find(event.wd);
            const bool of_directory =
                *name == '\0' && (event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_Q_OVERFLOW));
            if (of_directory || (watched != names_.end() && watched->second.contains(name))) ours = true;
            at += sizeof event + event.len;
        }
    }
}

void file_watch::look()
{
    watch_places();
    auto now = facts_of(file_);
    if (now == seen_) return;
    seen_ = now;
    changed_();
}

io::awaitable<void> file_watch::let_it_settle(io::stop_event& stop)
{
    using clock = std::chrono::steady_clock;
    burst_.happened(clock::now());
    while (burst_.due() && !stop.requested()) {
        timer_.expires_at(*burst_.due());
        co_await timer_.async_wait(quiet);
        watch_places();
        if (heard_of_it() && clock::now() < burst_.latest())
            burst_.happened(clock::now());
        else
            burst_.done();
    }
}

io::awaitable<void> file_watch::run(io::stop_event& stop)
{
    if (!events_.is_open()) co_return;
    const auto subscription = stop.on_request([this] {
        boost::system::error_code ignored;
        events_.cancel(ignored);
        timer_.cancel();
    });
    while (!stop.requested()) {
        const auto [error] =
            co_await events_.async_wait(boost::asio::posix::stream_descriptor::wait_read, quiet);
        if (error || stop.requested()) co_return;
        if (!heard_of_it()) continue;
        co_await let_it_settle(stop);
        if (!stop.requested()) look();
    }
}

}  // namespace service
