#include "agent/disk/state_database.hpp"
#include "tests/agent/disk_support.hpp"
#include "tests/support/run_coroutine.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <csignal>
#include <fstream>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <thread>

// The private store: a commit is atomic and durable, and a database that cannot be used is never
// replaced.

namespace {

using namespace disk_test;
using policy::errc;

const policy::user_name siem = {"logs", "siem-forwarder"};
const policy::user_name audit = {"logs", "audit"};
const disk::installation here_on_web_01 = {.owner = "web-01", .machine = "aaaa"};
const std::string pem = "-----BEGIN PRIVATE KEY-----\n";

policy::instant at(std::int64_t seconds)
{
    return policy::instant(policy::duration(seconds));
}

// Runs SQL on the database directly, bypassing the store.
void tamper(const fs::path& database, const std::string& sql)
{
    sqlite3* handle = nullptr;
    BOOST_REQUIRE_EQUAL(sqlite3_open(database.c_str(), &handle), SQLITE_OK);
    BOOST_REQUIRE_EQUAL(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(handle);
}

struct store_fixture : scratch {
    store_fixture()
    {
        fs::create_directory(path("private"));
        fs::permissions(path("private"), fs::perms::owner_all);
        BOOST_REQUIRE(store.open());
    }

    disk::state_database other(disk::installation machine = here_on_web_01) const
    {
        return disk::state_database(where, {}, std::move(machine));
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

    policy::result<void> commit(disk::state_database& to, disk::change what)
    {
        return support::run_coroutine(context, to.commit(std::move(what)));
    }

    policy::result<void> save(const policy::stored_user& user)
    {
        disk::change what;
        what.users.push_back(user);
        return commit(store, std::move(what));
    }

    policy::result<void> save_key(const policy::stored_user& user, const std::string& id,
                                  const std::string& key = pem)
    {
        disk::change what;
        what.users.push_back(user);
        what.keys.push_back({user.name, id, crypto::secret(std::string_view(key)), "request of " + id});
        return commit(store, std::move(what));
    }

    policy::result<void> save_certificate(const policy::user_name& name, const std::string& id,
                                          const std::string& text)
    {
        disk::change what;
        what.certificates.push_back({name, id, text});
        return commit(store, std::move(what));
    }

    // A user with one generation, its key and its record on disk.
    policy::stored_user written(const policy::user_name& name, const std::string& id)
    {
        auto user = user_with(name, {id});
        BOOST_REQUIRE(save_key(user, id));
        return user;
    }

    policy::stored_state loaded() { return store.load().value(); }

    disk::paths where{temporary.path()};
    boost::asio::io_context context;  // outlives the writer thread
    disk::state_database store{where, {}, here_on_web_01};
};

// Sets every stored member of a record, so that a forgotten one is noticed.
policy::stored_user full_user()
{
    policy::stored_user user;
    user.name = siem;
    user.entry = {
        .retire_after = policy::duration(5),
        .directory = "/etc/siem",
        .hooks = {{.what = policy::hook::kind::restart, .unit = "a.service", .timeout = policy::duration(7)},
                  {.argv = {"/bin/x", "--quietly"}}}};
    policy::generation g{
        .id = "9f3c2a1b",
        .fingerprint = "ab",
        .where = {"https://les.example.com", policy::variant::health, "t", "i"},
        .sent = {"cn", "d", "c", "g", policy::key_type::ecdsa_p384, policy::csr_encoding::der},
        .created_at = at(1),
        .submitted_at = at(2),
        .answered = true,
        .remote_id = "r",
        .accepted_at = at(3)};
    g.certificate = {.serial = "0a",
                     .fingerprint = "cd",
                     .not_before = at(4),
                     .not_after = at(5),
                     .expiration_date = at(6)};
    g.collected_at = at(7);
    g.verified = policy::verification::broker;
    g.verified_at = at(8);
    g.published_at = at(9);
    g.deployed_at = at(10);
    g.missing_since = at(11);
    g.quarantine = "\xff is no UTF-8";
    g.abandoned = true;
    user.generations = {g, {.id = "00112233"}};
    user.current = "9f3c2a1b";
    user.previous = "00112233";
    user.files = {{.name = "key.pem",
                   .inode = ~0ULL,
                   .mtime_ns = -1,
                   .size = 3,
                   .mode = 0640,
                   .uid = 4,
                   .gid = 5,
                   .digest = "d"}};
    user.rendered = "f";
    user.creations = {at(12), at(13)};
    user.unwanted_since = at(14);
    user.rotate_asked_at = at(15);
    user.retire_now = true;
    user.held = "9f3c2a1b";
    user.deploy_reason = "due";
    user.failure = {.count = 2,
                    .code = errc::disk_full,
                    .kind = policy::retry::never,
                    .sentence = "s",
                    .last = at(16),
                    .next_attempt = at(17),
                    .wanted = "w"};
    user.deploy_failure = user.failure;
    user.clear_failure = user.failure;
    user.blocked = {.reason = "paused", .sentence = "why", .since = at(18)};
    return user;
}

BOOST_FIXTURE_TEST_SUITE(disk_store, store_fixture)

BOOST_AUTO_TEST_CASE(every_member_comes_back)
{
    auto user = full_user();
    disk::change what;
    what.users.push_back(user);
    for (const auto& g : user.generations) {
        what.keys.push_back({siem, g.id, crypto::secret(std::string_view(pem)), "csr"});
        what.certificates.push_back({siem, g.id, "-----BEGIN CERTIFICATE-----\n"});
    }
    policy::stored_exposure exposure{.name = "logs",
                                     .where = user.generations[0].where,
                                     .onboarding_since = at(1),
                                     .failure = user.failure,
                                     .blocked = user.blocked};
    what.exposures.push_back(exposure);
    const disk::credential_record credential{.wanted = "w",
                                             .updated_at = at(1),
                                             .fetched_at = at(2),
                                             .digest = "d",
                                             .hooks_pending = true,
                                             .failures = 3,
                                             .last_error = "e",
                                             .next_attempt = at(4)};
    what.credentials["backup"] = credential;
    what.values["full list"] = "12";
    const policy::history_event event{.at = at(5),
                                      .name = siem,
                                      .generation = "9f3c2a1b",
                                      .event = "issued",
                                      .detail = "d",
                                      .person = true,
                                      .by = "alice"};
    what.events.push_back(event);
    const policy::notify_memory notified{.cases = {{.what = policy::notify_case::hook,
                                                    .subject = "logs/siem",
                                                    .since = at(1),
                                                    .message = "m",
                                                    .remedy = "r",
                                                    .told_at = at(2)}},
                                         .sent = 2,
                                         .failed = 1,
                                         .failure = policy::failure_memory{.count = 1, .last = at(3)},
                                         .failing_since = at(3)};
    what.notified = notified;
    BOOST_REQUIRE(commit(store, std::move(what)));

    const auto state = loaded();
    BOOST_TEST(state.users.size() == 1u);
    BOOST_TEST((state.users.at(siem) == user));
    BOOST_TEST((state.exposures.at("logs") == exposure));
    BOOST_TEST((disk::state_database::load_credentials(where).at("backup") == credential));
    BOOST_TEST((disk::state_database::load_notifications(where) == notified));
    BOOST_TEST(store.read_value("full list").value().value() == "12");
    BOOST_TEST((store.history(at(5)).value() == std::vector{event}));
    BOOST_TEST(store.history(at(6)).value().empty());
    BOOST_TEST(store.read_key(siem, "9f3c2a1b").value().view() == pem);
    BOOST_TEST(store.read_csr(siem, "9f3c2a1b").value() == "csr");
    BOOST_TEST(store.read_certificate(siem, "00112233").value() == "-----BEGIN CERTIFICATE-----\n");
}

// Only settings that differ from their defaults, false and empty values included.
BOOST_AUTO_TEST_CASE(the_configuration_in_force_is_kept)
{
    policy::desired_state all{.owner = "web-01", .state_dir = "/srv/agent", .catalog_url = "https://c"};
    all.identity = {.auth_url = "https://login.example.com",
                    .client_id = "id",
                    .client_secret =
                        policy::secret_source{.from = policy::secret_source::origin::credential, .name = "s"},
                    .redirect_url = "http://localhost:8080",
                    .refresh_every = std::chrono::hours(12),
                    .publish_command = {"etcdctl", "put"}};
    all.network.proxy_auth = {.username = "agent", .password = {.name = "/p"}};
    all.reconcile.prune = false;
    all.reconcile.max_deletes = 0;
    all.notify.url = "https://hooks.example.com/x";
    all.metrics.listen = "127.0.0.1:9464";
    policy::desired_user user{.name = "siem", .consumer_group = "g", .key = policy::key_type::ed25519};
    user.rotation = {.renew_before = std::chrono::hours(5), .paused = true};
    user.output = {.directory = "/etc/siem",
                   .formats = {policy::file_format::java, policy::file_format::pkcs12},
                   .access = {.owner = "root", .mode = 0640}};
    user.hooks = {{.what = policy::hook::kind::restart, .unit = "vector.service"}};
    policy::desired_user other = user;
    other.rotation.renew_before = policy::percent{20};
    policy::desired_exposure logs{.name = "logs", .group = policy::business_group{.id = "1", .name = "n"}};
    logs.create_instance = false;
    logs.group_fields = policy::group_fields::space;
    logs.users = {user, other};
    all.exposures = {logs};
    all.credentials = {{.name = "backup", .elements = {{"access_key", "provider-accessKeyID"}}}};

    BOOST_TEST(!store.last_configuration().value());
    const auto keep = [&](const policy::desired_state& desired) {
        return support::run_coroutine(
            store.keep_configuration(std::make_shared<const policy::desired_state>(desired)));
    };
    BOOST_REQUIRE(keep(all));
    BOOST_TEST((store.last_configuration().value() == all));
    const auto written = store.transactions();
    BOOST_REQUIRE(keep(all));
    BOOST_TEST(store.transactions() == written);
    BOOST_REQUIRE(keep(policy::desired_state{}));
    BOOST_TEST((store.last_configuration().value() == policy::desired_state{}));
}

BOOST_AUTO_TEST_CASE(nothing_was_ever_saved)
{
    const auto state = loaded();
    BOOST_TEST(state.users.empty());
    BOOST_TEST(state.exposures.empty());
    BOOST_TEST(state.owner == "web-01");
    BOOST_TEST(!state.cloned);
    BOOST_TEST((disk::state_database::load_notifications(where) == policy::notify_memory()));
    BOOST_TEST(!store.read_value("never").value());
    const disk::state_database nowhere(disk::paths(path("nowhere")), {}, here_on_web_01);
    BOOST_TEST(!nowhere.load_tokens().value());
    BOOST_TEST(!fs::exists(path("nowhere")));
}

BOOST_AUTO_TEST_CASE(everything_is_for_the_owner_alone)
{
    written(siem, "9f3c2a1b");
    BOOST_REQUIRE(store.save_tokens(crypto::secret("token")));
    BOOST_REQUIRE(store.make_room_now());
    int seen = 0;
    for (const auto& entry : fs::directory_iterator(path("private"))) {
        BOOST_TEST(static_cast<unsigned>(entry.symlink_status().permissions()) == 0600u,
                   entry.path().string());
        ++seen;
    }
    BOOST_TEST(seen == 4);  // state.db, its log and index, the reserve
}

BOOST_AUTO_TEST_CASE(a_reader_sees_what_was_committed_while_the_writer_is_open)
{
    written(siem, "9f3c2a1b");
    auto reader = other();
    BOOST_TEST(reader.load().value().users.size() == 1u);
    written(audit, "00112233");
    BOOST_TEST(reader.load().value().users.size() == 2u);
}

BOOST_AUTO_TEST_CASE(changes_that_are_ready_together_share_transactions)
{
    int stored = 0;
    for (int number = 0; number < 50; ++number)
        boost::asio::co_spawn(
            context,
            [](store_fixture& f, int n, int& count) -> io::awaitable<void> {
                for (int step = 0; step < 4; ++step) {
                    auto user = f.user_with({"logs", "user-" + std::to_string(n)}, {"9f3c2a1b"});
                    user.deploy_reason = std::to_string(step);
                    disk::change what;
                    what.users.push_back(std::move(user));
                    const auto done = co_await f.store.commit(std::move(what));
                    if (done) ++count;
                }
            }(*this, number, stored),
            boost::asio::detached);
    context.run();
    BOOST_TEST(stored == 200);
    BOOST_TEST(store.transactions() < 100);
    for (const auto& [name, user] : loaded().users)
        BOOST_TEST(user.deploy_reason == "3");
}

BOOST_AUTO_TEST_CASE(a_change_that_cannot_be_stored_takes_no_other_with_it)
{
    std::optional<policy::result<void>> good, bad;
    const auto start = [&](disk::change what, std::optional<policy::result<void>>& into) {
        boost::asio::co_spawn(
            context,
            [](store_fixture& f, disk::change c,
               std::optional<policy::result<void>>& r) -> io::awaitable<void> {
                r = co_await f.store.commit(std::move(c));
            }(*this, std::move(what), into),
            boost::asio::detached);
    };
    disk::change keyless;  // has a key for a user without a record
    keyless.keys.push_back({siem, "9f3c2a1b", crypto::secret("k"), "r"});
    disk::change fine;
    fine.users.push_back(user_with(audit, {"00112233"}));
    start(std::move(keyless), bad);
    start(std::move(fine), good);
    context.run();
    check_failure(*bad, errc::disk);
    BOOST_TEST(bool(*good));
    BOOST_TEST(loaded().users.contains(audit));
    BOOST_TEST(!loaded().users.contains(siem));
}

BOOST_AUTO_TEST_CASE(damage_is_a_lost_generation)
{
    written(siem, "9f3c2a1b");
    written(audit, "00112233");
    auto user = user_with(siem, {"9f3c2a1b", "00000001", "00000002"});
    user.generations[2].certificate.emplace();
    BOOST_REQUIRE(save(user));                  // 00000001 has no key
    BOOST_REQUIRE(save_key(user, "00000002"));  // its certificate is missing
    BOOST_REQUIRE(save_key(user_with(audit, {"00112233"}), "00112233", std::string(200, '\0')));
    auto state = loaded();
    BOOST_TEST(state.users.at(siem).generations.at(0).key_on_disk);
    BOOST_TEST(!state.users.at(siem).generations.at(1).key_on_disk);
    BOOST_TEST(!state.users.at(siem).generations.at(2).key_on_disk);
    BOOST_TEST(!state.users.at(audit).generations.at(0).key_on_disk);
    BOOST_REQUIRE(save_certificate(siem, "00000002", std::string(200, '\0')));
    BOOST_TEST(!loaded().users.at(siem).generations.at(2).key_on_disk);
    BOOST_REQUIRE(save_certificate(siem, "00000002", "-----BEGIN CERTIFICATE-----"));
    state = loaded();
    BOOST_TEST(state.users.at(siem).generations.at(2).key_on_disk);
}

BOOST_AUTO_TEST_CASE(a_damaged_record_is_a_new_user_and_nobody_elses_business)
{
    for (const char* content :
         {"{", "", R"({"current":1})", R"({"name":{"exposure":"logs","user":"audit"}})",
          R"({"name":{"exposure":"logs","user":"siem-forwarder"},"generations":[{"id":"../x"}]})"}) {
        BOOST_TEST_CONTEXT(content)
        {
            written(siem, "9f3c2a1b");
            written(audit, "00112233");
            tamper(where.database(),
                   std::string("UPDATE users SET record = '") + content + "' WHERE user = 'siem-forwarder'");
            BOOST_TEST(!loaded().users.contains(siem));
            BOOST_TEST(loaded().users.contains(audit));
            written(siem, "00000001");
            BOOST_TEST(loaded().users.at(siem).generations.size() == 1u);
            check_failure(store.read_key(siem, "9f3c2a1b"), errc::disk);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_generation_comes_and_goes)
{
    written(siem, "00000001");
    BOOST_REQUIRE(save_certificate(siem, "00000001", "one"));
    BOOST_REQUIRE(save_certificate(siem, "00000001", "two"));
    BOOST_TEST(store.read_certificate(siem, "00000001").value() == "two");
    check_failure(store.read_certificate(siem, "00000002"), errc::disk);
    // the same transaction deletes the keys of generations that the record no longer names
    BOOST_REQUIRE(save_key(user_with(siem, {"00000002"}), "00000002"));
    check_failure(store.read_certificate(siem, "00000001"), errc::disk);
    check_failure(store.read_key(siem, "00000001"), errc::disk);
    BOOST_TEST(store.read_key(siem, "00000002").value().view() == pem);

    for (int times = 0; times < 2; ++times) {
        disk::change what;
        what.forgotten.push_back(siem);
        BOOST_REQUIRE(commit(store, std::move(what)));
    }
    BOOST_TEST(loaded().users.empty());
    check_failure(store.read_key(siem, "00000002"), errc::disk);
}

BOOST_AUTO_TEST_CASE(history_is_kept_for_two_years)
{
    constexpr std::int64_t day = 86400;
    for (const std::int64_t days : {0, 729, 732}) {
        disk::change what;
        what.events.push_back({.at = at(days * day), .name = siem, .event = std::to_string(days)});
        BOOST_REQUIRE(commit(store, std::move(what)));
    }
    const auto kept = store.history(at(0)).value();
    BOOST_TEST(kept.size() == 2u);
    BOOST_TEST(kept.at(0).event == "729");
    BOOST_TEST(kept.at(1).event == "732");
}

BOOST_AUTO_TEST_CASE(a_database_that_cannot_be_used_stops_the_agent_and_is_left_alone)
{
    struct row {
        const char* what;
        std::function<void(const fs::path&)> damage;
        const char* says;
    };
    const row rows[] = {
        {"empty", [](const fs::path& p) { std::ofstream(p, std::ios::trunc); }, "is damaged"},
        {"zeros", [](const fs::path& p) { std::ofstream(p) << std::string(20000, '\0'); }, "is damaged"},
        {"not one",
         [](const fs::path& p) {
             std::ofstream(p) << "something else, and long enough to be looked at" << std::string(600, 'x');
         },
         "is damaged"},
        {"cut off", [](const fs::path& p) { fs::resize_file(p, 4096); }, "is damaged"},
        {"newer", [](const fs::path& p) { tamper(p, "PRAGMA user_version=99"); }, "newer exposure-agent"},
        {"somebody's", [](const fs::path& p) { tamper(p, "PRAGMA user_version=0"); },
         "not a state database"}};
    for (const auto& [what, damage, says] : rows) {
        BOOST_TEST_CONTEXT(what)
        {
            scratch s;
            fs::create_directory(s.path("private"));
            const disk::paths there(s.temporary.path());
            {
                disk::state_database first(there, {}, here_on_web_01);
                BOOST_REQUIRE(first.open());
                disk::change c;
                c.users.push_back(user_with(siem, {"9f3c2a1b"}));
                BOOST_REQUIRE(commit(first, std::move(c)));
            }
            damage(there.database());
            const auto before = s.get("private/state.db");
            disk::state_database again(there, {}, here_on_web_01);
            const auto opened = again.open();
            const auto seen = opened ? again.load() : policy::result<policy::stored_state>(opened.error());
            const auto read = disk::state_database(there, {}, here_on_web_01).load();
            for (const auto& failed :
                 {seen ? policy::failure{} : seen.error(), read ? policy::failure{} : read.error()}) {
                BOOST_TEST((failed.code == errc::disk));
                BOOST_TEST((failed.kind == policy::retry::never));
                BOOST_TEST(failed.context.find(says) != std::string::npos, failed.context);
                BOOST_TEST(failed.context.find("backup") != std::string::npos, failed.context);
                BOOST_TEST(failed.context.find(there.database().string()) != std::string::npos,
                           failed.context);
            }
            BOOST_TEST((s.get("private/state.db") == before));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_log_without_its_database_is_not_replayed_into_a_new_one)
{
    fs::create_directory(path("other"));
    fs::permissions(path("other"), fs::perms::owner_all);
    fs::create_directory(path("other/private"));
    put("other/private/state.db-wal", "what a crash left");
    disk::state_database second(disk::paths(path("other")), {}, here_on_web_01);
    const auto opened = second.open();
    check_failure(opened, errc::disk);
    BOOST_TEST(opened.error().context.find("state.db-wal") != std::string::npos);
    BOOST_TEST(!fs::exists(path("other/private/state.db")));
}

BOOST_AUTO_TEST_CASE(a_half_made_database_of_a_killed_first_start_is_made_again)
{
    fs::create_directory(path("other"));
    fs::permissions(path("other"), fs::perms::owner_all);
    fs::create_directory(path("other/private"));
    put("other/private/" + disk::temporary_name("state.db"), "half");
    put("other/private/" + disk::temporary_name("state.db") + "-journal", "half");
    disk::state_database second(disk::paths(path("other")), {}, here_on_web_01);
    BOOST_REQUIRE(second.open());
    BOOST_TEST(second.load().value().users.empty());
}

BOOST_AUTO_TEST_CASE(a_state_directory_that_is_gone_is_said_at_once)
{
    written(siem, "9f3c2a1b");
    fs::remove_all(path("private"));
    const auto saved = save(user_with(siem, {"9f3c2a1b"}));
    check_failure(saved, errc::disk);
    BOOST_TEST(saved.error().context.find("removed or replaced") != std::string::npos, saved.error().context);
    check_failure(store.make_room_now(), errc::disk);
    BOOST_TEST(!fs::exists(path("private")));
}

BOOST_AUTO_TEST_CASE(the_first_start_is_remembered)
{
    auto renamed = other({.owner = "web-02", .machine = "aaaa"});
    BOOST_TEST(renamed.load().value().owner == "web-01");
    BOOST_TEST(!renamed.load().value().cloned);
}

BOOST_AUTO_TEST_CASE(a_copy_on_another_machine_waits_for_takeover)
{
    written(siem, "9f3c2a1b");
    auto copy = other({.owner = "web-02", .machine = "bbbb"});
    BOOST_REQUIRE(copy.open());
    BOOST_TEST(copy.load().value().cloned);
    BOOST_REQUIRE(copy.take_over());
    BOOST_TEST(!copy.load().value().cloned);
    BOOST_TEST(copy.load().value().owner == "web-01");
    BOOST_TEST(loaded().cloned);  // the old machine now holds the copy
}

BOOST_AUTO_TEST_CASE(a_machine_without_an_id_is_nobodys_copy)
{
    BOOST_TEST(!other({.owner = "web-01", .machine = ""}).load().value().cloned);
}

BOOST_AUTO_TEST_CASE(users_without_the_record_of_whose_they_are_wait_for_takeover)
{
    written(siem, "9f3c2a1b");
    tamper(where.database(), "DELETE FROM kept WHERE name = 'installation'");
    BOOST_TEST(loaded().cloned);
    BOOST_REQUIRE(store.take_over());
    BOOST_TEST(!loaded().cloned);
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
    small.rlim_cur = static_cast<rlim_t>(fs::file_size(path("private/state.db-wal"))) + (1 << 14);
    setrlimit(RLIMIT_FSIZE, &small);
    const auto saved = save(bigger);
    const auto key =
        save_key(user_with(siem, {"9f3c2a1b", "00000001"}), "00000001", std::string(1 << 16, 'k'));
    setrlimit(RLIMIT_FSIZE, &before);

    check_failure(saved, errc::disk_full);
    check_failure(key, errc::disk_full);
    BOOST_TEST((loaded().users.at(siem) == user));
    BOOST_REQUIRE(save(bigger));
    BOOST_REQUIRE(save_key(user_with(siem, {"00000001"}), "00000001"));
}

// A small tmpfs; tests that need it are reported as skipped if it cannot be mounted.
struct small_disk : scratch {
    small_disk()
    {
        fs::create_directory(path("small"));
        mounted = geteuid() == 0 && mount("none", path("small").c_str(), "tmpfs", 0, "size=1m") == 0;
        if (!mounted)
            BOOST_TEST_MESSAGE("skipped: " << boost::unit_test::framework::current_test_case().p_name
                                           << ", because nothing can be mounted here");
        if (mounted) fs::create_directory(path("small/private"));
    }
    ~small_disk()
    {
        if (mounted) umount2(path("small").c_str(), MNT_DETACH);
    }
    void fill(const std::string& name) const { put("small/" + name, std::string(1 << 20, 'x')); }

    bool mounted = false;
};

BOOST_AUTO_TEST_CASE(an_answer_finds_room_on_a_disk_that_filled_up)
{
    const small_disk s;
    if (!s.mounted) return;
    const disk::paths there(s.path("small"));
    disk::state_database full(there, {}, here_on_web_01);
    BOOST_REQUIRE(full.open());
    BOOST_TEST(bool(full.make_room_now()));
    s.fill("of-others");
    BOOST_TEST(bool(full.make_room_now()));
    BOOST_TEST(bool(full.save_tokens(crypto::secret(std::string(1 << 17, 'a')))));
    BOOST_TEST(full.load_tokens().value()->text.view().size() == std::size_t(1) << 17);
    s.fill("more-of-others");
    check_failure(full.make_room_now(), errc::disk_full);
    check_failure(disk::has_room(there), errc::disk_full);
}

// The first save releases the reserved space, and the second must benefit from it as well.
BOOST_AUTO_TEST_CASE(two_saves_that_meet_a_full_disk_find_room)
{
    const small_disk s;
    if (!s.mounted) return;
    disk::state_database full(disk::paths(s.path("small")), {}, here_on_web_01);
    BOOST_REQUIRE(full.open());
    BOOST_TEST(bool(full.make_room_now()));
    s.fill("of-others");
    disk::change what;
    what.users.push_back(user_with(siem, {"9f3c2a1b"}));
    what.users.back().deploy_reason = std::string(1 << 16, 'x');
    bool tokens_saved = false;
    std::thread tokens(
        [&] { tokens_saved = bool(full.save_tokens(crypto::secret(std::string(1 << 16, 'a')))); });
    const bool user_saved = bool(commit(full, std::move(what)));
    tokens.join();
    BOOST_TEST(tokens_saved);
    BOOST_TEST(user_saved);
}

BOOST_AUTO_TEST_CASE(a_full_or_read_only_disk_can_be_read)
{
    const small_disk s;
    if (!s.mounted) return;
    const disk::paths there(s.path("small"));
    {
        disk::state_database first(there, {}, here_on_web_01);
        BOOST_REQUIRE(first.open());
        disk::change what;
        what.users.push_back(user_with(siem, {"9f3c2a1b"}));
        BOOST_REQUIRE(commit(first, std::move(what)));
    }
    s.fill("of-others");
    BOOST_TEST(disk::state_database(there, {}, here_on_web_01).load().value().users.size() == 1u);
    BOOST_REQUIRE_EQUAL(mount("none", s.path("small").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    BOOST_TEST(disk::state_database(there, {}, here_on_web_01).load().value().users.size() == 1u);
    disk::state_database writer(there, {}, here_on_web_01);
    const auto opened = writer.open();
    check_failure(opened, errc::disk);
    BOOST_TEST(opened.error().context.find("Read-only file system") != std::string::npos,
               opened.error().context);
}

BOOST_AUTO_TEST_CASE(tokens_are_kept)
{
    BOOST_TEST(!store.load_tokens().value());
    BOOST_REQUIRE(store.save_tokens(crypto::secret("one")));
    BOOST_REQUIRE(store.save_tokens(crypto::secret("two")));
    BOOST_TEST(store.load_tokens().value()->text.view() == "two");
    BOOST_TEST(store.load_tokens().value()->in_place);
}

std::string shown(const disk::state_database& from)
{
    const auto kept = from.load_tokens().value();
    return kept ? std::string(kept->text.view()) + (kept->in_place ? "" : " aside") : "none";
}

BOOST_AUTO_TEST_CASE(tokens_that_a_full_disk_refuses_are_kept_aside)
{
    const small_disk s;
    if (!s.mounted) return;
    const fs::path aside = path("runtime");
    fs::create_directory(aside);
    const disk::paths there(s.path("small"));
    disk::state_database full(there, aside, here_on_web_01);
    BOOST_REQUIRE(full.open());
    BOOST_REQUIRE(full.save_tokens(crypto::secret("one")));
    const std::string big(1 << 17, 'b');
    s.fill("of-others");
    const auto refused = full.save_tokens(crypto::secret(std::string_view(big)));
    BOOST_REQUIRE(!refused);
    BOOST_TEST(refused.error().context.find("kept in " + aside.string()) != std::string::npos);
    BOOST_TEST((shown(full) == big + " aside"));
    const auto kept = fs::directory_iterator(aside)->path();
    BOOST_TEST((fs::status(kept).permissions() == (fs::perms::owner_read | fs::perms::owner_write)));
    BOOST_TEST(shown(disk::state_database(there, {}, here_on_web_01)) == "one");

    // a file that somebody else could have written is not accepted as a token
    fs::permissions(kept, fs::perms::owner_read | fs::perms::others_read);
    BOOST_TEST(shown(full) == "one");
    fs::permissions(kept, fs::perms::owner_read | fs::perms::owner_write);
    fs::copy(kept, path("planted"));
    if (chown(kept.c_str(), 65534, 65534) == 0) BOOST_TEST(shown(full) == "one");
    fs::remove(kept);
    fs::copy(path("planted"), kept);

    // as if killed after writing the new file and before removing the old one
    fs::remove(s.path("small/of-others"));
    BOOST_REQUIRE(full.save_tokens(crypto::secret("four")));
    BOOST_TEST(fs::is_empty(aside));
    fs::copy(path("planted"), kept);
    BOOST_TEST(shown(full) == "four");
}

BOOST_AUTO_TEST_CASE(tokens_without_a_second_place_are_lost_with_a_sentence)
{
    fs::remove_all(path("private"));
    fs::create_directory(path("runtime"));
    disk::state_database lost(where, path("runtime"), here_on_web_01);
    BOOST_TEST(!lost.save_tokens(crypto::secret("one")));  // the database was never opened
    BOOST_TEST(shown(lost) == "one aside");
    BOOST_TEST(
        !disk::state_database(where, path("missing"), here_on_web_01).save_tokens(crypto::secret("two")));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
