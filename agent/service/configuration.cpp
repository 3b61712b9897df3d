#include "agent/service/configuration.hpp"

#include "agent/io/async.hpp"
#include "agent/io/descriptor.hpp"
#include "agent/io/environment.hpp"
#include "agent/io/log.hpp"
#include "policy/limits.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace service {
namespace {

constexpr int most_links = 40;  // like path_resolution(7)
constexpr auto quiet = boost::asio::as_tuple(boost::asio::use_awaitable);
constexpr std::uint32_t interest = IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE |
                                   IN_DELETE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

// A writer that has not written for this long counts as finished, even if it has not closed the file.
constexpr auto longest_pause = std::chrono::minutes(10);
constexpr auto check_again = std::chrono::milliseconds(50);

std::int64_t nanoseconds(const timespec& at)
{
    return static_cast<std::int64_t>(at.tv_sec) * 1'000'000'000 + at.tv_nsec;
}

// The setting that changed but cannot change while the daemon runs; empty: none.
std::string bound_to_start(const policy::desired_state& before, const policy::desired_state& after)
{
    if (before.state_dir != after.state_dir)
        return "state_dir (" + before.state_dir + ", now " + after.state_dir + ")";
    if (before.owner != after.owner) return "owner";
    const bool external = before.identity.access_token || after.identity.access_token;
    if (external && before.identity != after.identity) return "identity.access_token";
    return "";
}

config::outcome one_error(const std::string& file, const std::string& text, const config::environment& from)
{
    auto failed = config::parse("", file, from);  // with the state_dir of an empty file
    failed.errors = {{.file = file, .text = text}};
    return failed;
}

std::string reason(int error)
{
    return std::generic_category().message(error);
}

}  // namespace

config::environment this_host()
{
    return {.hostname = io::short_hostname(), .variable = io::environment};
}

config::outcome read_configuration(const std::string& path, const config::environment& from)
{
    // without O_NONBLOCK, opening a FIFO would block forever
    const io::descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file)
        return one_error(path,
                         errno == ENOENT
                             ? "not found; create it with `exposure-agent init`, or check --config"
                             : "cannot be opened: " + reason(errno) + "; check --config",
                         from);

    struct stat info {};
    if (::fstat(file.get(), &info) != 0)
        return one_error(path, "the file cannot be examined: " + reason(errno), from);
    if (!S_ISREG(info.st_mode))
        return one_error(path, "not a regular file; specify the configuration file itself", from);

    const auto text = io::read_bounded(file.get(), policy::limits::configuration_bytes);
    if (!text) return one_error(path, "the file cannot be read: " + reason(errno), from);
    if (text->size() > policy::limits::configuration_bytes)
        return one_error(path,
                         "the file is larger than " +
                             std::to_string(policy::limits::configuration_bytes >> 20) + " MiB; split it",
                         from);

    auto result = config::parse(*text, path, from);
    result.file_owner = info.st_uid;
    if (info.st_mode & (S_IWGRP | S_IWOTH)) {
        result.errors.insert(result.errors.begin(),
                             {.file = path, .text = "writable by group or others; run: chmod go-w " + path});
        result.state.reset();
    }
    return result;
}

std::map<std::filesystem::path, std::set<std::string>> places_of(const std::filesystem::path& file)
{
    namespace fs = std::filesystem;
    std::map<fs::path, std::set<std::string>> places;
    std::error_code error;
    auto rest = fs::absolute(file, error);
    for (int links = 0; links < most_links; ++links) {
        fs::path here = "/";
        fs::path target;
        auto part = rest.begin();
        for (++part; part != rest.end(); ++part) {
            if (*part == "..") {
                here = here.parent_path();
                continue;
            }
            if (part->empty() || *part == ".") continue;
            const auto next = here / *part;
            const bool last = std::next(part) == rest.end();
            target = fs::read_symlink(next, error);
            if (last || !error) places[here].insert(part->native());
            if (!error) break;
            here = next;
        }
        if (part == rest.end()) break;
        auto onward = target.is_absolute() ? target : here / target;
        for (++part; part != rest.end(); ++part)
            onward /= *part;
        rest = std::move(onward);
    }
    return places;
}

std::optional<file_facts> facts_of(const std::filesystem::path& file)
{
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) return std::nullopt;
    return file_facts{.device = status.st_dev,
                      .inode = status.st_ino,
                      .size = status.st_size,
                      .mode = status.st_mode,
                      .owner = status.st_uid,
                      .modified_ns = nanoseconds(status.st_mtim),
                      .changed_ns = nanoseconds(status.st_ctim)};
}

void debounce::happened(time_point now)
{
    if (!due_) first_ = now;
    due_ = std::min<time_point>(now + quiet, first_ + longest);
}

file_watch::file_watch(boost::asio::any_io_executor executor, std::filesystem::path file,
                       std::function<void()> changed)
    : file_(std::move(file)), changed_(std::move(changed)), events_(executor)
{
    if (const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC); fd >= 0) {
        events_.assign(fd);
    } else {
        io::log(
            io::severity::warning,
            std::string("cannot watch the configuration, so edits may take up to a minute to be noticed: ") +
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
    if (now != names_) written_at_.reset();  // the close event may be lost with a replaced directory
    names_ = std::move(now);
}

// Reads all pending events. True when one concerns the file or a link on its path.
bool file_watch::read_events()
{
    if (!events_.is_open()) return false;
    alignas(inotify_event) std::array<char, 16 << 10> buffer{};
    bool ours = false;
    for (;;) {
        const auto size = ::read(events_.native_handle(), buffer.data(), buffer.size());
        if (size <= 0) return ours;
        for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
            inotify_event event{};
            std::memcpy(&event, &buffer.at(at), sizeof event);
            const char* name = event.len > 0 ? &buffer.at(at + sizeof event) : "";
            at += sizeof event + event.len;
            const auto watched = names_.find(event.wd);
            const bool of_directory =
                *name == '\0' && (event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_Q_OVERFLOW));
            if (!of_directory && (watched == names_.end() || !watched->second.contains(name))) continue;
            ours = true;
            if (event.mask & IN_MODIFY)
                written_at_ = clock::now();
            else if (!(event.mask & IN_ATTRIB))
                written_at_.reset();
        }
    }
}

bool file_watch::is_being_written(clock::time_point now) const
{
    return written_at_ && now - *written_at_ < longest_pause;
}

std::uint64_t file_watch::check()
{
    watch_places();
    read_events();
    auto now = facts_of(file_);
    if (edits_ > 0 && now == seen_) return edits_;
    seen_ = now;
    touch();
    return edits_;
}

void file_watch::touch()
{
    ++edits_;
    burst_.happened(clock::now());
    changed_();
}

io::awaitable<void> file_watch::settled(io::stop_event& stop)
{
    for (;;) {
        check();
        const auto now = clock::now();
        if (!is_being_written(now) && (!burst_.due() || now >= *burst_.due())) break;
        if (const auto slept = co_await io::sleep_for(check_again, stop); !slept) co_return;
    }
    burst_.done();
}

io::awaitable<void> file_watch::run(io::stop_event& stop)
{
    if (!events_.is_open()) co_return;
    const auto subscription = stop.on_request([this] {
        boost::system::error_code ignored;
        events_.cancel(ignored);
    });
    while (!stop.requested()) {
        const auto [error] =
            co_await events_.async_wait(boost::asio::posix::stream_descriptor::wait_read, quiet);
        if (error || stop.requested()) co_return;
        if (read_events()) check();
    }
}

edit edit_of(const policy::desired_state& in_force, config::outcome read)
{
    edit result;
    for (const auto& diagnostic : read.errors)
        result.diagnostics.push_back(config::to_string(diagnostic));
    for (const auto& warning : read.warnings)
        result.warnings.push_back(config::to_string(warning));
    if (!read.state || *read.state == in_force) return result;
    if (const auto what = bound_to_start(in_force, *read.state); !what.empty())
        result.restart =
            what + " changed, which needs a restart; until then the previous configuration stays in force";
    else
        result.desired = std::make_shared<const policy::desired_state>(std::move(*read.state));
    return result;
}

}  // namespace service
