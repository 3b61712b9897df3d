#include "agent/disk/file_store.hpp"
#include "agent/disk/stored_json.hpp"
#include "agent/disk/token_file.hpp"
#include "tests/agent/disk_support.hpp"

#include <boost/test/unit_test.hpp>

#include <csignal>
#include <fstream>
#include <sys/mount.h>
#include <sys/resource.h>

// The private store: what is saved is found again, and what cannot be read blocks its user alone.

namespace {

using namespace disk_test;
using policy::errc;

const policy::user_name siem = {"logs", "siem-forwarder"};
const policy::user_name audit = {"logs", "audit"};
const disk::agent_record here_on_web_01 = {.owner = "web-01", .machine = "aaaa"};

struct store_fixture : scratch {
    store_fixture() { fs::create_directory(path("private")); }

    disk::file_store opened(disk::agent_record machine = here_on_web_01) const
    {
        return disk::file_store(where, std::move(machine));
    }

    policy::stored_user user_with(const policy::user_name& name, const std::vector<std::string>& ids) const
    {
        policy::stored_user user;
        user.name = name;
        for (const auto& id : ids) {
            policy::generation one;
            one.id = id;
            user.generations.push_back(one);
        }
        return user;
    }

    // A user with one generation, key and record on disk.
    policy::stored_user written(const policy::user_name& name, const std::string& id)
    {
        auto user = user_with(name, {id});
        BOOST_REQUIRE(store.write_generation(name, id, crypto::secret("key of " + id), "request of " + id));
        BOOST_REQUIRE(store.save(user));
        return user;
    }

    policy::stored_state loaded() { return store.load().value(); }

    disk::paths where{temporary.path()};
    disk::file_store store = opened();
};

BOOST_FIXTURE_TEST_SUITE(disk_store, store_fixture)

BOOST_AUTO_TEST_CASE(what_is_saved_is_found_again)
{
    const auto one = written(siem, "9f3c2a1b");
    const auto two = written(audit, "00112233");
    policy::stored_exposure exposure;
    exposure.name = "logs";
    exposure.where.instance_id = "instance-1";
    BOOST_REQUIRE(store.save(exposure));

    const auto state = loaded();
    BOOST_TEST(state.users.size() == 2u);
    BOOST_TEST((state.users.at(siem) == one));
    BOOST_TEST((state.users.at(audit) == two));
    BOOST_TEST(state.exposures.size() == 1u);
    BOOST_TEST((state.exposures.at("logs") == exposure));
    BOOST_TEST(store.read_key(siem, "9f3c2a1b").value().view() == "key of 9f3c2a1b");
    BOOST_TEST(store.read_csr(siem, "9f3c2a1b").value() == "request of 9f3c2a1b");
}

BOOST_AUTO_TEST_CASE(nothing_was_ever_saved)
{
    const auto state = loaded();
    BOOST_TEST(state.users.empty());
    BOOST_TEST(state.exposures.empty());
    BOOST_TEST(state.owner == "web-01");
    BOOST_TEST(!state.cloned);
}

BOOST_AUTO_TEST_CASE(everything_is_for_the_owner_alone)
{
    BOOST_REQUIRE(store.remember_installation());
    written(siem, "9f3c2a1b");
    BOOST_REQUIRE(store.write_certificate(siem, "9f3c2a1b", "certificate"));
    BOOST_REQUIRE(disk::token_file(where).save(crypto::secret("token")));
    int seen = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path("private"))) {
        const auto mode = static_cast<unsigned>(entry.symlink_status().permissions());
        BOOST_TEST(mode == (entry.is_directory() ? 0700u : 0600u), entry.path().string());
        ++seen;
    }
    BOOST_TEST(seen == 10);
}

BOOST_AUTO_TEST_CASE(the_look_says_whether_a_key_is_there)
{
    written(siem, "9f3c2a1b");
    BOOST_REQUIRE(store.save(user_with(siem, {"9f3c2a1b", "00000001", "00000002"})));
    fs::create_directories(where.generation(siem, "00000002"));
    std::ofstream(where.key(siem, "00000002"));  // empty: no key
    const auto state = loaded();
    const auto& found = state.users.at(siem).generations;
    BOOST_TEST(found.at(0).key_on_disk);
    BOOST_TEST(!found.at(1).key_on_disk);
    BOOST_TEST(!found.at(2).key_on_disk);
}

BOOST_AUTO_TEST_CASE(a_record_that_did_not_change_is_not_written)
{
    const auto user = written(siem, "9f3c2a1b");
    const auto before = look("private/users/logs/siem-forwarder/state.json");
    BOOST_REQUIRE(store.save(user));
    const auto after = look("private/users/logs/siem-forwarder/state.json");
    BOOST_TEST(before.st_ino == after.st_ino);
    BOOST_TEST(before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

BOOST_AUTO_TEST_CASE(a_key_without_a_record_was_never_sent)
{
    BOOST_REQUIRE(store.write_generation(siem, "00000001", crypto::secret("key"), "request"));  // crash here
    BOOST_TEST(loaded().users.empty());
    BOOST_TEST(fs::exists(where.key(siem, "00000001")));  // a look removes nothing

    written(siem, "00000002");
    BOOST_TEST(!fs::exists(where.generation(siem, "00000001")));
    BOOST_REQUIRE(store.write_generation(siem, "00000003", crypto::secret("key"), "request"));  // and here
    BOOST_REQUIRE(store.write_generation(siem, "00000004", crypto::secret("key"), "request"));
    BOOST_TEST(fs::exists(where.key(siem, "00000002")));
    BOOST_TEST(!fs::exists(where.generation(siem, "00000003")));
    BOOST_TEST(loaded().users.at(siem).generations.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_generation_comes_and_goes)
{
    written(siem, "00000001");
    BOOST_REQUIRE(store.write_certificate(siem, "00000001", "one"));
    BOOST_REQUIRE(store.write_certificate(siem, "00000001", "two"));
    BOOST_TEST(store.read_certificate(siem, "00000001").value() == "two");
    BOOST_REQUIRE(store.erase_generation(siem, "00000001"));
    BOOST_TEST(!fs::exists(where.generation(siem, "00000001")));
    BOOST_REQUIRE(store.erase_generation(siem, "00000001"));
    check_failure(store.read_certificate(siem, "00000001"), errc::disk);
    check_failure(store.read_key(siem, "00000001"), errc::disk);
    BOOST_TEST(!loaded().users.at(siem).generations.at(0).key_on_disk);

    BOOST_REQUIRE(store.erase(siem));
    BOOST_REQUIRE(store.erase(siem));
    BOOST_TEST(loaded().users.empty());
    BOOST_TEST(!fs::exists(where.user(siem)));
}

BOOST_AUTO_TEST_CASE(an_unusable_record_blocks_its_user_and_nobody_else)
{
    struct row {
        const char* what;
        const char* content;
    };
    const row rows[] = {{"torn", R"({"schema":1,"exposure":"logs","us)"},
                        {"empty", ""},
                        {"newer", R"({"schema":2,"exposure":"logs","user":"siem-forwarder"})"},
                        {"another user's", R"({"schema":1,"exposure":"logs","user":"audit"})"}};
    for (const auto& [what, content] : rows) {
        BOOST_TEST_CONTEXT(what)
        {
            store_fixture one;
            one.written(siem, "9f3c2a1b");
            one.written(audit, "00112233");
            const auto file = one.where.user_state(siem);
            std::ofstream(file) << content;

            auto state = one.loaded();
            BOOST_TEST(state.users.at(audit).unreadable.empty());
            auto& blocked = state.users.at(siem);
            BOOST_TEST((blocked.name == siem));
            BOOST_TEST(blocked.unreadable.find(file.string()) != std::string::npos, blocked.unreadable);
            BOOST_TEST(blocked.unreadable.find("restore it") != std::string::npos, blocked.unreadable);

            // and nothing is written over it
            check_failure(one.store.save(blocked), errc::disk);
            check_failure(one.store.write_generation(siem, "00000001", crypto::secret("k"), "r"), errc::disk);
            BOOST_TEST(one.get("private/users/logs/siem-forwarder/state.json") == content);
            BOOST_TEST(fs::exists(one.where.key(siem, "9f3c2a1b")));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_lost_record_of_a_user_with_certificates_is_no_new_user)
{
    written(siem, "9f3c2a1b");
    BOOST_REQUIRE(store.write_certificate(siem, "9f3c2a1b", "certificate"));
    fs::remove(where.user_state(siem));
    BOOST_TEST(loaded().users.at(siem).unreadable.find("it is missing") != std::string::npos);
    check_failure(store.write_generation(siem, "00000001", crypto::secret("k"), "r"), errc::disk);
}

BOOST_AUTO_TEST_CASE(an_unusable_exposure_is_reported)
{
    policy::stored_exposure exposure;
    exposure.name = "logs";
    BOOST_REQUIRE(store.save(exposure));
    std::ofstream(where.exposure("logs")) << "{";
    const auto state = loaded();
    BOOST_TEST(!state.exposures.at("logs").unreadable.empty());
    check_failure(store.save(state.exposures.at("logs")), errc::disk);
    BOOST_TEST(get("private/exposures/logs.json") == "{");
}

BOOST_AUTO_TEST_CASE(the_first_start_is_remembered)
{
    BOOST_REQUIRE(store.remember_installation());
    auto renamed = opened({.owner = "web-02", .machine = "aaaa"});
    BOOST_REQUIRE(renamed.remember_installation());
    BOOST_TEST(renamed.load().value().owner == "web-01");
    BOOST_TEST(!renamed.load().value().cloned);
}

BOOST_AUTO_TEST_CASE(a_copy_on_another_machine_waits_for_takeover)
{
    BOOST_REQUIRE(store.remember_installation());
    written(siem, "9f3c2a1b");
    auto copy = opened({.owner = "web-02", .machine = "bbbb"});
    BOOST_REQUIRE(copy.remember_installation());
    BOOST_TEST(copy.load().value().cloned);
    BOOST_REQUIRE(copy.take_over());
    BOOST_TEST(!copy.load().value().cloned);
    BOOST_TEST(copy.load().value().owner == "web-01");
    BOOST_TEST(loaded().cloned);  // now the old machine is the copy
}

BOOST_AUTO_TEST_CASE(a_machine_without_an_id_is_nobodys_copy)
{
    BOOST_REQUIRE(store.remember_installation());
    BOOST_TEST(!opened({.owner = "web-01", .machine = ""}).load().value().cloned);
}

BOOST_AUTO_TEST_CASE(users_without_the_record_of_whose_they_are_wait_for_takeover)
{
    written(siem, "9f3c2a1b");
    BOOST_REQUIRE(store.remember_installation());
    BOOST_TEST(loaded().cloned);
    BOOST_REQUIRE(store.take_over());
    BOOST_TEST(!loaded().cloned);
}

BOOST_AUTO_TEST_CASE(an_unusable_agent_record_stops_everything)
{
    std::ofstream(where.agent()) << "{";
    for (const auto& failed : {store.load() ? policy::failure{} : store.load().error(),
                               store.remember_installation().error(), store.take_over().error()}) {
        BOOST_TEST((failed.code == errc::disk));
        BOOST_TEST(failed.context.find(where.agent().string()) != std::string::npos, failed.context);
    }
}

BOOST_AUTO_TEST_CASE(the_machine_is_known_by_a_digest)
{
    put("id", "0123456789abcdef0123456789abcdef\n");
    put("other", "1123456789abcdef0123456789abcdef\n");
    put("blank", "\n");
    put("first-boot", "uninitialized\n");
    const auto machine = [this](const char* name) { return disk::this_installation(path(name)).machine; };
    BOOST_TEST(machine("id").size() == 64u);
    BOOST_TEST(machine("id") != machine("other"));
    BOOST_TEST(machine("id").find("0123456789abcdef") == std::string::npos);
    for (const char* none : {"blank", "first-boot", "missing"})
        BOOST_TEST(machine(none) == "", none);
    BOOST_TEST(!disk::this_installation(path("missing")).owner.empty());
}

BOOST_AUTO_TEST_CASE(a_full_disk_changes_nothing)
{
    const auto user = written(siem, "9f3c2a1b");
    auto bigger = user;
    bigger.deploy_reason = std::string(1 << 16, 'x');

    std::signal(SIGXFSZ, SIG_IGN);
    rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit small = before;
    small.rlim_cur = 1 << 14;
    setrlimit(RLIMIT_FSIZE, &small);
    const auto saved = store.save(bigger);
    const auto key = store.write_generation(siem, "00000001", crypto::secret(std::string(1 << 16, 'k')), "r");
    setrlimit(RLIMIT_FSIZE, &before);

    check_failure(saved, errc::disk_full);
    check_failure(key, errc::disk_full);
    BOOST_TEST((loaded().users.at(siem) == user));
    BOOST_REQUIRE(store.save(bigger));
    BOOST_REQUIRE(store.write_generation(siem, "00000001", crypto::secret("k"), "r"));
}

BOOST_AUTO_TEST_CASE(an_answer_finds_room_on_a_disk_that_filled_up)
{
    if (!is_root()) return;
    fs::create_directory(path("small"));
    if (mount("none", path("small").c_str(), "tmpfs", 0, "size=1m") != 0) {
        BOOST_TEST_MESSAGE(
            "skipped: an_answer_finds_room_on_a_disk_that_filled_up: nothing can be mounted here");
        return;
    }
    fs::create_directory(path("small") / "private");
    const disk::token_file tokens(disk::paths(path("small")));
    const auto fill = [&](const char* name) {
        std::ofstream(path("small") / name) << std::string(1 << 20, 'x');
    };
    const auto room = tokens.make_room();
    fill("of-others");
    const auto in_full = tokens.make_room();
    const auto saved = tokens.save(crypto::secret("answer"));
    const auto kept = tokens.load();
    fill("more-of-others");
    const auto none = tokens.make_room();
    umount2(path("small").c_str(), MNT_DETACH);
    BOOST_TEST(bool(room));
    BOOST_TEST(bool(in_full));
    BOOST_TEST(bool(saved));
    BOOST_TEST(kept.value()->text.view() == "answer");
    check_failure(none, errc::disk_full);
}

BOOST_AUTO_TEST_CASE(tokens_are_kept)
{
    const disk::token_file tokens(where);
    BOOST_TEST(!tokens.load().value());
    BOOST_REQUIRE(tokens.save(crypto::secret("one")));
    BOOST_REQUIRE(tokens.save(crypto::secret("two")));
    BOOST_TEST(tokens.load().value()->text.view() == "two");
    BOOST_TEST(tokens.load().value()->in_place);
}

// A directory in the place of the temporary file keeps anything from being written.
BOOST_AUTO_TEST_CASE(tokens_that_the_state_directory_does_not_take_are_kept_aside)
{
    const fs::path aside = path("runtime");
    fs::create_directory(aside);
    const fs::path obstacle = path("private") / disk::temporary_name("tokens.json");
    const disk::token_file tokens(where, aside);
    const auto shown = [&] {
        const auto kept = tokens.load().value();
        return std::string(kept->text.view()) + (kept->in_place ? "" : " aside");
    };
    BOOST_REQUIRE(tokens.save(crypto::secret("one")));
    fs::create_directory(obstacle);
    const auto refused = tokens.save(crypto::secret("two"));
    BOOST_REQUIRE(!refused);
    BOOST_TEST(refused.error().context.find("kept in " + aside.string()) != std::string::npos);
    BOOST_TEST(shown() == "two aside");
    BOOST_TEST(!tokens.save(crypto::secret("three")));
    BOOST_TEST(shown() == "three aside");
    const auto kept = fs::directory_iterator(aside)->path();
    BOOST_TEST((fs::status(kept).permissions() == (fs::perms::owner_read | fs::perms::owner_write)));
    BOOST_TEST(disk::token_file(where).load().value()->text.view() == "one");

    // a kill between the writing of the one and the removal of the other
    fs::copy(kept, path("out-of-date"));
    fs::remove(obstacle);
    BOOST_REQUIRE(tokens.save(crypto::secret("four")));
    BOOST_TEST(fs::is_empty(aside));
    fs::copy(path("out-of-date"), kept);
    BOOST_TEST(shown() == "four");
}

BOOST_AUTO_TEST_CASE(tokens_are_kept_aside_when_there_were_none)
{
    fs::create_directory(path("runtime"));
    fs::create_directory(path("private") / disk::temporary_name("tokens.json"));
    const disk::token_file tokens(where, path("runtime"));
    BOOST_TEST(!tokens.save(crypto::secret("one")));
    BOOST_TEST(tokens.load().value()->text.view() == "one");
    BOOST_TEST(!disk::token_file(where, path("missing")).save(crypto::secret("two")));
    BOOST_TEST(!disk::token_file(where, path("missing")).load().value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
