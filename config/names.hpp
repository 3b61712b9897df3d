#pragma once

#include <optional>
#include <string>
#include <string_view>

// What names and paths may look like, so that none can leave its directory, open an option or end a line.

namespace config {

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

}  // namespace config
