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

// The configuration file: how it is read, how edits of it are noticed, when they are complete, what they
// change.

namespace service {

// The short host name and the environment of this process.
config::environment this_host();

// Reads the file, and refuses one that cannot be read, is no regular file, is larger than
// limits::configuration_bytes, or that its group or others may write.
config::outcome read_configuration(const std::string& path, const config::environment&);

// Every directory in which an entry on the way to the file may be replaced, with the names of these entries:
// the file's own, and those of all symbolic links that lead to it. Editors rename over the file, deployment
// tools swap a link on the way to it.
std::map<std::filesystem::path, std::set<std::string>> places_of(const std::filesystem::path& file);

// What changes whenever the file's content does, and more often than that.
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

// None: there is no such file.
std::optional<file_facts> facts_of(const std::filesystem::path& file);

// Joins a burst of events: acts once it has been quiet for a while, or has lasted too long.
class debounce {
public:
    using time_point = std::chrono::steady_clock::time_point;
    static constexpr auto quiet = std::chrono::milliseconds(200);
    static constexpr auto longest = std::chrono::seconds(2);

    void happened(time_point now);

    // When to act; none: nothing happened.
    std::optional<time_point> due() const noexcept { return due_; }
    void done() noexcept { due_.reset(); }

private:
    std::optional<time_point> due_;
    time_point first_;
};

// Notices edits of one file, however they are made: in place, by renaming another over it, by swapping a link
// on the way to it. inotify(7) on the directories, none of it on the file. Edits are numbered: what an edit
// changes is in force once its number is.
class file_watch {
public:
    // `changed` is called for every edit; the first check is one, since nothing is known of what the file
    // held while the program started.
    file_watch(boost::asio::any_io_executor, std::filesystem::path file, std::function<void()> changed);

    // Runs until the stop.
    io::awaitable<void> run(io::stop_event&);

    // Looks at the file itself: for file systems that tell nothing, directories that came back, and verbs
    // that follow an edit. Returns the number of the last edit.
    std::uint64_t check();

    // As if the file had been edited.
    void touch();

    // Until nobody writes to the file and no edit came for a moment; ends at a stop, too.
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
    boost::asio::posix::stream_descriptor events_;  // closed: this host has no inotify left for us
    std::map<int, std::set<std::string>> names_;    // by watch
    std::optional<clock::time_point> written_at_;   // somebody writes, and has not closed it yet
    debounce burst_;
};

// What an edited file means for a daemon that runs. Nothing set: it says what it said before.
struct edit {
    std::shared_ptr<const policy::desired_state> desired;  // to go by from now on
    std::vector<std::string> diagnostics;                  // each FILE:LINE:COLUMN: ...; nothing changes
    std::vector<std::string> warnings;
    std::string restart;  // it changes what only a restart can change; nothing changes, and this says why
};

// Compares what the file says now with what is in force.
edit edit_of(const policy::desired_state& in_force, config::outcome read);

}  // namespace service
