#include "agent/platform/secret_reader.hpp"

#include "agent/io/async.hpp"
#include "agent/io/descriptor.hpp"
#include "agent/io/environment.hpp"
#include "agent/platform/response.hpp"
#include "policy/limits.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace platform {
namespace {

using origin = policy::secret_source::origin;

constexpr std::chrono::seconds command_time{30};
constexpr const char* default_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

policy::failure no_secret(const std::string& what, std::string why)
{
    return {.code = policy::errc::token_source,
            .context = what + ": " + std::move(why),
            .kind = policy::retry::after_change};
}

std::string because(const std::string& path)
{
    const auto why = errno;
    const auto remedy = why == EACCES ? "; give " + io::user_name(::geteuid()) + " read access to it" : "";
    return path + ": " + std::strerror(why) + remedy;
}

// O_NONBLOCK: a FIFO in place of the file must not block us.
policy::result<std::string> contents(const std::string& path, const std::string& what)
{
    const io::descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat facts = {};
    if (!file || ::fstat(file.get(), &facts) != 0) return no_secret(what, because(path));
    if (!S_ISREG(facts.st_mode)) return no_secret(what, path + " is not a file");
    if (facts.st_uid != 0 && facts.st_uid != ::geteuid())
        return no_secret(what, path + " belongs to " + io::user_name(facts.st_uid) +
                                   "; it must belong to root or to the user that runs the agent");
    if ((facts.st_mode & S_IWOTH) != 0) return no_secret(what, path + " is world-writable");
    auto text = io::read_bounded(file.get(), policy::limits::token_bytes);
    if (!text) return no_secret(what, because(path));
    if (text->size() > policy::limits::token_bytes)
        return no_secret(what, path + " is too large for a secret");
    return std::move(*text);
}

// The text without surrounding whitespace; wipes the input.
policy::result<crypto::secret> only_secret(std::string text, const std::string& what,
                                           const std::string& where)
{
    constexpr std::string_view around = " \t\r\n";
    const auto first = text.find_first_not_of(around);
    if (first == std::string::npos) return no_secret(what, where + " is empty");
    const auto last = text.find_last_not_of(around);
    crypto::secret secret(std::string_view(text).substr(first, last - first + 1));
    crypto::wipe(text);
    // The secret is sent in a header, so control characters are not allowed.
    if (std::ranges::any_of(secret.view(), [](unsigned char c) { return c < ' ' || c == 0x7f; }))
        return no_secret(what, where + " contains more than one line or control characters");
    return secret;
}

// The first executable of that name in $PATH; the name itself if it is a path, empty if there is none.
std::string program(const std::string& name, const std::string& path)
{
    if (name.find('/') != std::string::npos) return name;
    for (std::size_t at = 0; at <= path.size();) {
        const auto end = std::min(path.find(':', at), path.size());
        const auto candidate = path.substr(at, end - at) + "/" + name;
        if (candidate.front() == '/' && ::access(candidate.c_str(), X_OK) == 0) return candidate;
        at = end + 1;
    }
    return {};
}

}  // namespace

secret_reader::secret_reader(io::process& process, boost::asio::any_io_executor pool, variables environment)
    : process_(process), pool_(std::move(pool)), environment_(std::move(environment))
{
}

std::string secret_reader::path_of(const policy::secret_source& source) const
{
    if (source.from == origin::file) return source.name;
    const auto directory = environment_.find("CREDENTIALS_DIRECTORY");  // systemd.exec(5)
    if (source.from != origin::credential || directory == environment_.end()) return {};
    return directory->second + "/" + source.name;
}

io::task<crypto::secret> secret_reader::read(policy::secret_source source, std::string what,
                                             crypto::secret before)
{
    if (source.from == origin::command)
        co_return co_await run(std::move(source), std::move(what), std::move(before));
    if (source.from == origin::environment) {
        const auto found = environment_.find(source.name);
        if (found == environment_.end())
            co_return no_secret(what, "the environment variable " + source.name + " is not set");
        co_return only_secret(found->second, what, "the environment variable " + source.name);
    }
    const auto path = path_of(source);
    if (path.empty())
        co_return no_secret(
            what, "systemd credential " + source.name +
                      " not found ($CREDENTIALS_DIRECTORY is not set); add LoadCredential= to the unit");
    auto text = co_await io::offload(pool_, [&] { return contents(path, what); });
    if (!text) co_return text.error();
    co_return only_secret(std::move(*text), what, path);
}

io::task<crypto::secret> secret_reader::run(policy::secret_source source, std::string what,
                                            crypto::secret before)
{
    const auto search = environment_.find("PATH");
    auto argv = source.argv;
    argv.front() = program(argv.front(), search == environment_.end() ? default_path : search->second);
    const auto name = "the command " + source.argv.front();
    if (argv.front().empty()) co_return no_secret(what, name + " is not in $PATH");
    io::process_request request{.argv = std::move(argv),
                                .environment = environment_,
                                .input = {},
                                .timeout = command_time,
                                .output_limit = policy::limits::token_bytes};
    auto outcome = co_await process_.run(std::move(request));
    if (!outcome && outcome.error().code == policy::errc::stopping) co_return outcome.error();
    if (!outcome) co_return no_secret(what, outcome.error().context);
    const auto printed =
        std::string_view(outcome->out).substr(0, outcome->out.find_last_not_of(" \t\r\n") + 1);
    const std::array hidden = {before.view(), printed};  // a script that traces itself prints its token
    const auto said = outcome->err.empty() ? std::string() : ": " + redact(outcome->err, hidden);
    if (outcome->timed_out)
        co_return no_secret(what,
                            name + " timed out after " + std::to_string(command_time.count()) + " s" + said);
    if (!outcome->ok()) {
        const auto how = outcome->signal != 0
                             ? " was killed by signal " + std::to_string(outcome->signal)
                             : " failed with exit code " + std::to_string(outcome->exit_code);
        crypto::wipe(outcome->out);
        co_return no_secret(what, name + how + said);
    }
    if (outcome->truncated) co_return no_secret(what, name + " printed too much for a secret");
    co_return only_secret(std::move(outcome->out), what, "the output of " + name);
}

io::awaitable<std::optional<file_mark>> secret_reader::mark_of(policy::secret_source source)
{
    const auto path = path_of(source);
    if (path.empty()) co_return std::nullopt;
    co_return co_await io::offload(pool_, [&]() -> std::optional<file_mark> {
        struct stat facts = {};
        if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
        return file_mark{
            .inode = facts.st_ino,
            .size = facts.st_size,
            .mtime_ns = facts.st_mtim.tv_sec * std::int64_t{1'000'000'000} + facts.st_mtim.tv_nsec};
    });
}

secret_reader::variables own_environment()
{
    secret_reader::variables all;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const auto equals = text.find('=');
        if (equals == std::string_view::npos) continue;
        all.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    for (const auto name : {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS",
                            "LISTEN_FDNAMES", "JOURNAL_STREAM", "INVOCATION_ID"})
        all.erase(name);
    return all;
}

}  // namespace platform
