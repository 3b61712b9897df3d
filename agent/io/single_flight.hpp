#pragma once

#include "agent/io/async.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>

#include <functional>
#include <memory>
#include <optional>

// Many want the same thing at once, one fetches it: fifty calls that get a 401 make one refresh.

namespace io {

// T is copied to everyone who waits (void, or a shared_ptr for what cannot be copied).
template <class T>
class single_flight {
public:
    // Joins the flight under way, or starts one with `start`. The flight belongs to nobody who waits: it runs
    // to its end even when all of them are cancelled. The flight's own exception reaches all of them.
    task<T> run(std::function<task<T>()> start)
    {
        auto flight = current_->lock();
        if (!flight) {
            const auto executor = co_await boost::asio::this_coro::executor;
            flight = std::make_shared<shared>(executor);
            *current_ = flight;
            boost::asio::co_spawn(
                executor,
                [flight, start = std::move(start)] {
                    return detail::keep(start(), flight->answer, flight->error);
                },
                [flight, current = current_](std::exception_ptr error) {
                    if (error) flight->error = error;
                    current->reset();
                    flight->landed.set();
                });
        }
        co_await flight->landed.wait();
        if (flight->error) std::rethrow_exception(flight->error);
        co_return *flight->answer;
    }

private:
    struct shared {
        explicit shared(boost::asio::any_io_executor executor) : landed(std::move(executor)) {}

        async_event landed;
        std::optional<policy::result<T>> answer;
        std::exception_ptr error;
    };

    // Shared with the flight, which may outlive this.
    std::shared_ptr<std::weak_ptr<shared>> current_ = std::make_shared<std::weak_ptr<shared>>();
};

}  // namespace io
