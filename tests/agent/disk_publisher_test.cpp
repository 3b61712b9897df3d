#include "agent/disk/renderings.hpp"
#include "crypto/certificate.hpp"
#include "tests/agent/disk_publication.hpp"
#include "tests/support/each_change.hpp"
#include "tests/support/pkcs12.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <fcntl.h>
#include <functional>
#include <sys/xattr.h>
#include <thread>

// The published directory: what it contains, when that changes, and whose files are never modified.

namespace {

using namespace disk_test;
using policy::errc;

const std::set<std::string> pem_files = {"key.pem", "cert.pem", "chain.pem", "fullchain.pem"};
const std::set<file_format> every_format = {file_format::pem, file_format::bundle, file_format::pkcs12,
                                            file_format::java, file_format::librdkafka};

BOOST_FIXTURE_TEST_SUITE(disk_publisher, publication_fixture)

BOOST_AUTO_TEST_CASE(each_format_has_its_files)
{
    struct row {
        file_format format;
        std::set<std::string> adds;
    };
    const row rows[] = {{file_format::pem, {}},
                        {file_format::bundle, {"bundle.pem"}},
                        {file_format::pkcs12, {"client.p12"}},
                        {file_format::java, {"bundle.pem", "ca.pem", "client.properties"}},
                        {file_format::librdkafka, {"ca.pem", "librdkafka.conf"}}};
    output.password_file = path("password");
    const auto pair = issue();
    for (const auto& [format, adds] : rows) {  // each format replaces the previous one
        output.formats = {format};
        publish(pair);
        auto expected = pem_files;
        expected.insert(adds.begin(), adds.end());
        BOOST_TEST(names("tls/current") == expected, boost::test_tools::per_element());
        BOOST_TEST((inspected() == output_condition::sound), user.output_detail);
    }
}

BOOST_AUTO_TEST_CASE(the_files_say_what_the_contract_says)
{
    output.formats = {file_format::java, file_format::librdkafka};
    const auto pair = issue();
    publish(pair);
    BOOST_TEST(get(current("key.pem")) == pair.key);
    BOOST_TEST(get(current("cert.pem")) == pair.leaf);
    BOOST_TEST(get(current("chain.pem")) == pair.chain);
    BOOST_TEST(get(current("fullchain.pem")) == pair.fullchain());
    BOOST_TEST(get(current("bundle.pem")) == pair.key + pair.fullchain());
    BOOST_TEST(get(current("ca.pem")) == "the broker's authority\n");
    const std::string at = output.directory + "/current/";
    BOOST_TEST(get(current("client.properties")) ==
               "bootstrap.servers=broker.example.com:9093\n"
               "security.protocol=SSL\n"
               "group.id=siem\n"
               "ssl.keystore.type=PEM\n"
               "ssl.keystore.location=" +
                   at +
                   "bundle.pem\n"
                   "ssl.truststore.type=PEM\n"
                   "ssl.truststore.location=" +
                   at + "ca.pem\n");
    BOOST_TEST(get(current("librdkafka.conf")) ==
               "bootstrap.servers=broker.example.com:9093\n"
               "security.protocol=ssl\n"
               "group.id=siem\n"
               "ssl.certificate.location=" +
                   at +
                   "fullchain.pem\n"
                   "ssl.key.location=" +
                   at +
                   "key.pem\n"
                   "ssl.ca.location=" +
                   at + "ca.pem\n");
}

BOOST_AUTO_TEST_CASE(without_a_broker_nothing_is_said_of_it)
{
    output.formats = {file_format::java, file_format::librdkafka};
    auto what = publication_of(issue());
    what.broker.clear();
    what.broker_ca_file.reset();
    BOOST_REQUIRE(disk::file_publisher().publish(what));
    BOOST_TEST(!fs::exists(path(current("ca.pem"))));
    for (const char* name : {"client.properties", "librdkafka.conf"}) {
        const auto text = get(current(name));
        for (const char* absent : {"bootstrap", "truststore", "ssl.ca"})
            BOOST_TEST(text.find(absent) == std::string::npos, text);
    }
}

BOOST_AUTO_TEST_CASE(a_certificate_alone_has_an_empty_chain)
{
    auto pair = issue();
    pair.chain.clear();
    publish(pair);
    BOOST_TEST(get(current("chain.pem")) == "");
    BOOST_TEST(get(current("fullchain.pem")) == pair.leaf);
}

BOOST_AUTO_TEST_CASE(pkcs12_opens_with_the_first_line_of_its_password_file)
{
    output.formats = {file_format::pkcs12};
    output.password_file = path("password");
    put("password", "not-a-real-password\r\nsecond line");
    const auto pair = issue();
    publish(pair);
    const auto parsed = disk::pair_of(publication_of(pair)).value();
    BOOST_TEST(test_support::is_pkcs12_of(get(current("client.p12")), crypto::secret("not-a-real-password"),
                                          parsed.key, parsed.chain));
}

BOOST_DATA_TEST_CASE_F(publication_fixture, modes_are_exact_under_any_umask,
                       boost::unit_test::data::make({0, 077}) *
                           boost::unit_test::data::make({0600, 0640, 0440}),
                       mask, secret_mode)
{
    umask(static_cast<mode_t>(mask));
    output.formats = every_format;
    output.password_file = path("password");
    output.access.mode = static_cast<unsigned>(secret_mode);
    output.directory = path("tls/below");
    publish(issue());
    BOOST_TEST(mode("tls") == 0755u);
    BOOST_TEST(mode("tls/below") == 0755u);
    BOOST_TEST(mode("tls/below/" + user.current) == 0755u);
    for (const auto& name : names("tls/below/current")) {
        const bool secret = name == "key.pem" || name == "bundle.pem" || name == "client.p12";
        BOOST_TEST(mode("tls/below/current/" + name) == (secret ? output.access.mode : 0644u), name);
    }
}

BOOST_AUTO_TEST_CASE(a_second_publication_touches_nothing)
{
    output.formats = every_format;
    output.password_file = path("password");
    const auto pair = issue();
    publish(pair);
    const auto before = stamps();
    const auto link = look("tls/current").st_ino;
    const auto files = user.files;
    publish(pair);
    BOOST_TEST((stamps() == before));
    BOOST_TEST(look("tls/current").st_ino == link);
    BOOST_TEST((user.files == files));
    BOOST_TEST((inspected() == output_condition::sound), user.output_detail);
}

BOOST_AUTO_TEST_CASE(each_damage_is_seen_and_repaired_and_the_rest_left_alone)
{
    struct row {
        const char* what;
        std::string file;
        std::function<void(const fs::path&)> harm;
    };
    const auto write = [](const char* text) {
        return [text](const fs::path& file) { std::ofstream(file) << text; };
    };
    const auto remove = [](const fs::path& file) { fs::remove(file); };
    const auto loosen = [](const fs::path& file) { fs::permissions(file, fs::perms(0666)); };
    const auto tighten = [](const fs::path& file) { fs::permissions(file, fs::perms::none); };
    const auto cut = [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); };
    const row rows[] = {{"key removed", "key.pem", remove},
                        {"key loosened", "key.pem", loosen},
                        {"key shut", "key.pem", tighten},
                        {"key cut", "key.pem", cut},
                        {"certificate overwritten", "cert.pem", write("nothing")},
                        {"chain removed", "chain.pem", remove},
                        {"full chain emptied", "fullchain.pem", write("")},
                        {"bundle removed", "bundle.pem", remove},
                        {"CA overwritten", "ca.pem", write("another authority\n")},
                        {"properties loosened", "client.properties", loosen},
                        {"conf overwritten", "librdkafka.conf", write("security.protocol=plaintext\n")},
                        {"PKCS#12 removed", "client.p12", remove},
                        {"PKCS#12 cut", "client.p12", cut},
                        {"PKCS#12 loosened", "client.p12", loosen}};
    output.formats = every_format;
    output.password_file = path("password");
    const auto pair = issue();
    publish(pair);
    for (const auto& [what, file, harm] : rows) {
        BOOST_TEST_CONTEXT(what)
        {
            auto before = stamps();
            harm(path(current(file)));
            BOOST_TEST((inspected() == output_condition::damaged));
            BOOST_TEST(user.output_detail.find(file) != std::string::npos, user.output_detail);

            publish(pair);
            BOOST_TEST((inspected() == output_condition::sound), user.output_detail);
            auto after = stamps();
            BOOST_TEST(after.size() == before.size());
            before.erase(file);
            after.erase(file);
            BOOST_TEST((after == before));
        }
    }
    BOOST_TEST(get(current("key.pem")) == pair.key);
    BOOST_TEST(get(current("ca.pem")) == "the broker's authority\n");
}

BOOST_AUTO_TEST_CASE(a_loosened_directory_is_put_right)
{
    const auto pair = issue();
    publish(pair);
    fs::permissions(path("tls/" + pair.generation), fs::perms(0777));
    BOOST_TEST((inspected() == output_condition::damaged));
    publish(pair);
    BOOST_TEST((inspected() == output_condition::sound));
    BOOST_TEST(mode("tls/" + pair.generation) == 0755u);
}

// The user namespace of the sandboxed daemon may not map the group of a file; `status`, run as root, sees the
// real one.
BOOST_AUTO_TEST_CASE(a_group_recorded_in_a_user_namespace_is_no_difference)
{
    constexpr unsigned unmapped = 0xffff'ffff;
    publish(issue());
    for (auto& file : user.files)
        file.gid = unmapped;
    BOOST_TEST((inspected() == output_condition::sound), user.output_detail);
    for (auto& file : user.files)
        file.gid = getegid() + 1;
    BOOST_TEST((inspected() == output_condition::damaged));
}

BOOST_AUTO_TEST_CASE(what_is_gone_altogether_is_missing)
{
    const auto pair = issue();
    BOOST_TEST((inspected() == output_condition::missing));
    publish(pair);
    fs::remove(path("tls/current"));
    BOOST_TEST((inspected() == output_condition::missing));
    publish(pair);
    BOOST_TEST((inspected() == output_condition::sound));
    fs::remove_all(path("tls"));
    BOOST_TEST((inspected() == output_condition::missing));
    publish(pair);
    fs::remove_all(path("tls/" + pair.generation));
    BOOST_TEST((inspected() == output_condition::damaged));
    publish(pair);
    BOOST_TEST((inspected() == output_condition::sound));
}

BOOST_AUTO_TEST_CASE(another_password_or_authority_remakes_its_file_alone)
{
    output.formats = every_format;
    output.password_file = path("password");
    const auto pair = issue();
    publish(pair);
    auto before = stamps();
    put("password", "another-password\n");
    put("broker-ca.pem", "another authority\n");
    publish(pair);
    auto after = stamps();
    for (const char* remade : {"client.p12", "ca.pem"}) {
        BOOST_TEST(before[remade].first != after[remade].first, remade);
        before.erase(remade);
        after.erase(remade);
    }
    BOOST_TEST((before == after));
    BOOST_TEST(get(current("ca.pem")) == "another authority\n");
}

BOOST_AUTO_TEST_CASE(one_generation_before_is_kept)
{
    const auto one = issue();
    const auto two = issue();
    const auto three = issue();
    publish(one);
    keep = one.generation;
    publish(two);
    BOOST_TEST(fs::read_symlink(path("tls/current")) == two.generation);
    BOOST_TEST(get("tls/" + one.generation + "/key.pem") == one.key);
    keep = two.generation;
    publish(three);
    const std::set<std::string> left = {"current", two.generation, three.generation};
    BOOST_TEST(names("tls") == left, boost::test_tools::per_element());

    keep = three.generation;  // roll back
    const auto inode = look("tls/" + two.generation + "/key.pem").st_ino;
    publish(two);
    BOOST_TEST(fs::read_symlink(path("tls/current")) == two.generation);
    BOOST_TEST(look(current("key.pem")).st_ino == inode);
    BOOST_TEST(get("tls/" + three.generation + "/key.pem") == three.key);
}

BOOST_AUTO_TEST_CASE(what_others_put_there_stays)
{
    const auto one = issue();
    const auto two = issue();
    publish(one);
    put("tls/README", "theirs");
    put("tls/" + one.generation + "/notes", "theirs");
    fs::create_directory(path("tls/backup"));
    BOOST_TEST((inspected() == output_condition::sound), user.output_detail);
    publish(one);
    publish(two);
    const std::set<std::string> left = {"current", two.generation, one.generation, "README", "backup"};
    BOOST_TEST(names("tls") == left, boost::test_tools::per_element());
    const std::set<std::string> notes = {"notes"};
    BOOST_TEST(names("tls/" + one.generation) == notes, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_link_or_a_foreign_file_in_the_way_is_refused_and_left_alone)
{
    struct row {
        const char* what;
        std::function<void(const issued&)> obstruct;
        std::function<bool(const issued&)> untouched;
        bool published_before;
    };
    const auto is_link = [this](const std::string& name) { return fs::is_symlink(path(name)); };
    const row rows[] = {
        {"directory is a link",
         [this](auto&) {
             fs::create_directory(path("elsewhere"));
             fs::create_symlink("elsewhere", path("tls"));
         },
         [&](auto&) { return is_link("tls") && fs::is_empty(path("elsewhere")); }, false},
        {"directory is a file", [this](auto&) { put("tls", "theirs"); },
         [this](auto&) { return get("tls") == "theirs"; }, false},
        {"current is a file",
         [this](auto&) {
             fs::create_directory(path("tls"));
             put("tls/current", "theirs");
         },
         [this](auto&) { return get("tls/current") == "theirs"; }, false},
        {"current is a directory", [this](auto&) { fs::create_directories(path("tls/current")); },
         [this](auto&) { return fs::is_directory(fs::symlink_status(path("tls/current"))); }, false},
        {"current leads elsewhere",
         [this](auto&) {
             fs::create_directories(path("tls"));
             fs::create_directory(path("elsewhere"));
             fs::create_symlink("../elsewhere", path("tls/current"));
         },
         [this](auto&) { return fs::read_symlink(path("tls/current")) == "../elsewhere"; }, false},
        {"generation is a link",
         [this](auto& pair) {
             fs::remove_all(path("tls/" + pair.generation));
             fs::create_directory(path("elsewhere"));
             fs::create_symlink("../elsewhere", path("tls/" + pair.generation));
         },
         [&](auto& pair) { return is_link("tls/" + pair.generation) && fs::is_empty(path("elsewhere")); },
         true},
        {"key is a link",
         [this](auto& pair) {
             fs::remove(path("tls/" + pair.generation + "/key.pem"));
             put("elsewhere", "theirs");
             fs::create_symlink(path("elsewhere"), path("tls/" + pair.generation + "/key.pem"));
         },
         [&](auto& pair) {
             return is_link("tls/" + pair.generation + "/key.pem") && get("elsewhere") == "theirs";
         },
         true},
        {"key is a directory",
         [this](auto& pair) {
             fs::remove(path("tls/" + pair.generation + "/key.pem"));
             fs::create_directory(path("tls/" + pair.generation + "/key.pem"));
         },
         [this](auto& pair) { return fs::is_directory(path("tls/" + pair.generation + "/key.pem")); }, true}};
    const auto pair = issue();
    for (const auto& [what, obstruct, untouched, published_before] : rows) {
        BOOST_TEST_CONTEXT(what)
        {
            fs::remove_all(path("tls"));
            fs::remove_all(path("elsewhere"));
            if (published_before) publish(pair);
            obstruct(pair);
            const auto refused = disk::file_publisher().publish(publication_of(pair));
            check_failure(refused, errc::foreign_file);
            BOOST_TEST(refused.error().context.find(output.directory) != std::string::npos);
            BOOST_TEST(refused.error().context.find("move it away") != std::string::npos,
                       refused.error().context);
            BOOST_TEST(untouched(pair));
            user.current = pair.generation;
            BOOST_TEST((inspected() == output_condition::foreign), user.output_detail);
        }
    }
}

// ---- hostile receivers

// By swapping two names in a loop, a receiver could otherwise obtain a file that belongs to root.
BOOST_AUTO_TEST_CASE(what_is_judged_is_what_is_given_away)
{
    if (!is_root()) return;
    output.access = {.owner = "65534", .group = "65534", .mode = 0640};
    const auto pair = issue();
    publish(pair);
    const auto key = path("tls/" + pair.generation + "/key.pem");
    // a hard link to a file of root's
    put("secret", pair.key);
    fs::permissions(path("secret"), fs::perms(0600));
    fs::remove(key);
    fs::create_hard_link(path("secret"), key);
    publish(pair);
    BOOST_TEST(look("secret").st_uid == 0u);
    BOOST_TEST(mode("secret") == 0600u);
    BOOST_TEST(look("secret").st_nlink == 1u);
    BOOST_TEST(look(current("key.pem")).st_uid == 65534u);

    std::atomic<bool> done = false;
    std::thread swapper([&] {
        const auto other = path("tls/" + pair.generation + "/other");
        std::ofstream(other) << "of root's";
        fs::permissions(other, fs::perms(0600));
        while (!done)
            renameat2(AT_FDCWD, key.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
    });
    for (int round = 0; round < 200; ++round)
        static_cast<void>(disk::file_publisher().publish(publication_of(pair)));
    done = true;
    swapper.join();
    for (const auto& entry : fs::directory_iterator(path("tls/" + pair.generation))) {
        std::ostringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        struct stat facts;
        BOOST_REQUIRE_EQUAL(lstat(entry.path().c_str(), &facts), 0);
        if (text.str() == "of root's") BOOST_TEST(facts.st_uid == 0u, entry.path().string());
    }
}

BOOST_AUTO_TEST_CASE(a_pipe_in_place_of_a_file_hangs_nobody)
{
    output.formats = every_format;
    output.password_file = path("password");
    const auto pair = issue();
    publish(pair);
    for (const char* name : {"key.pem", "client.p12"}) {
        fs::remove(path(current(name)));
        BOOST_REQUIRE_EQUAL(mkfifo(path(current(name)).c_str(), 0600), 0);
        check_failure(disk::file_publisher().publish(publication_of(pair)), errc::foreign_file);
        fs::remove(path(current(name)));
        publish(pair);
    }
}

// The owner replaced it with a file that takes minutes to open: it is not opened.
BOOST_AUTO_TEST_CASE(a_pkcs12_file_of_others_is_never_parsed)
{
    output.formats = {file_format::pkcs12};
    output.password_file = path("password");
    const auto pair = issue();
    publish(pair);
    auto forged = get(current("client.p12"));
    // the MAC iteration count is the last number in the file
    const auto at = forged.size() - (forged[forged.size() - 5] == 2 ? 5 : 4);
    BOOST_REQUIRE(forged[at] == 2);
    for (auto byte = at + 2; byte < forged.size(); ++byte)
        forged[byte] = byte == at + 2 ? '\x7f' : '\xff';
    std::ofstream(path(current("client.p12")), std::ios::binary) << forged;
    publish(pair);
    BOOST_TEST((get(current("client.p12")) != forged));
    BOOST_TEST((inspected() == output_condition::sound));
    // without a record, the file is written again
    user.files.clear();
    const auto inode = look(current("client.p12")).st_ino;
    publish(pair);
    BOOST_TEST(look(current("client.p12")).st_ino != inode);
}

BOOST_AUTO_TEST_CASE(a_directory_in_place_of_ours_is_not_loosened)
{
    const auto pair = issue();
    publish(pair);
    fs::rename(path("tls/" + pair.generation), path("tls/mine"));
    fs::create_directory(path("tls/" + pair.generation));
    put("tls/" + pair.generation + "/precious", "x");
    fs::permissions(path("tls/" + pair.generation), fs::perms(0700));
    check_failure(disk::file_publisher().publish(publication_of(pair)), errc::foreign_file);
    BOOST_TEST(mode("tls/" + pair.generation) == 0700u);
    BOOST_TEST(names("tls/" + pair.generation) == std::set<std::string>{"precious"},
               boost::test_tools::per_element());

    // nor is a foreign directory under the staging name emptied
    const auto next = issue();
    fs::rename(path("tls/" + pair.generation), path("tls/" + disk::temporary_name(next.generation)));
    check_failure(disk::file_publisher().publish(publication_of(next)), errc::foreign_file);
    BOOST_TEST(get("tls/" + disk::temporary_name(next.generation) + "/precious") == "x");
}

BOOST_AUTO_TEST_CASE(a_link_that_leads_nowhere_is_damage)
{
    const auto pair = issue();
    publish(pair);
    for (const char* nowhere : {"gone", "/nowhere/at/all", "00000000"}) {
        fs::remove(path("tls/current"));
        fs::create_symlink(nowhere, path("tls/current"));
        BOOST_TEST((inspected() == output_condition::damaged), user.output_detail);
        publish(pair);
        BOOST_TEST((inspected() == output_condition::sound), user.output_detail);
    }
}

BOOST_AUTO_TEST_CASE(a_default_acl_lets_nobody_in)
{
    fs::create_directory(path("tls"));
    // user::rwx, user:1:rwx, group::rwx, mask::rwx, other::r-x
    const unsigned char acl[] = {2, 0, 0,   0,   1,   0,   7,  0, 255, 255, 255, 255, 2,   0,  7,
                                 0, 1, 0,   0,   0,   4,   0,  7, 0,   255, 255, 255, 255, 16, 0,
                                 7, 0, 255, 255, 255, 255, 32, 0, 5,   0,   255, 255, 255, 255};
    if (setxattr(path("tls").c_str(), "system.posix_acl_default", acl, sizeof acl, 0) != 0) {
        BOOST_TEST_MESSAGE(
            "skipped: a_default_acl_lets_nobody_in, because this "
            "file system has no ACLs");
        return;
    }
    output.access.mode = 0640;
    const auto pair = issue();
    publish(pair);
    for (const auto& name : names("tls/current")) {
        BOOST_TEST(getxattr(path(current(name)).c_str(), "system.posix_acl_access", nullptr, 0) < 0, name);
        BOOST_TEST(mode(current(name)) == (name == "key.pem" ? 0640u : 0644u), name);
    }
}

BOOST_AUTO_TEST_CASE(what_is_not_a_pair_is_never_published)
{
    auto mixed = issue();
    mixed.leaf = issue().leaf;
    check_failure(disk::file_publisher().publish(publication_of(mixed)), errc::unusable_certificate);
    BOOST_TEST(!fs::exists(path("tls")));
}

BOOST_AUTO_TEST_CASE(what_the_configuration_names_wrongly_is_said)
{
    struct row {
        const char* says;
        std::function<void()> spoil;
    };
    output.formats = every_format;
    output.password_file = path("password");
    const auto good = output;
    const row rows[] = {
        {"no user \"nobody-of-that-name\"", [&] { output.access.owner = "nobody-of-that-name"; }},
        {"no group \"nobody-of-that-name\"", [&] { output.access.group = "nobody-of-that-name"; }},
        {"password", [&] { output.password_file = path("missing"); }},
        {"password", [&] { put("password", ""); }},
        {"password", [&] { put("password", "\nsecond line\n"); }},
        {"broker_ca_file", [&] { fs::remove(path("broker-ca.pem")); }},
    };
    for (const auto& [says, spoil] : rows) {
        output = good;
        put("password", "not-a-real-password\n");
        spoil();
        const auto refused = disk::file_publisher().publish(publication_of(issue()));
        check_failure(refused, errc::config);
        BOOST_TEST(refused.error().context.find(says) != std::string::npos, refused.error().context);
        BOOST_TEST(refused.error().context.find("logs/siem-forwarder") != std::string::npos);
        BOOST_TEST(!fs::exists(path("tls")));
    }
}

BOOST_AUTO_TEST_CASE(files_are_given_away)
{
    if (!is_root()) return;
    const auto pair = issue();
    publish(pair);
    output.access = {.owner = "65534", .group = "nogroup", .mode = 0640};
    publish(pair);
    BOOST_TEST(look(current("key.pem")).st_uid == 65534u);
    BOOST_TEST(look(current("cert.pem")).st_gid == 65534u);
    BOOST_TEST(look("tls/" + pair.generation).st_uid == 0u);  // the receiver can read it, not change it
    BOOST_TEST((inspected() == output_condition::sound), user.output_detail);
    output.access = {.owner = "1", .group = "1"};
    publish(pair);
    BOOST_TEST(look(current("key.pem")).st_uid == 1u);
    output.access = {};
    publish(pair);
    BOOST_TEST(look(current("key.pem")).st_uid == 0u);
    BOOST_TEST(look(current("key.pem")).st_gid == getegid());

    BOOST_REQUIRE_EQUAL(lchown(path(current("key.pem")).c_str(), 1, 1), 0);
    BOOST_TEST((inspected() == output_condition::damaged));
    publish(pair);
    BOOST_TEST(look(current("key.pem")).st_gid == getegid());
}

BOOST_AUTO_TEST_CASE(a_directory_with_a_group_hands_it_on)
{
    if (!is_root()) return;
    fs::create_directory(path("shared"));
    BOOST_REQUIRE_EQUAL(chown(path("shared").c_str(), 0, 65534), 0);
    BOOST_REQUIRE_EQUAL(chmod(path("shared").c_str(), 02750), 0);
    output.directory = path("shared/tls");
    output.access.mode = 0640;
    const auto pair = issue();
    publish(pair);
    publish(pair);
    BOOST_TEST(mode("shared") == 02750u);
    for (const auto& name : {std::string("shared/tls"), "shared/tls/" + pair.generation}) {
        BOOST_TEST(mode(name) == 02755u, name);
        BOOST_TEST(look(name).st_gid == 65534u, name);
    }
    BOOST_TEST(look("shared/tls/current/key.pem").st_gid == 65534u);
    BOOST_TEST(mode("shared/tls/current/key.pem") == 0640u);

    fs::create_directory(path("bare"));
    BOOST_REQUIRE_EQUAL(chmod(path("bare").c_str(), 02770), 0);
    output.directory = path("bare");
    publish(pair);
    BOOST_TEST(mode("bare") == 02770u);
}

BOOST_AUTO_TEST_CASE(withdrawing_removes_ours_and_then_an_empty_directory)
{
    const auto one = issue();
    const auto two = issue();
    publish(one);
    keep = one.generation;
    publish(two);
    disk::file_publisher publisher;
    BOOST_REQUIRE(publisher.unpublish(output.directory, {one.generation, two.generation}));
    BOOST_TEST(!fs::exists(path("tls")));
    BOOST_REQUIRE(publisher.unpublish(output.directory, {one.generation, two.generation}));

    publish(one);
    put("tls/README", "theirs");
    BOOST_REQUIRE(publisher.unpublish(output.directory, {one.generation}));
    const std::set<std::string> left = {"README"};
    BOOST_TEST(names("tls") == left, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_change_of_what_the_files_are_made_from_changes_the_fingerprint)
{
    policy::desired_exposure exposure;
    exposure.broker = "broker.example.com:9093";
    exposure.broker_ca_file = path("broker-ca.pem");
    policy::desired_user wanted;
    wanted.consumer_group = "siem";
    wanted.output = output;
    wanted.output.formats = every_format;
    wanted.output.password_file = path("password");
    const auto print = [&] { return disk::rendering_of(exposure, wanted); };

    std::set<std::string> seen = {print()};
    BOOST_TEST(print() == *seen.begin());
    const std::function<void()> changes[] = {[&] { wanted.output.directory += "/x"; },
                                             [&] { wanted.output.access.mode = 0640; },
                                             [&] { wanted.output.access.owner = "x"; },
                                             [&] { wanted.output.access.group = "x"; },
                                             [&] { wanted.consumer_group = "other"; },
                                             [&] { exposure.broker += "0"; },
                                             [&] { put("broker-ca.pem", "another"); },
                                             [&] { put("password", "another"); },
                                             [&] { fs::remove(path("broker-ca.pem")); },
                                             [&] { exposure.broker_ca_file.reset(); },
                                             [&] { wanted.output.formats.erase(file_format::bundle); }};
    for (const auto& change : changes) {
        change();
        BOOST_TEST(seen.insert(print()).second);
    }

    // every member of `output` is part of the fingerprint
    std::set<std::string> same;
    const auto before = print();
    support::with_each_change(wanted.output, "output", [&](const std::string& name) {
        if (print() == before) same.insert(name);
    });
    BOOST_TEST(same == std::set<std::string>{}, boost::test_tools::per_element());

    // settings that no enabled format uses are not part of it
    wanted.output.formats = {file_format::pem};
    const auto plain = print();
    exposure.broker = "other";
    wanted.consumer_group = "third";
    wanted.contact = "somebody@example.com";
    put("password", "third");
    BOOST_TEST(print() == plain);
}

BOOST_AUTO_TEST_CASE(java_reads_back_every_value)
{
    struct row {
        std::string value;
        std::string escaped;
    };
    const row rows[] = {{"siem", "siem"},
                        {"a=b:c#d!e", "a=b:c#d!e"},
                        {" a b ", "\\ a b "},
                        {"C:\\tls", "C:\\\\tls"},
                        {"a\tb\n", "a\\u0009b\\u000A"},
                        {"gr\xc3\xbc\xc3\x9f", "gr\\u00FC\\u00DF"},
                        {"\xe2\x82\xac", "\\u20AC"},
                        {"\xf0\x9f\x94\x91", "\\uD83D\\uDD11"},
                        {"cut \xe2\x82", "cut \\u00E2\\u0082"}};
    for (const auto& [value, escaped] : rows)
        BOOST_TEST(disk::java_property(value) == escaped);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
