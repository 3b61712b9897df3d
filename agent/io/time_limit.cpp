#include "agent/io/time_limit.hpp"

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace io {

using clock_type = std::chrono::steady_clock;

// Shared with the timer's handler, which may run after the limit is gone.
struct time_limit::state : std::enable_shared_from_this<state> {
    explicit state(boost::asio::any_io_executor executor) : timer(std::move(executor)) {}

    void arm(time_point until)
    {
        timer.expires_at(until);
        timer.async_wait([weak = weak_from_this()](boost::system::error_code error) {
            const auto self = weak.lock();
            // A wait that had ended before the limit was extended still reports success.
            if (self && !error && clock_type::now() >= self->timer.expiry()) self->end();
        });
    }

    void end()
    {
        if (over) return;
        over = true;
        if (const auto then = std::exchange(interrupt, {})) then();
    }

    void stop()
    {
        stop_requested = true;
        if (over) return;
        if (!grace) return end();
        arm(std::min<time_point>(timer.expiry(), clock_type::now() + *grace));
    }

    boost::asio::steady_timer timer;
    std::function<void()> interrupt;
    std::optional<std::chrono::milliseconds> grace;
    bool over = false;
    bool stop_requested = false;
};

time_limit::time_limit(boost::asio::any_io_executor executor, stop_event& stop, time_point deadline)
    : stop_(stop),
      state_(std::make_shared<state>(std::move(executor))),
      subscription_(stop.on_request([state = state_] { state->stop(); }))
{
    state_->arm(deadline);
    if (stop.requested()) state_->stop();
}

time_limit::~time_limit()
{
    state_->over = true;
    state_->timer.cancel();
}

void time_limit::extend(time_point deadline)
{
    if (!state_->over) state_->arm(deadline);
}

void time_limit::finish_within(std::chrono::milliseconds grace)
{
    state_->grace = grace;
}

void time_limit::on_over(std::function<void()> interrupt)
{
    state_->interrupt = std::move(interrupt);
    if (state_->over)
        if (const auto then = std::exchange(state_->interrupt, {})) then();
}

bool time_limit::late() const noexcept
{
    return state_->over && !state_->stop_requested;
}

bool time_limit::stopped() const noexcept
{
    return state_->over && state_->stop_requested;
}

time_limit::time_point time_limit::deadline() const noexcept
{
    return state_->timer.expiry();
}

}  // namespace io
