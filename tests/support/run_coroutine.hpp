#pragma once

#include "agent/io/async.hpp"
#include "tests/support/manual_clock.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <exception>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

// Runs a coroutine to completion on the calling thread. A test that hangs fails after ten seconds of wall
// time.

namespace support {

inline constexpr std::chrono::seconds patience{10};

namespace detail {

// Runs handlers until `done`; with a clock, virtual time advances whenever nothing else is left to run.
inline void drive(boost::asio::io_context& context, manual_clock* clock, const bool& done)
{
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!done) {
        if (std::chrono::steady_clock::now() > end)
            throw std::runtime_error("the coroutine did not end in time");
        context.restart();
        if (context.poll() > 0 || done) continue;
        if (clock && clock->advance()) continue;
        context.restart();
        if (context.run_one_until(end) == 0)
            throw std::runtime_error("the coroutine waits for nothing, or too long");
    }
}

}  // namespace detail

template <class T>
T run_coroutine(boost::asio::io_context& context, io::awaitable<T> work, manual_clock* clock = nullptr)
{
    bool done = false;
    std::exception_ptr error;
    std::conditional_t<std::is_void_v<T>, int, std::optional<T>> value{};
    boost::asio::co_spawn(
        context,
        [&value, work = std::move(work)]() mutable -> io::awaitable<void> {
            if constexpr (std::is_void_v<T>)
                co_await std::move(work);
            else
                value.emplace(co_await std::move(work));
        },
        [&](std::exception_ptr e) {
            error = e;
            done = true;
        });
    detail::drive(context, clock, done);
    if (error) std::rethrow_exception(error);
    if constexpr (!std::is_void_v<T>) return std::move(*value);
}

template <class T>
T run_coroutine(boost::asio::io_context& context, manual_clock& clock, io::awaitable<T> work)
{
    return run_coroutine(context, std::move(work), &clock);
}

// Same, on an io_context of its own.
template <class T>
T run_coroutine(io::awaitable<T> work)
{
    boost::asio::io_context context;
    return run_coroutine(context, std::move(work));
}

}  // namespace support
