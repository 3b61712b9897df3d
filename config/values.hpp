#pragma once

#include "policy/desired.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// How single values of the configuration are written (contract section 2): names, paths, numbers, durations,
// addresses. None of these looks at a range.

namespace config {

// --- Names and paths, so that none can leave its directory, open an option or end a line

// `[a-z0-9-]*[a-z0-9]`, at most 64 characters: exposures, users, credentials (contract section 2).
bool is_name(std::string_view);

// `[A-Za-z0-9._-]{1,64}`: the owner in the marker.
bool is_owner(std::string_view);

// `[A-Za-z0-9][A-Za-z0-9._-]*`, at most 64 characters: a part of the common name and of addresses.
bool is_tenant(std::string_view);

// Kafka: `[A-Za-z0-9._-]{1,249}`, neither `.` nor `..`.
bool is_topic(std::string_view);

// One @ with something before and a host name behind it.
bool is_email(std::string_view);

// `[A-Za-z_][A-Za-z0-9_]*`: an environment variable, also a variable of sh.
bool is_variable(std::string_view);

// The name of a systemd credential: a file name, at most 255 characters (systemd.exec, LoadCredential=).
bool is_credential(std::string_view);

// A user or group of this host, by name or number (useradd(8), without the old `:` and `/`).
bool is_account(std::string_view);

// The unit's full name (systemd.unit(5)): `.service` is added when it has no type. Nothing when no unit can
// be called so: wrong characters, a template without instance, over 255 characters.
std::optional<std::string> unit_name(std::string_view);

// A byte below 0x20 or 0x7f.
bool has_control(std::string_view);

// Absolute, without `..`, control characters and overlong parts.
bool is_path(std::string_view);

// The same path without doubled slashes, `.` and a slash at its end. Only for what is_path.
std::string normalised(std::string_view path);

// --- Numbers, durations, modes

// `90s`, `15m`, `12h`, `30d`, `2w`, joined from the larger to the smaller unit as in `1d12h`; `0s`.
// Nothing for anything else, and for a number of more than nine digits.
std::optional<policy::duration> read_duration(std::string_view);

// The shortest common way to write it: 90s, 15m, 24h, 14d.
std::string write_duration(policy::duration);

// A duration or a share of the lifetime: `33%`.
std::optional<policy::lead> read_lead(std::string_view);

// A plain decimal number of at most nine digits: neither `010` nor `0x10`, `1_000`, `+1` or `1.0`.
std::optional<int> read_integer(std::string_view);

// Exactly `true` or `false`.
std::optional<bool> read_boolean(std::string_view);

// Three octal digits, a 0 before them at will: `0640` and `640` are both rw-r-----.
std::optional<unsigned> read_mode(std::string_view);

// --- Hosts and URLs (RFC 3986 section 3, without user information, query and fragment)

struct host_port {
    std::string host;  // without the brackets of an IPv6 address
    std::uint16_t port = 0;
};

struct url {
    std::string scheme;  // lower case
    std::string host;
    std::optional<std::uint16_t> port;
    std::string path;  // "" or from its first slash on
};

// `host:port` or `[v6]:port`; port 1 to 65535.
std::optional<host_port> read_host_port(std::string_view);

// The parts of a comma-separated list (Kafka's bootstrap servers). Nothing when one of them is none.
std::optional<std::vector<host_port>> read_host_ports(std::string_view);

// Nothing for whatever is not scheme://host[:port][/path]: also a user name, a query or a fragment.
std::optional<url> read_url(std::string_view);

}  // namespace config
