#include "agent/io/connection_pool.hpp"

#include <boost/asio/this_coro.hpp>

#include <utility>

namespace io {

using clock_type = std::chrono::steady_clock;

// Shared with the places taken, which may outlive the pool.
struct connection_pool::host {
    struct kept {
        std::unique_ptr<connection> line;
        clock_type::time_point since;
    };
    struct waiter {
        async_event& turn;
        bool granted = false;
    };

    // The place goes straight to the one who waits longest.
    void leave()
    {
        if (waiting.empty()) {
            --taken;
            return;
        }
        auto& next = *waiting.front();
        waiting.pop_front();
        next.granted = true;
        next.turn.set();
    }

    std::size_t places = 1;
    std::size_t taken = 0;
    std::list<waiter*> waiting;
    std::deque<kept> idle;
};

connection_pool::place::~place()
{
    if (host_) host_->leave();
}

std::unique_ptr<connection> connection_pool::place::take_kept(std::chrono::milliseconds not_older_than)
{
    auto& idle = host_->idle;
    while (!idle.empty()) {
        auto youngest = std::move(idle.back());
        idle.pop_back();
        if (clock_type::now() - youngest.since <= not_older_than && youngest.line->is_quiet())
            return std::move(youngest.line);
    }
    return nullptr;
}

void connection_pool::place::keep(std::unique_ptr<connection> line)
{
    host_->idle.push_back({std::move(line), clock_type::now()});
}

task<connection_pool::place> connection_pool::enter(const std::string& origin, time_limit& limit)
{
    auto& slot = hosts_[origin];
    if (!slot) slot = std::make_shared<host>();
    const auto at = slot;
    at->places = per_host_;
    if (at->taken < at->places) {
        ++at->taken;
        co_return place(at);
    }

    async_event turn(co_await boost::asio::this_coro::executor);
    host::waiter self{turn};
    at->waiting.push_back(&self);
    const struct step_back {
        host& at;
        host::waiter& self;
        ~step_back()
        {
            at.waiting.remove(&self);
            if (self.granted) at.leave();
        }
    } step_back{*at, self};

    limit.on_over([&turn] { turn.set(); });
    co_await turn.wait();
    limit.on_over({});
    if (std::exchange(self.granted, false)) co_return place(at);
    if (limit.stopped()) co_return stopped();
    co_return policy::failure{
        policy::errc::timed_out,
        "all " + std::to_string(at->places) + " connections to it were busy for too long",
        policy::retry::later, std::nullopt};
}

void connection_pool::close_kept()
{
    for (auto& [origin, at] : hosts_)
        at->idle.clear();
}

}  // namespace io
