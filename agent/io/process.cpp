#include "agent/io/process.hpp"

#include "agent/io/async.hpp"
#include "agent/io/descriptor.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace io {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

// A child process and the three descriptors connected to it.
class child {
public:
    using stream = boost::asio::posix::stream_descriptor;

    // Fails with errc::hook_failed and errno's text, leaving nothing behind.
    static policy::result<child> start(boost::asio::any_io_executor, const process_request&);

    child(child&&) noexcept;
    child& operator=(child&&) = delete;
    ~child();  // kills the group of a child that was not reaped

    stream& exit_event() { return exit_event_; }  // readable once it has exited
    stream& out() { return out_; }
    stream& err() { return err_; }

    bool has_exited() const;
    void signal_group(int signal) const noexcept;

    struct status {
        int exit_code = -1;
        int signal = 0;
    };
    // How it ended, as seen while its process id cannot be reused.
    status peek() const;
    void reap() noexcept;

private:
    child(pid_t pid, stream exit_event, stream out, stream err);

    pid_t pid_;  // also its group's id; -1 once reaped
    stream exit_event_;
    stream out_;
    stream err_;
};

policy::failure cannot_start(const process_request& request, int error)
{
    const std::string name = request.argv.empty() ? "a process without a program name" : request.argv.front();
    return {policy::errc::hook_failed, "cannot start " + name + ": " + std::strerror(error),
            policy::retry::later, std::nullopt};
}

// The input as a file in memory, so that nobody has to write while the child reads, or if it never reads.
descriptor input_file(const std::string& input)
{
    if (input.empty()) return descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    descriptor memory(::memfd_create("input", MFD_CLOEXEC));
    if (memory.get() < 0) return memory;
    const auto size = static_cast<ssize_t>(input.size());
    if (::pwrite(memory.get(), input.data(), input.size(), 0) != size) return descriptor(-1);
    return memory;
}

struct pipe_ends {
    descriptor read;
    descriptor write;
};

pipe_ends make_pipe()
{
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {descriptor(-1), descriptor(-1)};
    return {descriptor(ends[0]), descriptor(ends[1])};
}

// Null-terminated array of pointers to these words, which must outlive it.
std::vector<char*> pointers_to(const std::vector<std::string>& words)
{
    std::vector<char*> pointers;
    for (const auto& word : words)
        pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

// Everything the child needs between fork and exec, where allocating is not allowed (signal-safety(7)).
struct exec_plan {
    std::array<int, 3> standard;  // input, output, errors
    int program;                  // the file to execute, or -1: argv[0] is its path
    const char* path;
    char* const* argv;
    char* const* environment;
    rlim_t descriptors;  // all open descriptors are below this number
};

// close_range(2) needs kernel 5.9.
void close_from(unsigned first, rlim_t end)
{
    if (::syscall(SYS_close_range, first, ~0U, 0U) == 0) return;
    for (rlim_t fd = first; fd < end; ++fd)
        ::close(static_cast<int>(fd));
}

// In the child: its own process group, default signals, the root directory, and only the descriptors that it
// is given. Reports errno if it cannot execute the program.
[[noreturn]] void become(const exec_plan& plan, int report)
{
    // the program's file stays open: the interpreter of a script opens it again by this path
    constexpr int program = STDERR_FILENO + 1;
    constexpr int report_at = program + 1;
    std::array<int, 5> given{plan.standard[0], plan.standard[1], plan.standard[2], plan.program, report};

    ::setpgid(0, 0);
    for (int signal = 1; signal < NSIG; ++signal)
        ::signal(signal, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);

    bool ready = ::chdir("/") == 0;
    // first move them away from the numbers that are assigned below
    for (int& fd : given)
        if (fd >= 0) ready = (fd = ::fcntl(fd, F_DUPFD_CLOEXEC, report_at + 1)) >= 0 && ready;
    for (int to = 0; ready && to <= report_at; ++to)
        if (given[to] >= 0)
            ready = ::dup3(given[to], to, to == report_at ? O_CLOEXEC : 0) >= 0;
        else
            ::close(to);
    if (ready) {
        close_from(report_at + 1, plan.descriptors);
        ::execve(plan.path, plan.argv, plan.environment);
    }
    const int error = errno;
    [[maybe_unused]] const auto told = ::write(ready ? report_at : report, &error, sizeof error);
    ::_exit(127);
}

// Returns errno, or 0 and the process id. Not posix_spawn, which can change the directory only since glibc
// 2.29 and close descriptors only since 2.34: RHEL 8 has 2.28.
int spawn(const process_request& request, std::array<int, 3> standard, pid_t& pid)
{
    std::vector<std::string> variables;
    for (const auto& [name, value] : request.environment)
        variables.push_back(name + "=" + value);
    const auto argv = pointers_to(request.argv);
    const auto environment = pointers_to(variables);
    const std::string path = request.program >= 0 ? "/proc/self/fd/3" : request.argv.front();
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const exec_plan plan{standard,    request.program,    path.c_str(),
                         argv.data(), environment.data(), limit.rlim_cur};

    auto report = make_pipe();
    if (report.read.get() < 0) return errno;
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // none of our signal handlers runs in the child
    pid = ::fork();
    if (pid == 0) become(plan, report.write.get());
    const int refused = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) return refused;

    ::close(report.write.release());
    int error = 0;
    ssize_t count = -1;
    do {
        count = ::read(report.read.get(), &error, sizeof error);  // end of file once exec closes it
    } while (count < 0 && errno == EINTR);
    if (error != 0) ::waitpid(pid, nullptr, 0);
    return error;
}

// Readable once the process has ended. Kernels
// before 5.3 have no pidfd: there a thread waits.
descriptor exit_event_of(pid_t pid)
{
    descriptor event(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (event.get() >= 0 || errno != ENOSYS) return event;
    auto ends = make_pipe();
    if (ends.read.get() < 0) return descriptor(-1);
    std::thread([pid, end = std::move(ends.write)] {
        siginfo_t info{};
        while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
            continue;
    }).detach();
    return std::move(ends.read);
}

policy::result<child> child::start(boost::asio::any_io_executor executor, const process_request& request)
{
    if (request.argv.empty() || !request.argv.front().starts_with('/')) return cannot_start(request, ENOENT);
    const auto in = input_file(request.input);
    if (in.get() < 0) return cannot_start(request, errno);
    auto out = make_pipe();
    if (out.read.get() < 0) return cannot_start(request, errno);
    auto err = make_pipe();
    if (err.read.get() < 0) return cannot_start(request, errno);

    pid_t pid = -1;
    if (const int error = spawn(request, {in.get(), out.write.get(), err.write.get()}, pid); error != 0)
        return cannot_start(request, error);
    // Only we reap it, so its id cannot have been reused.
    descriptor exit_event = exit_event_of(pid);
    if (exit_event.get() < 0) {
        const int error = errno;
        ::kill(-pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        return cannot_start(request, error);
    }
    return child(pid, stream(executor, exit_event.release()), stream(executor, out.read.release()),
                 stream(executor, err.read.release()));
}

child::child(pid_t pid, stream exit_event, stream out, stream err)
    : pid_(pid), exit_event_(std::move(exit_event)), out_(std::move(out)), err_(std::move(err))
{
}

child::child(child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      exit_event_(std::move(other.exit_event_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_))
{
}

child::~child()
{
    if (pid_ < 0) return;
    signal_group(SIGKILL);
    // It ends within moments, unless the kernel blocks it (a dead network file system): then do not wait.
    pollfd waiting{exit_event_.native_handle(), POLLIN, 0};
    ::poll(&waiting, 1, 100);
    reap();
}

bool child::has_exited() const
{
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
}

void child::signal_group(int signal) const noexcept
{
    ::kill(-pid_, signal);
}

child::status child::peek() const
{
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return {};
    if (info.si_code == CLD_EXITED) return {info.si_status, 0};
    return {-1, info.si_status};
}

void child::reap() noexcept
{
    ::waitpid(pid_, nullptr, WNOHANG);
    pid_ = -1;
}

// --- Running to completion

constexpr auto term_grace = 2s;                 // between SIGTERM and SIGKILL
constexpr auto kill_grace = 5s;                 // for processes that survive SIGKILL for a while
constexpr std::size_t last_words = 1024 << 10;  // read after the exit: background processes may write forever
constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

struct output {
    std::string& text;
    std::size_t limit;
    bool& truncated;

    // Keeps the end, because programs report errors last. Holds up
    // to twice the limit, so that not every read moves the text.
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

// Reads until the stream or the child ends; in the latter case only what is already in the pipe, because
// background processes of the child may keep it open.
awaitable<void> read_stream(child::stream& stream, output to, const bool& exited)
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

// errc::stopping if a stop is requested first.
task<void> exit_of(child& process, stop_event& stop)
{
    const auto on_stop = stop.on_request([&process] { process.exit_event().cancel(); });
    while (!process.has_exited()) {
        if (stop.requested()) co_return stopped();
        co_await process.exit_event().async_wait(child::stream::wait_read, use_tuple);
    }
    co_return policy::result<void>();
}

// SIGTERM, then SIGKILL for processes that ignore it.
awaitable<void> end_group(child& process)
{
    stop_event nobody_stops_this(co_await asio::this_coro::executor);
    process.signal_group(SIGTERM);
    co_await with_deadline(term_grace, exit_of(process, nobody_stops_this));
    process.signal_group(SIGKILL);
    co_await with_deadline(kill_grace, exit_of(process, nobody_stops_this));
}

// errc::stopping if a stop ended the child.
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
