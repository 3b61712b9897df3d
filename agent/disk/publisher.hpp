#pragma once

#include "crypto/secret.hpp"
#include "policy/desired.hpp"
#include "policy/stored.hpp"

#include <optional>
#include <string>
#include <vector>

// Port: the published directory of one user (contract section 5). The calls block: offload them.

namespace disk {

// Everything that the files of one generation are made from.
struct publication {
    policy::user_name name;
    policy::output_rule output;
    std::string generation;
    crypto::secret key_pem;
    std::string fullchain_pem;  // leaf first
    std::string broker;         // empty: none
    std::optional<std::string> broker_ca_file;
    std::string consumer_group;
    std::string keep;                           // previous generation, kept for rollback; empty: none
    std::vector<policy::published_file> known;  // its files as last written; empty: never written
};

class publisher {
public:
    virtual ~publisher() = default;

    // Makes {directory}/current name a complete directory of the generation: stage, sync, one rename.
    // Files that are right keep inode and mtime. Removes generations other than this one and `keep`.
    // Returns the files' stat facts. errc::disk, disk_full, foreign_file, config (owner, password file).
    virtual policy::result<std::vector<policy::published_file>> publish(const publication&) = 0;

    // Compares stat facts with those last written; sets output and output_detail. Reads no file.
    virtual void inspect(policy::stored_user&, const std::string& directory) = 0;

    // Removes `current` and our generation directories, and the directory itself if it is then empty.
    virtual policy::result<void> unpublish(const std::string& directory,
                                           const std::vector<std::string>& generations) = 0;
};

// Fingerprint of everything in the configuration that the files are made from; a change causes a publish.
std::string rendering_of(const policy::desired_exposure&, const policy::desired_user&);

// Publishes into {directory} as in contract section 5: `current` is a link to the sibling directory of
// one generation; it is moved by one rename once everything behind it is complete and on stable storage.
//
// Ours are `current`, directories named like generations, and in those the file names of the
// formats; everything else there is left alone. A link or a foreign file where one of ours
// should be is errc::foreign_file. Stateless: any number of users may be published concurrently,
// but the calls for one user must come one after the other.
class file_publisher : public publisher {
public:
    [[nodiscard]] policy::result<std::vector<policy::published_file>> publish(const publication&) override;
    void inspect(policy::stored_user&, const std::string& directory) override;
    [[nodiscard]] policy::result<void> unpublish(const std::string& directory,
                                                 const std::vector<std::string>& generations) override;
};

}  // namespace disk
