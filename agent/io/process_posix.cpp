#include "agent/io/process_posix.hpp"

#include "agent/io/async.hpp"
#include "agent/io/child.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <csignal>

namespace io {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto term_grace = 2s;                 // between SIGTERM and SIGKILL
constexpr auto kill_grace = 5s;                 // for what even SIGKILL does not end at once
constexpr std::size_t last_words = 1024 << 10;  // read at most after the exit: a child may go on for ever
constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

struct output {
    std::string& text;
    std::size_t limit;
    bool& truncated;

    // Keeps the end: programs say last what went wrong. Twice the limit is held so that not every read moves
    // it.
    void add(const char* data, std::size_t size)
    {
        text.append(data, size);
        if (text.size() > 2 * limit) shorten();
    }

    void shorten()
    {
        if (text.size() <= limit) return;
        text.erase(0, text.size() - limit);
        truncated = true;
    }
};

// To the end of the stream, or of the child: then only what is already in the pipe, because what the child
// left in the background may keep it open.
awaitable<void> read_stream(child::descriptor& stream, output to, const bool& exited)
{
    std::array<char, 4096> space{};
    while (!exited) {
        const auto [error, bytes] = co_await stream.async_read_some(asio::buffer(space), use_tuple);
        to.add(space.data(), bytes);
        if (error && error != asio::error::operation_aborted) break;
    }
    boost::system::error_code error;
    stream.non_blocking(true, error);
    for (std::size_t total = 0; !error && total < last_words;) {
        const auto bytes = stream.read_some(asio::buffer(space), error);
        to.add(space.data(), bytes);
        total += bytes;
    }
    to.shorten();
}

// errc::stopping when a stop is requested before.
task<void> exit_of(child& process, stop_event& stop)
{
    const auto on_stop = stop.on_request([&process] { process.exit_event().cancel(); });
    while (!process.has_exited()) {
        if (stop.requested()) co_return stopped();
        co_await process.exit_event().async_wait(child::descriptor::wait_read, use_tuple);
    }
    co_return policy::result<void>();
}

// SIGTERM, and SIGKILL for those that ignore it.
awaitable<void> end_group(child& process)
{
    stop_event nobody_stops_this(co_await asio::this_coro::executor);
    process.signal_group(SIGTERM);
    co_await with_deadline(term_grace, exit_of(process, nobody_stops_this));
    process.signal_group(SIGKILL);
    co_await with_deadline(kill_grace, exit_of(process, nobody_stops_this));
}

// errc::stopping when the child was ended by a stop.
task<void> watch(child& process, std::chrono::milliseconds limit, stop_event& stop, process_outcome& outcome)
{
    const auto exited = co_await with_deadline(limit, exit_of(process, stop));
    if (!process.has_exited()) {
        outcome.timed_out = exited.has_error() && exited.error().code == policy::errc::timed_out;
        co_await end_group(process);
    }
    const auto status = process.peek();
    outcome.exit_code = status.exit_code;
    outcome.signal = status.signal;
    if (!outcome.ok()) process.signal_group(SIGKILL);
    process.reap();
    if (exited.has_error() && !outcome.timed_out) co_return exited.error();
    co_return policy::result<void>();
}

}  // namespace

task<process_outcome> process_posix::run(process_request request)
{
    if (stop_.requested()) co_return stopped();
    const auto executor = co_await asio::this_coro::executor;
    auto started = child::start(executor, request);
    if (!started) co_return started.error();

    process_outcome outcome;
    policy::result<void> watched;
    bool exited = false;
    co_await for_each_parallel(3, 3, [&](std::size_t part) -> awaitable<void> {
        if (part == 1)
            co_await read_stream(started->out(), {outcome.out, request.output_limit, outcome.truncated},
                                 exited);
        if (part == 2)
            co_await read_stream(started->err(), {outcome.err, request.output_limit, outcome.truncated},
                                 exited);
        if (part != 0) co_return;
        watched = co_await watch(*started, request.timeout, stop_, outcome);
        exited = true;
        started->out().cancel();
        started->err().cancel();
    });
    if (!watched && !outcome.ok()) co_return watched.error();
    co_return outcome;
}

}  // namespace io
