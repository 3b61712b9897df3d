#include "agent/disk/publisher.hpp"

#include "agent/disk/renderings.hpp"
#include "crypto/digest.hpp"

#include <string_view>
#include <sys/stat.h>

namespace disk {
namespace {

// Collects `key=value` lines. The length of each value goes with it, so that no two inputs read the same.
class fingerprint {
public:
    void add(std::string_view key, std::string_view value)
    {
        text_ += std::string(key) + ":" + std::to_string(value.size()) + "=" + std::string(value) + "\n";
    }

    // A file's name and stat facts: its content may change without the configuration. A file that is not
    // there is a fact too.
    void add_file(std::string_view key, const std::optional<std::string>& path)
    {
        if (!path) return;
        add(key, *path);
        struct stat facts;
        if (stat(path->c_str(), &facts) != 0) return;
        add("inode", std::to_string(facts.st_ino));
        add("size", std::to_string(facts.st_size));
        add("mtime", std::to_string(facts.st_mtim.tv_sec) + "." + std::to_string(facts.st_mtim.tv_nsec));
    }

    std::string hex() const { return crypto::sha256_hex(text_); }

private:
    std::string text_;
};

}  // namespace

std::string rendering_of(const policy::desired_exposure& exposure, const policy::desired_user& user)
{
    const auto& output = user.output;
    fingerprint print;
    print.add("directory", output.directory);
    for (const auto format : output.formats)
        print.add("format", policy::word_of(format));
    print.add("owner", output.access.owner.value_or(""));
    print.add("group", output.access.group.value_or(""));
    print.add("mode", std::to_string(output.access.mode));
    if (needs_broker_ca(output)) {
        print.add("broker", exposure.broker);
        print.add("consumer_group", user.consumer_group);
        print.add_file("broker_ca_file", exposure.broker_ca_file);
    }
    if (needs_password(output)) print.add_file("password_file", output.password_file);
    return print.hex();
}

}  // namespace disk
