#pragma once

#include "agent/disk/directory.hpp"
#include "policy/result.hpp"

#include <filesystem>
#include <string>

namespace service {

// A Unix socket's path in a form that fits into an address: sun_path holds 107 bytes (unix(7)), a longer path
// goes by way of its directory, held open. Use `text` while this lives.
struct socket_path {
    disk::descriptor directory;
    std::string text;
};

// errc::disk: its directory cannot be opened.
[[nodiscard]] policy::result<socket_path> reach(const std::filesystem::path&);

}  // namespace service
