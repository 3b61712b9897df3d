#pragma once

#include "agent/io/async.hpp"
#include "config/parse.hpp"
#include "policy/desired.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

// The configuration file: how it is read, how edits are noticed, when an edit is complete, and what it
// changes.

namespace service {

// The short host name and the environment of this process.
config::environment this_host();

// Reads the file. Refuses a file that cannot be read, is not a regular file, is larger than
// limits::configuration_bytes, or is writable by its group or others.
config::outcome read_configuration(const std::string& path, const config::environment&);

// Every directory in which an entry on the path to the file may be replaced, with the names of these entries:
// the file's own, and those of all symbolic links that lead to it. Editors rename a new file over the old
// one, deployment tools swap a link on its path.
std::map<std::filesystem::path, std::set<std::string>> places_of(const std::filesystem::path& file);

// Metadata that changes whenever the file's content does, and sometimes when it does not.
struct file_facts {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    mode_t mode = 0;
    uid_t owner = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;

    bool operator==(const file_facts&) const = default;
};

// nullopt: there is no such file.
std::optional<file_facts> facts_of(const std::filesystem::path& file);

// Merges a burst of events: due once it has been quiet for a while, or has lasted too long.
class debounce {
public:
    using time_point = std::chrono::steady_clock::time_point;
    static constexpr auto quiet = std::chrono::milliseconds(200);
    static constexpr auto longest = std::chrono::seconds(2);

    void happened(time_point now);

    // When to act; nullopt: nothing happened.
    std::optional<time_point> due() const noexcept { return due_; }
    void done() noexcept { due_.reset(); }

private:
    std::optional<time_point> due_;
    time_point first_;
};

// Notices edits of one file, however they are made: in place, by renaming another file over it, by swapping a
// link on its path. Uses inotify(7) on the directories, not on the file. Edits are numbered: an edit is in
// force once its number is.
class file_watch {
public:
    // `changed` is called for every edit; the first check counts as one, because the file may have changed
    // while the program started.
    file_watch(boost::asio::any_io_executor, std::filesystem::path file, std::function<void()> changed);

    // Runs until a stop is requested.
    io::awaitable<void> run(io::stop_event&);

    // Checks the file itself: for file systems without events, directories that reappeared, and commands
    // that follow an edit. Returns the number of the last edit.
    std::uint64_t check();

    // Acts as if the file had been edited.
    void touch();

    // Waits until nobody writes to the file and no edit came for a moment; also returns at a stop.
    io::awaitable<void> settled(io::stop_event&);

private:
    using clock = std::chrono::steady_clock;

    void watch_places();
    bool read_events();
    bool is_being_written(clock::time_point now) const;

    std::filesystem::path file_;
    std::function<void()> changed_;
    std::optional<file_facts> seen_;
    std::uint64_t edits_ = 0;
    boost::asio::posix::stream_descriptor events_;  // closed: inotify is not available
    std::map<int, std::set<std::string>> names_;    // by watch descriptor
    std::optional<clock::time_point> written_at_;   // the last write of a writer that has not closed it yet
    debounce burst_;
};

// What an edit means for a running daemon. Nothing set: the configuration is the same as before.
struct edit {
    std::shared_ptr<const policy::desired_state> desired;  // to use from now on
    std::vector<std::string> diagnostics;                  // each FILE:LINE:COLUMN: ...; nothing changes
    std::vector<std::string> warnings;
    std::string restart;  // why this edit needs a restart; until then nothing changes
};

// Compares the edited file with the configuration in force.
edit edit_of(const policy::desired_state& in_force, config::outcome read);

}  // namespace service
