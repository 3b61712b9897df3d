#pragma once

#include "policy/result.hpp"

#include <string>

// The one place where errno becomes a failure.

namespace disk {

// "what: the system's words; what to do". ENOSPC, EDQUOT and EFBIG are errc::disk_full, ELOOP, ENOTDIR,
// EISDIR and EEXIST (something of another kind stands there) errc::foreign_file, everything else errc::disk.
policy::failure from_errno(int error, std::string what);

// errc::foreign_file: "path is <what it is>; it is left alone: move it away".
policy::failure foreign(const std::string& path, const std::string& what_it_is);

}  // namespace disk
