#pragma once

#include "policy/desired.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// How single configuration values are spelled (contract section 2): names, paths, numbers, durations,
// addresses. Ranges are checked elsewhere.

namespace config {

// --- Names and paths that cannot leave their directory, look like an option or end a line

// `[a-z0-9-]*[a-z0-9]`, at most 64 characters: exposures, users, credentials (contract section 2).
bool is_name(std::string_view);

// `[A-Za-z0-9._-]{1,64}`: the owner in the marker.
bool is_owner(std::string_view);

// `[A-Za-z0-9][A-Za-z0-9._-]*`, at most 64 characters: part of the common name and of URLs.
bool is_tenant(std::string_view);

// A Kafka topic: `[A-Za-z0-9._-]{1,249}`, except `.` and `..`.
bool is_topic(std::string_view);

// Exactly one @, with something before it and a host name after it.
bool is_email(std::string_view);

// `[A-Za-z_][A-Za-z0-9_]*`: an environment variable that sh can use as well.
bool is_variable(std::string_view);

// The name of a systemd credential: a file name, at most 255 characters (systemd.exec, LoadCredential=).
bool is_credential(std::string_view);

// A user or group on this host, by name or number (useradd(8), without the obsolete `:` and `/`).
bool is_account(std::string_view);

// The unit's full name (systemd.unit(5)), with `.service` appended when it has no type. nullopt when no unit
// can have this name: invalid characters, a template without an instance, over 255 characters.
std::optional<std::string> unit_name(std::string_view);

// A byte below 0x20 or 0x7f.
bool has_control(std::string_view);

// Absolute, without `..`, control characters or overlong components.
bool is_path(std::string_view);

// The path without repeated slashes, `.` and a trailing slash. Requires is_path.
std::string normalised(std::string_view path);

// --- Numbers, durations, modes

// `90s`, `15m`, `12h`, `30d`, `2w`, or combined from larger to smaller units as in `1d12h`; `0s`.
// nullopt for anything else, and for numbers of more than nine digits.
std::optional<policy::duration> read_duration(std::string_view);

// The shortest common spelling: 90s, 15m, 24h, 14d.
std::string write_duration(policy::duration);

// A duration or a share of the lifetime: `33%`.
std::optional<policy::lead> read_lead(std::string_view);

// A plain decimal number of at most nine digits; not `010`, `0x10`, `1_000`, `+1` or `1.0`.
std::optional<int> read_integer(std::string_view);

// Exactly `true` or `false`.
std::optional<bool> read_boolean(std::string_view);

// Three octal digits, optionally after a 0: `0640` and `640` both mean rw-r-----.
std::optional<unsigned> read_mode(std::string_view);

// --- Hosts and URLs (RFC 3986 section 3, without user information, query and fragment)

struct host_port {
    std::string host;  // without brackets around an IPv6 address
    std::uint16_t port = 0;
};

struct url {
    std::string scheme;  // lower case
    std::string host;
    std::optional<std::uint16_t> port;
    std::string path;  // "" or from the first slash
};

// `host:port` or `[v6]:port`; port 1 to 65535.
std::optional<host_port> read_host_port(std::string_view);

// The parts of a comma-separated list (Kafka's bootstrap servers). nullopt if one of them is invalid.
std::optional<std::vector<host_port>> read_host_ports(std::string_view);

// nullopt unless scheme://host[:port][/path]; also for a user name, query or fragment.
std::optional<url> read_url(std::string_view);

}  // namespace config
