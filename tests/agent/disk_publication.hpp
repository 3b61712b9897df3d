#pragma once

#include "agent/disk/publisher.hpp"
#include "tests/agent/disk_support.hpp"
#include "tests/support/test_ca.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace disk_test {

using policy::file_format;
using policy::output_condition;

// A key, a certificate for it, and the resulting generation id.
struct issued {
    std::string key;
    std::string leaf;
    std::string chain;
    std::string generation;

    std::string fullchain() const { return leaf + chain; }
};

// An output directory, and certificates to publish in it.
struct publication_fixture : scratch {
    issued issue() const
    {
        const auto key = crypto::private_key::generate(policy::key_type::ecdsa_p256).value();
        return {.key = std::string(key.to_pem().value().view()),
                .leaf = issuing.issue(key),
                .chain = issuing.pem() + root.pem(),
                .generation = policy::generation_id(key.fingerprint())};
    }

    disk::publication publication_of(const issued& from) const
    {
        return {
            .name = {"logs", "siem-forwarder"},
            .output = output,
            .generation = from.generation,
            .key_pem = crypto::secret(from.key),
            .fullchain_pem = from.fullchain(),
            .broker = "broker.example.com:9093",
            .broker_ca_file = path("broker-ca.pem").string(),
            .consumer_group = "siem",
            .keep = keep,
            .known = from.generation == user.current ? user.files : std::vector<policy::published_file>()};
    }

    // Publishes, and updates `user` as the record would be updated.
    void publish(const issued& from)
    {
        auto done = disk::file_publisher().publish(publication_of(from));
        BOOST_REQUIRE_MESSAGE(done, (done ? "" : done.error().context));
        user.current = from.generation;
        user.files = std::move(*done);
    }

    output_condition inspected()
    {
        disk::file_publisher().inspect(user, output.directory);
        return user.output;
    }

    static std::string current(const std::string& name) { return "tls/current/" + name; }

    std::set<std::string> names(const std::string& directory) const
    {
        std::set<std::string> found;
        for (const auto& entry : fs::directory_iterator(path(directory)))
            found.insert(entry.path().filename());
        return found;
    }

    // Inode and modification time of every published file.
    std::map<std::string, std::pair<ino_t, long>> stamps() const
    {
        std::map<std::string, std::pair<ino_t, long>> found;
        for (const auto& name : names("tls/current")) {
            const auto facts = look(current(name));
            found[name] = {facts.st_ino, facts.st_mtim.tv_sec * 1'000'000'000L + facts.st_mtim.tv_nsec};
        }
        return found;
    }

    publication_fixture()
    {
        put("broker-ca.pem", "the broker's authority\n");
        put("password", "not-a-real-password\n");
        output.directory = path("tls").string();
    }

    test_support::test_ca root{"Test Root"};
    test_support::test_ca issuing{"Test Issuing", root};
    policy::output_rule output;
    policy::stored_user user;
    std::string keep;
};

}  // namespace disk_test
