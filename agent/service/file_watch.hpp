#pragma once

#include "agent/io/stop_event.hpp"
#include "agent/service/file_places.hpp"
#include "agent/service/schedule.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace service {

// Tells of edits of one file, however they are made: in place, by renaming another over it, by swapping a
// link on the way to it. A burst is told of once. inotify(7) on the directories, none of it on the file.
class file_watch {
public:
    // `changed` is called when the file is another, or gone, since it was last told of.
    file_watch(boost::asio::any_io_executor, std::filesystem::path file, std::function<void()> changed);

    // Runs until the stop.
    io::awaitable<void> run(io::stop_event&);

    // Looks at the file itself: for file systems that tell nothing, and directories that came back.
    void look();

private:
    void watch_places();
    bool heard_of_it();
    io::awaitable<void> let_it_settle(io::stop_event&);

    std::filesystem::path file_;
    std::function<void()> changed_;
    std::optional<file_facts> seen_;
    boost::asio::posix::stream_descriptor events_;  // closed: this host has no inotify left for us
    boost::asio::steady_timer timer_;
    std::map<int, std::set<std::string>> names_;  // by watch
    debounce burst_;
};

}  // namespace service
