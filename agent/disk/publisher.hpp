#pragma once

#include "crypto/secret.hpp"
#include "policy/desired.hpp"
#include "policy/stored.hpp"

#include <optional>
#include <string>
#include <vector>

// Port: the published directory of one user (contract section 5). Calls block: offload them.

namespace disk {

// All that the files of one generation are made from.
struct publication {
    policy::user_name name;
    policy::output_rule output;
    std::string generation;
    crypto::secret key_pem;
    std::string fullchain_pem;  // leaf first
    std::string broker;         // empty: none
    std::optional<std::string> broker_ca_file;
    std::string consumer_group;
    std::string keep;                           // the generation before, kept for the way back; empty: none
    std::vector<policy::published_file> known;  // how its files were written last; empty: they never were
};

class publisher {
public:
    virtual ~publisher() = default;

    // Makes {directory}/current name a complete directory of the generation: stage, sync, one rename. Files
    // that are as they should be keep inode and mtime. Generations other than this one and `keep` go. Gives
    // the stat facts of the files. errc::disk, disk_full, foreign_file, config (owner, password file).
    virtual policy::result<std::vector<policy::published_file>> publish(const publication&) = 0;

    // Compares stat facts with what was written last; sets output and output_detail. Reads no file.
    virtual void inspect(policy::stored_user&, const std::string& directory) = 0;

    // Removes `current` and our generation directories, and the directory itself once it is empty.
    virtual policy::result<void> unpublish(const std::string& directory,
                                           const std::vector<std::string>& generations) = 0;
};

// Fingerprint of everything in the configuration that the files are made from: a change publishes again.
std::string rendering_of(const policy::desired_exposure&, const policy::desired_user&);

// Publishes into {directory} as contract section 5 has it: `current` is a link to the sibling directory of
// one generation, and moves by one rename when everything behind it is complete and on stable storage.
//
// Ours are `current`, directories that are named like generations, and in those the names that a format has;
// whatever else lies there is left alone. A link or a foreign file where ours should be is
// errc::foreign_file. Holds no state: any number of users may be published at once, one user's calls come one
// after the other.
class file_publisher : public publisher {
public:
    [[nodiscard]] policy::result<std::vector<policy::published_file>> publish(const publication&) override;
    void inspect(policy::stored_user&, const std::string& directory) override;
    [[nodiscard]] policy::result<void> unpublish(const std::string& directory,
                                                 const std::vector<std::string>& generations) override;
};

}  // namespace disk
