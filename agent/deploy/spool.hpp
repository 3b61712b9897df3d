#pragma once

#include "agent/deploy/hooks.hpp"
#include "agent/disk/directory.hpp"
#include "agent/io/clock.hpp"
#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The text protocol between the unprivileged agent and root's helper with `--deploy unit`.
//
// A directory owned by root has two subdirectories: `spool`, where the agent may write (watched by
// DirectoryNotEmpty= of a path unit), and `results`, root's own. An entry is a file named after the user;
// root answers with a file of the same name. An entry never says what to do: that comes from root's own
// configuration. It only identifies the request and carries what the hooks find in their environment.

namespace deploy {

inline constexpr const char* default_spool_directory = "/run/exposure-agent-deploy";
inline constexpr std::size_t spool_file_bytes = 8 << 10;

struct spool_request {
    std::string ticket;      // hex; repeated in the answer
    std::string generation;  // as in hook_run
    std::optional<policy::instant> not_after;
    std::string reason;

    bool operator==(const spool_request&) const = default;
};

struct spool_answer {
    std::string ticket;
    std::optional<std::string> failure;  // none: every hook returned 0

    bool operator==(const spool_answer&) const = default;
};

// "logs/siem-forwarder" becomes "logs+siem-forwarder"; "+backup-bucket" is a credential (empty
// exposure). None for names with characters other than [a-z0-9-], or longer than 180 bytes.
std::optional<std::string> spool_entry_name(const policy::user_name&);

// The reverse; none for anything that spool_entry_name does not return.
std::optional<policy::user_name> parse_spool_entry_name(std::string_view);

// One JSON object. Strings of a request are words ([A-Za-z0-9._-], at most 64 bytes): they reach the
// environment of programs run by root. errc::internal for other words, errc::bad_answer for other input.
[[nodiscard]] policy::result<std::string> write_spool_request(const spool_request&);
[[nodiscard]] policy::result<spool_request> read_spool_request(std::string_view);
std::string write_spool_answer(const spool_answer&);
[[nodiscard]] policy::result<spool_answer> read_spool_answer(std::string_view);

// The agent's side of `--deploy unit`: asks root's helper to run a user's hooks and waits for the answer.

class spooled_hooks final : public hooks {
public:
    // `directory` contains `spool` and `results`; see above.
    spooled_hooks(io::clock& clock, std::filesystem::path directory)
        : clock_(clock), directory_(std::move(directory))
    {
    }

    // Fails as hooks::run does; also with errc::hook_failed if the spool cannot be written, or if no
    // answer arrived within the hooks' own time limits plus two minutes. The entry then stays,
    // because the helper may still process it.
    io::task<void> run(hook_run) override;

private:
    policy::result<void> hand_over(const std::string& entry, const spool_request&) const;
    policy::result<std::optional<spool_answer>> look(const std::string& entry,
                                                     const std::string& ticket) const;

    io::clock& clock_;
    std::filesystem::path directory_;
};

// Root's side of the spool. Writers to the spool are not trusted: an entry is moved into the
// directory that only root can write to before anything looks at it, and links are never followed.

class spool_reader {
public:
    // errc::foreign_file: `directory` or its `results` is owned by neither root nor the current
    // user, may be written by others, or is a link. errc::disk: cannot be opened.
    [[nodiscard]] static policy::result<spool_reader> open(const std::filesystem::path& directory);

    // The entries in the spool, without those that the agent is still writing.
    [[nodiscard]] policy::result<std::vector<std::string>> names() const;

    // Takes the entry out, whatever it is. A failure says what was discarded: a name or content that
    // the agent does not write, a link, a directory, a FIFO; errc::not_found if it is gone.
    [[nodiscard]] policy::result<std::pair<policy::user_name, spool_request>> take(
        const std::string& name) const;

    // Writes the answer, readable by everybody.
    [[nodiscard]] policy::result<void> answer(const policy::user_name&, const spool_answer&) const;

private:
    spool_reader(disk::directory spool, disk::directory results)
        : spool_(std::move(spool)), results_(std::move(results))
    {
    }

    disk::directory spool_;
    disk::directory results_;
};

// errc::foreign_file unless the file or directory belongs to root or the current user and nobody else may
// write to it. Required of everything that root obeys (its configuration) or starts (a command hook).
// Follows links.
[[nodiscard]] policy::result<void> refuse_unless_trusted(const std::filesystem::path&);

// What `exposure-agent deploy` does as root: names from the spool, actions from the configuration.

struct drain_report {
    std::vector<policy::user_name> done;  // every hook returned 0
    std::vector<std::string> failed;      // one sentence each
    std::vector<std::string> thrown_away;

    bool operator==(const drain_report&) const = default;
};

// Takes the entries out of the spool one by one, runs the hooks configured for each, and writes
// an answer. A name that is not in the configuration gets no answer, so that writers to the spool
// cannot fill `results`. Failure: errc::disk if the spool cannot be listed; errc::stopping.
io::task<drain_report> drain_spool(const spool_reader&, const policy::desired_state&, hooks&);

// The hooks and the directory of a user, or of a credential (empty exposure); none if it is not
// in the configuration.
std::optional<hook_run> find_hooks(const policy::desired_state&, const policy::user_name&);

}  // namespace deploy
