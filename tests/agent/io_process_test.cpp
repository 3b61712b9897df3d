#include "agent/io/async.hpp"
#include "agent/io/process.hpp"
#include "tests/support/run_coroutine.hpp"

#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <csignal>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using policy::errc;
using support::run_coroutine;

namespace {

struct fixture {
    asio::io_context context;
    io::stop_event stop{context.get_executor()};
    io::process_posix process{stop};

    policy::result<io::process_outcome> run(io::process_request request)
    {
        return run_coroutine(context, process.run(std::move(request)));
    }

    policy::result<io::process_outcome> sh(std::string script, std::chrono::milliseconds timeout = 9s)
    {
        return run({.argv = {"/bin/sh", "-c", std::move(script)},
                    .environment = {{"PATH", "/usr/bin:/bin"}},
                    .input = {},
                    .timeout = timeout});
    }
};

pid_t pid_in(const std::string& text)
{
    return static_cast<pid_t>(std::stol(text));
}

// Gone, or a zombie not yet reaped by its new parent.
bool is_gone(pid_t pid)
{
    for (int i = 0; i < 500; ++i) {
        if (::kill(pid, 0) != 0) return true;
        const auto status = "/proc/" + std::to_string(pid) + "/stat";
        std::array<char, 512> text{};
        const int fd = ::open(status.c_str(), O_RDONLY | O_CLOEXEC);
        const auto size = fd < 0 ? 0 : ::read(fd, text.data(), text.size() - 1);
        if (fd >= 0) ::close(fd);
        if (size <= 0 || std::string_view(text.data()).find(") Z") != std::string_view::npos) return true;
        ::usleep(10'000);
    }
    return false;
}

// Makes system calls newer than Linux 4.18 (RHEL 8) fail with ENOSYS for this thread and its children.
bool forget_newer_calls()
{
    std::array<sock_filter, 5> program{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 1, 0),
                                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
                                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
    const sock_fprog filter{.len = program.size(), .filter = program.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(io_process, fixture)

BOOST_AUTO_TEST_CASE(what_it_says_and_how_it_ends_is_reported)
{
    const auto outcome = sh("echo out; echo err >&2; exit 3");
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->exit_code == 3);
    BOOST_TEST(outcome->out == "out\n");
    BOOST_TEST(outcome->err == "err\n");
    BOOST_TEST(!outcome->ok());
    BOOST_TEST(!outcome->truncated);
    BOOST_TEST(sh("true")->ok());
    const auto killed = sh("kill -USR1 $$");
    BOOST_TEST(killed->exit_code == -1);
    BOOST_TEST(killed->signal == SIGUSR1);
    BOOST_TEST(!killed->ok());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_started_is_a_failure)
{
    for (const char* program : {"/nonexistent/program", "/etc/passwd", "sh", ""}) {
        BOOST_TEST_CONTEXT(program)
        {
            const auto outcome = run({.argv = {program}, .environment = {}, .input = {}});
            BOOST_REQUIRE(outcome.has_error());
            BOOST_TEST((outcome.error().code == errc::hook_failed));
            BOOST_TEST(outcome.error().context.find("cannot start ") == 0u);
        }
    }
    BOOST_TEST(run({.argv = {}, .environment = {}, .input = {}}).has_error());
}

BOOST_AUTO_TEST_CASE(nothing_is_inherited_but_what_was_given)
{
    const int leaked = ::open("/dev/null", O_RDONLY);  // deliberately without O_CLOEXEC
    sigset_t blocked;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
    const auto before = std::signal(SIGPIPE, SIG_IGN);
    const auto outcome =
        run({.argv = {"/bin/sh", "-c",
                      "/usr/bin/env | /usr/bin/grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=; pwd; "
                      "/usr/bin/grep SigBlk /proc/self/status; "
                      // glibc ignores its two internal signals (32, 33) between spawn and exec
                      "/usr/bin/grep -cE '^SigIgn:.(0{16}|0000000180000000)$' /proc/self/status; echo "
                      "/proc/self/fd/*"},
             .environment = {{"EXPOSURE", "logs"}, {"EMPTY", ""}},
             .input = {}});
    std::signal(SIGPIPE, before);
    ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
    ::close(leaked);
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->out ==
               "EMPTY=\nEXPOSURE=logs\n/\nSigBlk:\t0000000000000000\n1\n"
               "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n");  // 3: the shell, reading
                                                                                      // the directory
}

BOOST_AUTO_TEST_CASE(a_kernel_that_is_older_than_process_descriptors)
{
    const int leaked = ::open("/dev/null", O_RDONLY);  // deliberately without O_CLOEXEC
    bool filtered = false;
    std::string out;
    bool timed_out = false;
    std::thread([&] {
        filtered = forget_newer_calls();
        if (const auto outcome = sh("echo /proc/self/fd/*; exit 3"); outcome && outcome->exit_code == 3)
            out = outcome->out;
        timed_out = sh("sleep 60", 50ms)->timed_out;
    }).join();
    ::close(leaked);
    BOOST_TEST(filtered);
    BOOST_TEST(out ==
               "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n");  // 3: the shell's own
    BOOST_TEST(timed_out);
}

BOOST_AUTO_TEST_CASE(numbers_that_are_free_below_3_do_not_mix_up_the_streams)
{
    const int saved = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 100);
    ::close(STDIN_FILENO);  // as some supervisors do: the next file opened becomes descriptor 0
    const auto outcome = sh("echo out; echo err >&2");
    ::dup2(saved, STDIN_FILENO);
    ::close(saved);
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->out == "out\n");
    BOOST_TEST(outcome->err == "err\n");
}

BOOST_AUTO_TEST_CASE(input_is_given_read_or_not)
{
    const std::string input(300'000, 'x');
    const auto counted = run({.argv = {"/usr/bin/wc", "-c"}, .environment = {}, .input = input});
    BOOST_TEST(counted->out == "300000\n");
    BOOST_TEST(run({.argv = {"/bin/true"}, .environment = {}, .input = input})->ok());
    BOOST_TEST(sh("wc -c")->out == "0\n");
}

BOOST_AUTO_TEST_CASE(output_is_bounded_and_read_to_its_end)
{
    const auto outcome = sh("head -c 5000000 /dev/zero; echo the end; head -c 100 /dev/zero >&2; exit 0");
    BOOST_REQUIRE(outcome->ok());
    BOOST_TEST(outcome->out.size() == std::size_t{16 << 10});
    BOOST_TEST(outcome->out.ends_with("the end\n"));
    BOOST_TEST(outcome->err.size() == 100u);
    BOOST_TEST(outcome->truncated);
}

BOOST_AUTO_TEST_CASE(a_timeout_ends_the_whole_group)
{
    const auto outcome = sh("sleep 100 & echo $!; sleep 100", 300ms);
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->timed_out);
    BOOST_TEST(!outcome->ok());
    BOOST_TEST(outcome->signal == SIGTERM);
    BOOST_TEST(is_gone(pid_in(outcome->out)));
}

BOOST_AUTO_TEST_CASE(who_does_not_mind_sigterm_gets_sigkill)
{
    const auto outcome = sh("trap '' TERM; echo $$; while :; do sleep 1; done", 200ms);
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->timed_out);
    BOOST_TEST(outcome->signal == SIGKILL);
    BOOST_TEST(is_gone(pid_in(outcome->out)));
}

BOOST_AUTO_TEST_CASE(a_timeout_is_a_failure_even_when_the_child_ends_well_then)
{
    const auto outcome = sh("trap 'exit 0' TERM; while :; do sleep 0.05; done", 200ms);
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->timed_out);
    BOOST_TEST(outcome->exit_code == 0);
    BOOST_TEST(!outcome->ok());
}

BOOST_AUTO_TEST_CASE(what_stays_in_the_background_of_a_success_is_left_alone_and_not_waited_for)
{
    const auto outcome = sh("sleep 100 & echo $!");
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->ok());
    const auto background = pid_in(outcome->out);
    BOOST_TEST(::kill(background, 0) == 0);
    ::kill(background, SIGKILL);
}

BOOST_AUTO_TEST_CASE(what_stays_in_the_background_of_a_failure_is_ended)
{
    const auto outcome = sh("sleep 100 & echo $!; exit 1");
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->exit_code == 1);
    BOOST_TEST(is_gone(pid_in(outcome->out)));
}

BOOST_AUTO_TEST_CASE(a_stop_ends_it)
{
    asio::post(context, [&] { stop.request(); });
    const auto outcome = sh("sleep 100");
    BOOST_REQUIRE(outcome.has_error());
    BOOST_TEST((outcome.error().code == errc::stopping));
    BOOST_TEST((sh("true").error().code == errc::stopping));
}

BOOST_AUTO_TEST_CASE(under_a_deadline_of_its_caller_nothing_stays)
{
    const auto late = run_coroutine(
        context, io::with_deadline(
                     100ms, process.run({.argv = {"/bin/sleep", "100"}, .environment = {}, .input = {}})));
    BOOST_TEST((late.error().code == errc::timed_out));
    BOOST_TEST(::waitpid(-1, nullptr, WNOHANG) == -1);
    BOOST_TEST(errno == ECHILD);
}

BOOST_AUTO_TEST_CASE(many_at_once)
{
    int good = 0;
    run_coroutine(context, io::for_each_parallel(8, 40, [&](std::size_t i) -> io::awaitable<void> {
                      io::process_request request{
                          .argv = {"/bin/echo", std::to_string(i)}, .environment = {}, .input = {}};
                      const auto outcome = co_await process.run(std::move(request));
                      if (outcome && outcome->out == std::to_string(i) + "\n") ++good;
                  }));
    BOOST_TEST(good == 40);
    BOOST_TEST(::waitpid(-1, nullptr, WNOHANG) == -1);
}

BOOST_AUTO_TEST_SUITE_END()
