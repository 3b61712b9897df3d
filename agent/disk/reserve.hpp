#pragma once

#include "agent/disk/paths.hpp"
#include "policy/result.hpp"

// Room on the disk that is kept for answers of the platform: {state_dir}/private/reserve, a file of blanks.
// It is there before anything is sent whose answer must be kept, and is given up when a save finds the disk
// full.

namespace disk {

// Makes it if it is missing. errc::disk_full, disk: then nothing may be sent.
[[nodiscard]] policy::result<void> keep_reserve(const paths&);

// Whether a change could be kept, from a look alone: for whoever may only look. errc::disk_full, disk.
[[nodiscard]] policy::result<void> has_room(const paths&);

// True: there was one, it is given up, and what found the disk full may be tried once more.
[[nodiscard]] bool spend_reserve(const paths&);

// Runs a save; once more, with the room of the reserve, when it finds the disk full.
template <typename Save>
auto save_with_reserve(const paths& where, const Save& save)
{
    auto saved = save();
    if (saved || saved.error().code != policy::errc::disk_full || !spend_reserve(where)) return saved;
    return save();
}

}  // namespace disk
