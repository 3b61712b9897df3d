#pragma once

#include "agent/deploy/spool.hpp"
#include "agent/disk/directory.hpp"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

// Root's side of the spool. Whoever can write there is not trusted: an entry is moved out, into the directory
// that is root's own, before anything looks at it, and no link is followed anywhere.

namespace deploy {

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

}  // namespace deploy
