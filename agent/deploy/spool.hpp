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

// What the unprivileged agent and root's helper say to each other with `--deploy unit`, as text.
//
// A directory of root's has two below it: `spool`, where the agent may write (DirectoryNotEmpty= of a path
// unit watches it), and `results`, root's own. An entry is a file named after the user; root answers with a
// file of the same name. What is to be done never stands in an entry: it comes from root's own configuration.
// The content only says which request this is, and what the hooks find in their environment.

namespace deploy {

inline constexpr const char* default_spool_directory = "/run/exposure-agent-deploy";
inline constexpr std::size_t spool_file_bytes = 8 << 10;

struct spool_request {
    std::string ticket;      // hex: the answer carries it back
    std::string generation;  // as in hook_run
    policy::instant not_after;
    std::string reason;

    bool operator==(const spool_request&) const = default;
};

struct spool_answer {
    std::string ticket;
    std::optional<std::string> failure;  // none: every hook returned 0

    bool operator==(const spool_answer&) const = default;
};

// "logs/siem-forwarder" is "logs+siem-forwarder"; "+backup-bucket" is a credential (an empty exposure). None
// for names outside of [a-z0-9-] and for more than 180 bytes.
std::optional<std::string> spool_entry_name(const policy::user_name&);

// The way back; none for anything that spool_entry_name does not give.
std::optional<policy::user_name> parse_spool_entry_name(std::string_view);

// One JSON object. Texts of a request are words ([A-Za-z0-9._-], at most 64 bytes): they end in the
// environment of programs that run as root. errc::internal on other words, errc::bad_answer on other bytes.
[[nodiscard]] policy::result<std::string> write_spool_request(const spool_request&);
[[nodiscard]] policy::result<spool_request> read_spool_request(std::string_view);
std::string write_spool_answer(const spool_answer&);
[[nodiscard]] policy::result<spool_answer> read_spool_answer(std::string_view);

// The agent's side of `--deploy unit`: asks root's helper to run a user's hooks, and waits for the answer.

class spooled_hooks final : public hooks {
public:
    // `directory` has `spool` and `results` below it; see spool.hpp.
    spooled_hooks(io::clock& clock, std::filesystem::path directory)
        : clock_(clock), directory_(std::move(directory))
    {
    }

    // Failure as of hooks::run; also errc::hook_failed when the spool cannot be written, or when no answer
    // came within the hooks' own time limits and two minutes. The entry stays then: the helper may come to it
    // later.
    io::task<void> run(hook_run) override;

private:
    policy::result<void> hand_over(const std::string& entry, const spool_request&) const;
    policy::result<std::optional<spool_answer>> look(const std::string& entry,
                                                     const std::string& ticket) const;

    io::clock& clock_;
    std::filesystem::path directory_;
};

// Root's side of the spool. Whoever can write there is not trusted: an entry is moved out, into the directory
// that is root's own, before anything looks at it, and no link is followed anywhere.

class spool_reader {
public:
    // errc::foreign_file: `directory` or its `results` do not belong to whoever runs this, or others may
    // write there, or one of them is a link. errc::disk: they cannot be opened.
    [[nodiscard]] static policy::result<spool_reader> open(const std::filesystem::path& directory);

    // What lies there, without what the agent is still writing.
    [[nodiscard]] policy::result<std::vector<std::string>> names() const;

    // Takes the entry out, whatever it is. A failure is a sentence about what was thrown away: a name or a
    // content that the agent does not write, a link, a directory, a pipe; errc::not_found when it is gone.
    [[nodiscard]] policy::result<std::pair<policy::user_name, spool_request>> take(
        const std::string& name) const;

    // Leaves the answer for everybody to read.
    [[nodiscard]] policy::result<void> answer(const policy::user_name&, const spool_answer&) const;

private:
    spool_reader(disk::directory spool, disk::directory results)
        : spool_(std::move(spool)), results_(std::move(results))
    {
    }

    disk::directory spool_;
    disk::directory results_;
};

// errc::foreign_file unless the file or directory belongs to root or to whoever runs this and nobody else may
// write to it: what root obeys (its configuration) or starts (a command hook) has to pass this. A link is
// followed.
[[nodiscard]] policy::result<void> refuse_unless_trusted(const std::filesystem::path&);

// What `exposure-agent deploy` does as root: names from the spool, actions from the configuration.

struct drain_report {
    std::vector<policy::user_name> done;  // every hook returned 0
    std::vector<std::string> failed;      // a sentence each
    std::vector<std::string> thrown_away;

    bool operator==(const drain_report&) const = default;
};

// Takes every entry out of the spool, one by one, runs the hooks that the configuration names for it, and
// leaves an answer. A name that the configuration does not know gets none: whoever writes to the spool shall
// not fill `results`. Failure: errc::disk, the spool cannot be listed; errc::stopping.
io::task<drain_report> drain_spool(const spool_reader&, const policy::desired_state&, hooks&);

// The hooks and the directory of a user, or of a credential (an empty exposure); none: not in the
// configuration.
std::optional<hook_run> find_hooks(const policy::desired_state&, const policy::user_name&);

}  // namespace deploy
