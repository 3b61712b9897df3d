#include "agent/deploy/spool.hpp"

#include "agent/disk/files.hpp"
#include "agent/io/log.hpp"
#include "crypto/digest.hpp"
#include "policy/dates.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace deploy {

namespace {

namespace json = boost::json;

constexpr std::size_t longest_entry_name = 180;  // leaves room for the temporary suffix within NAME_MAX
constexpr std::size_t longest_word = 64;
constexpr std::size_t longest_failure = 4096;
constexpr char joint = '+';  // not allowed in any configured name

bool is_digit_or(char c, char first, char last)
{
    return (c >= '0' && c <= '9') || (c >= first && c <= last);
}

// [a-z0-9-]*[a-z0-9], like names in the configuration
bool is_name(std::string_view text)
{
    return !text.empty() && text.back() != '-' &&
           std::ranges::all_of(text, [](char c) { return c == '-' || is_digit_or(c, 'a', 'z'); });
}

bool is_word(std::string_view text)
{
    return text.size() <= longest_word && std::ranges::all_of(text, [](char c) {
               return is_digit_or(c, 'a', 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
           });
}

bool is_ticket(std::string_view text)
{
    return !text.empty() && text.size() <= longest_word &&
           std::ranges::all_of(text, [](char c) { return is_digit_or(c, 'a', 'f'); });
}

policy::failure strange(const char* what)
{
    return {.code = policy::errc::bad_answer,
            .context = std::string(what) + " is invalid",
            .kind = policy::retry::never};
}

std::optional<json::object> object_in(std::string_view text)
{
    json::error_code error;
    auto document = json::parse(text, error);
    if (error || !document.is_object()) return {};
    return std::move(document.get_object());
}

std::optional<std::string> text_in(const json::object& object, std::string_view key)
{
    const auto* value = object.if_contains(key);
    if (!value || !value->is_string()) return {};
    return std::string(value->get_string());
}

}  // namespace

std::optional<std::string> spool_entry_name(const policy::user_name& name)
{
    if (!(name.exposure.empty() || is_name(name.exposure)) || !is_name(name.user)) return {};
    auto entry = name.exposure + joint + name.user;
    if (entry.size() > longest_entry_name) return {};
    return entry;
}

std::optional<policy::user_name> parse_spool_entry_name(std::string_view entry)
{
    const auto at = entry.find(joint);
    if (at == std::string_view::npos) return {};
    policy::user_name name{std::string(entry.substr(0, at)), std::string(entry.substr(at + 1))};
    if (spool_entry_name(name) != entry) return {};
    return name;
}

namespace {

json::value seconds_of(const std::optional<policy::instant>& at)
{
    return at ? json::value(at->time_since_epoch().count()) : json::value(nullptr);
}

// The year 9999: later dates have no ISO 8601 form of the usual length.
std::optional<policy::instant> instant_in(const json::value& seconds)
{
    if (seconds.is_null()) return std::nullopt;
    return policy::instant(
        std::chrono::seconds(std::clamp<std::int64_t>(seconds.get_int64(), 0, 253'402'300'799)));
}

}  // namespace

policy::result<std::string> write_spool_request(const spool_request& request)
{
    if (!is_ticket(request.ticket) || !is_word(request.generation) || !is_word(request.reason))
        return policy::failure{.code = policy::errc::internal,
                               .context = "invalid characters in a deploy request: generation \"" +
                                          request.generation + "\", reason \"" + request.reason + "\"",
                               .kind = policy::retry::never};
    return json::serialize(json::object{{"ticket", request.ticket},
                                        {"generation", request.generation},
                                        {"not_after", seconds_of(request.not_after)},
                                        {"reason", request.reason}});
}

policy::result<spool_request> read_spool_request(std::string_view text)
{
    const auto object = object_in(text);
    if (!object) return strange("the content");
    const auto ticket = text_in(*object, "ticket");
    const auto generation = text_in(*object, "generation");
    const auto reason = text_in(*object, "reason");
    const auto* not_after = object->if_contains("not_after");
    if (!ticket || !is_ticket(*ticket) || !generation || !is_word(*generation) || !reason ||
        !is_word(*reason) || !not_after || (!not_after->is_int64() && !not_after->is_null()))
        return strange("the content");
    return spool_request{
        .ticket = *ticket, .generation = *generation, .not_after = instant_in(*not_after), .reason = *reason};
}

std::string write_spool_answer(const spool_answer& answer)
{
    json::object object{{"ticket", answer.ticket}, {"failure", nullptr}};
    if (answer.failure) object["failure"] = std::string_view(*answer.failure).substr(0, longest_failure);
    return json::serialize(object);
}

policy::result<spool_answer> read_spool_answer(std::string_view text)
{
    const auto object = object_in(text);
    const auto ticket = object ? text_in(*object, "ticket") : std::nullopt;
    const auto* failure = object ? object->if_contains("failure") : nullptr;
    if (!ticket || !failure || !(failure->is_null() || failure->is_string())) return strange("the answer");
    return spool_answer{.ticket = *ticket, .failure = text_in(*object, "failure")};
}

namespace {

using namespace std::chrono_literals;

constexpr auto first_look = 100ms;
constexpr auto longest_pause = 1000ms;
constexpr auto helper_patience = 2min;  // for the helper to start, and for other users' hooks ahead of ours
constexpr std::size_t ticket_bytes = 16;

// The helper's own messages already start with the subject.
policy::failure failed(const hook_run& run, const std::string& why)
{
    const auto lead = subject_of(run.name) + ": ";
    return {.code = policy::errc::hook_failed,
            .context = why.starts_with(lead) ? why : lead + why,
            .kind = policy::retry::later};
}

std::chrono::milliseconds patience_for(const hook_run& run)
{
    std::chrono::milliseconds all = helper_patience;
    for (const auto& hook : run.hooks)
        all += hook.timeout;
    return all;
}

}  // namespace

policy::result<void> spooled_hooks::hand_over(const std::string& entry, const spool_request& request) const
{
    const auto text = write_spool_request(request);
    if (!text) return text.error();
    const auto spool = disk::directory::open(directory_ / "spool");
    if (!spool) return spool.error();
    // 0644, because root's helper has no capability to override file modes
    return disk::write_file(*spool, entry, *text, {.mode = 0644});
}

policy::result<std::optional<spool_answer>> spooled_hooks::look(const std::string& entry,
                                                                const std::string& ticket) const
{
    const auto results = disk::directory::open(directory_ / "results");
    if (!results) return results.error();
    const auto text = disk::read_file(*results, entry, spool_file_bytes);
    if (!text) return text.error();
    if (!*text) return std::optional<spool_answer>();
    auto answer = read_spool_answer(**text);
    if (!answer) return answer.error();
    // another ticket: the answer to an earlier request
    return answer->ticket == ticket ? std::optional(std::move(*answer)) : std::nullopt;
}

io::task<void> spooled_hooks::run(hook_run run)
{
    if (run.hooks.empty()) co_return policy::result<void>();
    const auto entry = spool_entry_name(run.name);
    if (!entry) co_return failed(run, "the name is too long for a deploy request; shorten it");
    const spool_request request{.ticket = crypto::random_hex(ticket_bytes),
                                .generation = run.generation,
                                .not_after = run.not_after,
                                .reason = run.reason};
    if (const auto handed = hand_over(*entry, request); !handed)
        co_return failed(run, "cannot request the hooks: " + handed.error().context +
                                  "; is exposure-agent-deploy.path enabled?");

    const auto patience = patience_for(run);
    std::chrono::milliseconds pause = first_look;
    for (std::chrono::milliseconds waited{0}; waited < patience; waited += pause) {
        pause = std::min(longest_pause, pause + waited / 2);
        if (const auto slept = co_await clock_.sleep_for(pause); !slept) co_return slept.error();
        const auto answer = look(*entry, request.ticket);
        if (!answer) co_return failed(run, "cannot read the result of the hooks: " + answer.error().context);
        if (!*answer) continue;
        if ((*answer)->failure) co_return failed(run, *(*answer)->failure);
        co_return policy::result<void>();
    }
    co_return failed(run,
                     "exposure-agent-deploy.service did not answer within " +
                         policy::format_duration(std::chrono::duration_cast<policy::duration>(patience)) +
                         "; see `systemctl status exposure-agent-deploy.path` and `journalctl -u "
                         "exposure-agent-deploy`");
}

namespace {

const std::string taken_name = ".taken";         // in `results`: the entry being processed
const std::string refused_prefix = ".refused-";  // entries that could not be removed

policy::failure refuse(policy::errc code, std::string sentence)
{
    return {.code = code, .context = std::move(sentence), .kind = policy::retry::after_change};
}

policy::result<void> judge(const struct stat& facts, const std::string& path)
{
    if (facts.st_uid != 0 && facts.st_uid != ::geteuid())
        return refuse(policy::errc::foreign_file, path + " is not owned by root. Run: chown root " + path);
    if (facts.st_mode & (S_IWGRP | S_IWOTH))
        return refuse(policy::errc::foreign_file,
                      path + " is writable by users other than its owner. Run: chmod go-w " + path);
    return {};
}

policy::result<void> refuse_unless_ours(const disk::directory& opened)
{
    struct stat facts {};
    if (::fstat(opened.fd(), &facts) == 0) return judge(facts, opened.path().string());
    return refuse(policy::errc::disk, "cannot inspect " + opened.path().string());
}

// The type bits of the entry that was moved out; 0 if there is none.
mode_t type_of_taken(const disk::directory& results)
{
    struct stat facts {};
    return ::fstatat(results.fd(), taken_name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0
               ? facts.st_mode & S_IFMT
               : 0;
}

// Removes the entry that was moved out; succeeds if it is already gone. What cannot be removed (a
// tree that is too deep or cannot be listed) is renamed, so that it does not block the other entries.
policy::result<void> throw_away(const disk::directory& results)
{
    if (type_of_taken(results) == S_IFDIR) {
        if (disk::remove_tree(results, taken_name)) return {};
        const std::string aside = refused_prefix + crypto::random_hex(8);
        if (::renameat(results.fd(), taken_name.c_str(), results.fd(), aside.c_str()) == 0) return {};
    }
    // not disk::remove_file: that leaves alone what the agent never creates, such as a FIFO
    if (::unlinkat(results.fd(), taken_name.c_str(), 0) == 0 || errno == ENOENT) return {};
    return refuse(policy::errc::disk, "cannot remove " + results.path_of(taken_name) + ": " +
                                          std::generic_category().message(errno));
}

// A file that the agent has not renamed into place yet. A path unit ignores hidden names, too.
bool is_being_written(const std::string& name)
{
    const auto end = name.rfind('.');
    if (end == 0 || end == std::string::npos || !name.starts_with('.')) return false;
    const auto entry = name.substr(1, end - 1);
    return disk::temporary_name(entry) == name && parse_spool_entry_name(entry);
}

policy::failure thrown_away(const std::string& name, const std::string& why)
{
    return refuse(policy::errc::refused, "spool entry \"" + io::printable(name) + "\" was discarded: " + why);
}

}  // namespace

policy::result<void> refuse_unless_trusted(const std::filesystem::path& path)
{
    struct stat facts {};
    if (::stat(path.c_str(), &facts) == 0) return judge(facts, path.string());
    return refuse(policy::errc::disk,
                  "cannot inspect " + path.string() + ": " + std::generic_category().message(errno));
}

policy::result<spool_reader> spool_reader::open(const std::filesystem::path& directory)
{
    const auto above = disk::directory::open(directory);
    if (!above) return above.error();
    if (const auto ours = refuse_unless_ours(*above); !ours) return ours.error();
    auto results = above->enter("results");
    if (!results) return results.error();
    if (const auto ours = refuse_unless_ours(*results); !ours) return ours.error();
    auto spool = above->enter("spool");
    if (!spool) return spool.error();
    return spool_reader(std::move(*spool), std::move(*results));
}

policy::result<std::vector<std::string>> spool_reader::names() const
{
    auto all = spool_.names();
    if (all)
        std::erase_if(*all, [](const std::string& name) {
            return is_being_written(name) || name.starts_with(refused_prefix);
        });
    return all;
}

policy::result<std::pair<policy::user_name, spool_request>> spool_reader::take(const std::string& name) const
{
    if (const auto gone = throw_away(results_); !gone) return gone.error();
    if (::renameat(spool_.fd(), name.c_str(), results_.fd(), taken_name.c_str()) != 0) {
        if (errno == ENOENT) return refuse(policy::errc::not_found, "the spool entry no longer exists");
        // a hidden name, so that the path unit does not start the helper for it again
        const int error = errno;
        const std::string aside = refused_prefix + crypto::random_hex(8);
        if (::renameat(spool_.fd(), name.c_str(), spool_.fd(), aside.c_str()) == 0)
            return thrown_away(name, "it cannot be moved: " + std::generic_category().message(error));
        errno = error;
        return refuse(policy::errc::disk,
                      "spool entry \"" + io::printable(name) + "\" cannot be discarded: " +
                          std::generic_category().message(errno) + "; remove it manually");
    }
    const bool is_file = type_of_taken(results_) == S_IFREG;
    const auto text = disk::read_file(results_, taken_name, spool_file_bytes);
    if (const auto removed = throw_away(results_); !removed) return removed.error();

    if (!is_file) return thrown_away(name, "it is not a regular file");
    const auto user = parse_spool_entry_name(name);
    if (!user) return thrown_away(name, "it is not a valid user name");
    if (!text) return thrown_away(name, text.error().context);
    if (!*text) return thrown_away(name, "it has no content");
    auto request = read_spool_request(**text);
    if (!request) return thrown_away(name, request.error().context);
    return std::pair(*user, std::move(*request));
}

policy::result<void> spool_reader::answer(const policy::user_name& user, const spool_answer& said) const
{
    const auto name = spool_entry_name(user);
    if (!name) return refuse(policy::errc::internal, user.text() + " cannot be used as a spool entry name");
    return disk::write_file(results_, *name, write_spool_answer(said), {.mode = 0644});
}

namespace {

constexpr std::size_t most_told = 20;  // messages about discarded entries

void tell(std::vector<std::string>& sentences, std::string sentence)
{
    if (sentences.size() < most_told) sentences.push_back(std::move(sentence));
    if (sentences.size() == most_told) sentences.push_back("and more");
}

}  // namespace

std::optional<hook_run> find_hooks(const policy::desired_state& desired, const policy::user_name& name)
{
    if (name.exposure.empty()) {
        const auto found =
            std::ranges::find(desired.credentials, name.user, &policy::desired_credential::name);
        if (found == desired.credentials.end()) return {};
        return hook_run{.name = name,
                        .hooks = found->hooks,
                        .directory = std::filesystem::path(found->file).parent_path().string(),
                        .generation = {},
                        .not_after = std::nullopt};
    }
    const auto exposure =
        std::ranges::find(desired.exposures, name.exposure, &policy::desired_exposure::name);
    if (exposure == desired.exposures.end()) return {};
    const auto user = std::ranges::find(exposure->users, name.user, &policy::desired_user::name);
    if (user == exposure->users.end()) return {};
    return hook_run{.name = name,
                    .hooks = user->hooks,
                    .directory = user->output.directory,
                    .generation = {},
                    .not_after = std::nullopt,
                    .topic = exposure->topic,
                    .consumer_group = user->consumer_group};
}

io::task<drain_report> drain_spool(const spool_reader& spool, const policy::desired_state& desired,
                                   hooks& runner)
{
    const auto names = spool.names();
    if (!names) co_return names.error();
    drain_report report;
    for (const auto& name : *names) {
        const auto taken = spool.take(name);
        if (!taken && taken.error().code == policy::errc::not_found) continue;
        if (!taken) {
            tell(report.thrown_away, taken.error().context);
            continue;
        }
        const auto& [user, request] = *taken;
        auto run = find_hooks(desired, user);
        if (!run) {
            tell(report.thrown_away, "spool entry \"" + name + "\" was discarded: " + user.text() +
                                         " is not in the configuration");
            continue;
        }
        run->generation = request.generation;
        run->not_after = request.not_after;
        run->reason = request.reason;
        auto outcome = co_await runner.run(std::move(*run));
        if (!outcome && outcome.error().code == policy::errc::stopping) co_return outcome.error();

        spool_answer answer{.ticket = request.ticket, .failure = {}};
        if (!outcome) answer.failure = outcome.error().context;
        if (const auto told = spool.answer(user, answer); outcome && !told) outcome = told;
        if (outcome)
            report.done.push_back(user);
        else
            report.failed.push_back(outcome.error().context);
    }
    co_return report;
}

}  // namespace deploy
