#pragma once

#include "agent/io/async.hpp"
#include "agent/io/clock.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

// Virtual time: once nothing else is left to run, the clock jumps to the end of the next sleep. A thousand
// sleeps of thirty days take a millisecond. Driven by run_coroutine(context, clock, ...).

namespace support {

class manual_clock final : public io::clock {
public:
    explicit manual_clock(
        policy::instant start = policy::instant(std::chrono::sys_days(std::chrono::year(2026) / 3 / 1)))
        : now_(start)
    {
    }

    policy::instant now() const override { return std::chrono::floor<std::chrono::seconds>(now_); }

    std::chrono::steady_clock::time_point steady() const override { return steady_; }

    io::task<void> sleep_for(std::chrono::milliseconds duration) override
    {
        slept.push_back(duration);
        if (stopped_) co_return io::stopped();
        const auto bell = std::make_shared<io::async_event>(co_await boost::asio::this_coro::executor);
        const auto place = sleepers_.emplace(now_ + duration, bell);
        const struct leave {
            manual_clock& clock;
            sleepers::iterator place;
            ~leave() { clock.sleepers_.erase(place); }
        } leave{*this, place};
        co_await bell->wait();
        if (stopped_) co_return io::stopped();
        co_return policy::result<void>();
    }

    // Advances the time; a negative step sets only the wall clock back.
    void step(std::chrono::milliseconds by)
    {
        now_ += by;
        steady_ += std::max(by, std::chrono::milliseconds(0));
    }

    // Ends all sleeps, current and future, with errc::stopping.
    void stop()
    {
        stopped_ = true;
        for (auto& [when, bell] : sleepers_)
            bell->set();
    }

    // Jumps to the end of the next sleep; returns false if nothing sleeps.
    bool advance()
    {
        for (auto& [when, bell] : sleepers_) {
            if (bell->is_set()) continue;
            if (when > now_) step(when - now_);
            bell->set();
            return true;
        }
        return false;
    }

    std::vector<std::chrono::milliseconds> slept;  // in order of the calls

private:
    using time = std::chrono::sys_time<std::chrono::milliseconds>;
    using sleepers = std::multimap<time, std::shared_ptr<io::async_event>>;

    time now_;
    std::chrono::steady_clock::time_point steady_{std::chrono::hours(1)};
    sleepers sleepers_;
    bool stopped_ = false;
};

}  // namespace support
