#include "agent/io/stop_event.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>

namespace io {

namespace asio = boost::asio;

async_event::async_event(asio::any_io_executor executor)
    : timer_(std::move(executor), asio::steady_timer::time_point::max())
{
}

void async_event::set()
{
    set_ = true;
    timer_.cancel();
}

void async_event::reset() noexcept
{
    set_ = false;
}

awaitable<void> async_event::wait()
{
    while (!set_)
        co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
}

stop_event::stop_event(asio::any_io_executor executor) : event_(std::move(executor)) {}

void stop_event::request()
{
    if (requested()) return;
    event_.set();
    for (auto& callback : callbacks_)
        callback();
}

stop_event::subscription stop_event::on_request(std::function<void()> then)
{
    return subscription(*this, std::move(then));
}

stop_event::subscription::subscription(stop_event& owner, std::function<void()> then)
    : owner_(owner), place_(owner.callbacks_.insert(owner.callbacks_.end(), std::move(then)))
{
}

stop_event::subscription::~subscription()
{
    owner_.callbacks_.erase(place_);
}

policy::failure stopped()
{
    return {policy::errc::stopping, "stopped on request", policy::retry::later, std::nullopt};
}

}  // namespace io
