#pragma once

#include "agent/io/connection.hpp"
#include "agent/io/time_limit.hpp"

#include <chrono>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>

// Kept connections, and places for so many per host at the same time. Who finds no place waits for his turn.

namespace io {

class connection_pool {
    struct host;

public:
    // A place at a host: the right to have one connection to it. Given back when it ends.
    class place {
    public:
        explicit place(std::shared_ptr<host> at) : host_(std::move(at)) {}
        place(place&&) noexcept = default;
        place& operator=(place&&) = delete;
        ~place();

        // A kept connection that is still open, the youngest first, or none. With a limit only one that was
        // used that recently: the younger, the less likely is the peer about to close it.
        std::unique_ptr<connection> take_kept(std::chrono::milliseconds not_older_than);

        // For the next one who asks.
        void keep(std::unique_ptr<connection>);

    private:
        std::shared_ptr<host> host_;
    };

    explicit connection_pool(std::size_t per_host) : per_host_(per_host) {}

    // Waits within the limit: timed_out or stopping.
    task<place> enter(const std::string& origin, time_limit&);

    // Closes what is kept: after a pass, or when the settings have changed.
    void close_kept();

private:
    std::size_t per_host_;
    std::map<std::string, std::shared_ptr<host>> hosts_;
};

}  // namespace io
