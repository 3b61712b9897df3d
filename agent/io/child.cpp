#include "agent/io/child.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace io {

namespace {

struct file {
    explicit file(int number) : fd(number) {}
    file(file&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
    file& operator=(file&&) = delete;
    ~file()
    {
        if (fd >= 0) ::close(fd);
    }
    int release() { return std::exchange(fd, -1); }

    int fd;
};

policy::failure cannot_start(const process_request& request, int error)
{
    const std::string name = request.argv.empty() ? "a process without a name" : request.argv.front();
    return {policy::errc::hook_failed, "cannot start " + name + ": " + std::strerror(error),
            policy::retry::later, std::nullopt};
}

// The input as a file in memory: nobody has to write while the child reads, or minds that it does not.
file input_file(const std::string& input)
{
    if (input.empty()) return file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    file memory(::memfd_create("input", MFD_CLOEXEC));
    if (memory.fd < 0) return memory;
    const auto size = static_cast<ssize_t>(input.size());
    if (::pwrite(memory.fd, input.data(), input.size(), 0) != size) return file(-1);
    return memory;
}

struct pipe_ends {
    file read;
    file write;
};

pipe_ends make_pipe()
{
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {file(-1), file(-1)};
    return {file(ends[0]), file(ends[1])};
}

// errno, or 0 and the process id.
int spawn(const process_request& request, int in, int out, int err, pid_t& pid)
{
    std::vector<char*> argv;
    for (const auto& word : request.argv)
        argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    std::vector<std::string> variables;
    for (const auto& [name, value] : request.environment)
        variables.push_back(name + "=" + value);
    std::vector<char*> environment;
    for (auto& variable : variables)
        environment.push_back(variable.data());
    environment.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    // the file to execute stays open: a script's interpreter opens it again by this name
    constexpr int program = STDERR_FILENO + 1;
    if (request.program >= 0) ::posix_spawn_file_actions_adddup2(&actions, request.program, program);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, request.program >= 0 ? program + 1 : program);
    ::posix_spawn_file_actions_addchdir_np(&actions, "/");

    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes,
                               POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    const std::string path =
        request.program >= 0 ? "/proc/self/fd/" + std::to_string(program) : request.argv.front();
    const int error =
        ::posix_spawn(&pid, path.c_str(), &actions, &attributes, argv.data(), environment.data());
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    return error;
}

}  // namespace

policy::result<child> child::start(boost::asio::any_io_executor executor, const process_request& request)
{
    if (request.argv.empty() || !request.argv.front().starts_with('/')) return cannot_start(request, ENOENT);
    const auto in = input_file(request.input);
    if (in.fd < 0) return cannot_start(request, errno);
    auto out = make_pipe();
    if (out.read.fd < 0) return cannot_start(request, errno);
    auto err = make_pipe();
    if (err.read.fd < 0) return cannot_start(request, errno);

    pid_t pid = -1;
    if (const int error = spawn(request, in.fd, out.write.fd, err.write.fd, pid); error != 0)
        return cannot_start(request, error);
    // Nobody but us reaps it, so the id is still its own.
    file exit_event(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (exit_event.fd < 0) {
        const int error = errno;
        ::kill(-pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        return cannot_start(request, error);
    }
    return child(pid, descriptor(executor, exit_event.release()), descriptor(executor, out.read.release()),
                 descriptor(executor, err.read.release()));
}

child::child(pid_t pid, descriptor exit_event, descriptor out, descriptor err)
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
    // It is gone in a moment, unless the kernel holds it (a dead network file system): not waited for then.
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

}  // namespace io
