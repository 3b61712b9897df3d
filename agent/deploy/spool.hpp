#pragma once

#include "policy/naming.hpp"
#include "policy/result.hpp"

#include <optional>
#include <string>
#include <string_view>

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

}  // namespace deploy
