#pragma once

#include "agent/disk/publisher.hpp"

namespace disk {

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
