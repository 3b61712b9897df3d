#include "agent/disk/files.hpp"
#include "tests/agent/disk_support.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <vector>

namespace {

using namespace disk_test;
using policy::errc;

BOOST_FIXTURE_TEST_SUITE(disk_atomic_file, scratch)

const std::vector<mode_t> modes = {0600, 0640, 0644, 0400, 0660};

const std::vector<mode_t> umasks = {0, 077, 0777};

BOOST_DATA_TEST_CASE_F(scratch, modes_are_exact_under_any_umask, boost::unit_test::data::make(modes) * umasks,
                       wanted, mask)
{
    umask(mask);
    BOOST_REQUIRE(disk::write_file(here, "key.pem", "content", {.mode = wanted}));
    BOOST_TEST(mode("key.pem") == wanted);
    BOOST_TEST(get("key.pem") == "content");
    BOOST_TEST(holds_no_temporary_name());
}

BOOST_AUTO_TEST_CASE(replaces_by_rename)
{
    BOOST_REQUIRE(disk::write_file(here, "a", "one", {}));
    const auto before = look("a").st_ino;
    std::ifstream reader(path("a"));
    BOOST_REQUIRE(disk::write_file(path("a"), "two", {.mode = 0644}));
    BOOST_TEST(look("a").st_ino != before);
    BOOST_TEST(get("a") == "two");
    std::string held;
    reader >> held;
    BOOST_TEST(held == "one");  // a reader that has the file open still sees the old contents
}

BOOST_AUTO_TEST_CASE(cleans_up_what_a_crash_left)
{
    put(".a.exposure-agent", "half of someth");
    BOOST_REQUIRE(disk::write_file(here, "a", "whole", {}));
    BOOST_TEST(get("a") == "whole");
    BOOST_TEST(holds_no_temporary_name());
}

BOOST_AUTO_TEST_CASE(a_link_or_directory_in_the_way_is_left_alone)
{
    put("elsewhere", "theirs");
    fs::create_symlink("elsewhere", path("link"));
    fs::create_directory(path("directory"));
    for (const std::string name : {"link", "directory"}) {
        check_failure(disk::write_file(here, name, "ours", {}), errc::foreign_file);
        check_failure(disk::update_file(here, name, "ours", {}), errc::foreign_file);
        check_failure(disk::create_file(here, name, "ours", {}), errc::foreign_file);
    }
    BOOST_TEST(get("elsewhere") == "theirs");
    BOOST_TEST(fs::is_symlink(path("link")));
    BOOST_TEST(holds_no_temporary_name());
}

BOOST_AUTO_TEST_CASE(a_link_under_the_temporary_name_is_not_followed)
{
    put("elsewhere", "theirs");
    fs::create_symlink("elsewhere", path(".a.exposure-agent"));
    BOOST_REQUIRE(disk::write_file(here, "a", "ours", {}));
    BOOST_TEST(get("elsewhere") == "theirs");
    BOOST_TEST(get("a") == "ours");
}

const std::vector<std::string> leading_out = {"",    ".",  "..",  "../a",
                                              "a/b", "/a", "a\n", std::string(201, 'a')};

BOOST_DATA_TEST_CASE_F(scratch, names_stay_in_the_directory, leading_out)
{
    BOOST_TEST(!disk::write_file(here, sample, "x", {}));
    BOOST_TEST(!disk::create_file(here, sample, "x", {}));
    BOOST_TEST(!disk::replace_link(here, sample, "x"));
    BOOST_TEST(!disk::remove_file(here, sample));
    BOOST_TEST(!disk::remove_tree(here, sample));
    BOOST_TEST(!disk::read_file(here, sample, 10));
    BOOST_TEST(!here.make(sample, {.mode = 0700}));
    BOOST_TEST(!here.enter(sample));
    BOOST_TEST(fs::is_empty(temporary.path()));
}

BOOST_AUTO_TEST_CASE(update_leaves_an_unchanged_file_untouched)
{
    BOOST_TEST(disk::update_file(here, "a", "one", {.mode = 0640}).value() == true);
    const auto before = look("a");
    BOOST_TEST(disk::update_file(here, "a", "one", {.mode = 0640}).value() == false);
    fs::permissions(path("a"), fs::perms::all);
    BOOST_TEST(disk::update_file(here, "a", "one", {.mode = 0640}).value() == false);
    const auto after = look("a");
    BOOST_TEST(after.st_ino == before.st_ino);
    BOOST_TEST(after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    BOOST_TEST(mode("a") == 0640u);
    BOOST_TEST(disk::update_file(here, "a", "two", {.mode = 0640}).value() == true);
    BOOST_TEST(get("a") == "two");
}

BOOST_AUTO_TEST_CASE(gives_away_and_takes_back)
{
    if (!is_root()) return;
    BOOST_REQUIRE(disk::write_file(here, "a", "one", {.mode = 0640, .uid = 12345, .gid = 54321}));
    BOOST_TEST(look("a").st_uid == 12345u);
    BOOST_TEST(look("a").st_gid == 54321u);
    BOOST_TEST(disk::update_file(here, "a", "one", {.mode = 0640, .uid = 23456}).value() == true);
    BOOST_TEST(look("a").st_uid == 23456u);
    BOOST_TEST(look("a").st_gid == getegid());
}

BOOST_AUTO_TEST_CASE(a_limit_on_file_size_reads_as_a_full_disk)
{
    BOOST_REQUIRE(disk::write_file(here, "a", "before", {}));
    const auto old_handler = signal(SIGXFSZ, SIG_IGN);
    struct rlimit old = {};
    getrlimit(RLIMIT_FSIZE, &old);
    const struct rlimit tiny = {.rlim_cur = 1024, .rlim_max = old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tiny);
    const auto written = disk::write_file(here, "a", std::string(4096, 'x'), {});
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, old_handler);
    check_failure(written, errc::disk_full);
    BOOST_TEST(get("a") == "before");
    BOOST_TEST(holds_no_temporary_name());
}

BOOST_AUTO_TEST_CASE(a_full_disk_keeps_the_old_file)
{
    if (!is_root()) return;
    fs::create_directory(path("small"));
    if (mount("none", path("small").c_str(), "tmpfs", 0, "size=64k") != 0) {
        BOOST_TEST_MESSAGE("skipped: a_full_disk_keeps_the_old_file, because nothing can be mounted here");
        return;
    }
    const auto small = disk::directory::open(path("small")).value();
    const auto first = disk::write_file(small, "a", "before", {});
    const auto second = disk::write_file(small, "a", std::string(256 << 10, 'x'), {});
    const auto left = disk::read_file(small, "a", 100);
    const auto names = small.names();
    umount2(path("small").c_str(), MNT_DETACH);
    BOOST_TEST(bool(first));
    check_failure(second, errc::disk_full);
    BOOST_TEST(left.value().value() == "before");
    BOOST_TEST(names.value() == std::vector<std::string>{"a"});
}

BOOST_AUTO_TEST_CASE(a_missing_directory_says_so)
{
    const auto written = disk::write_file(path("missing") / "a", "x", {});
    check_failure(written, errc::disk);
    BOOST_TEST(written.error().context.find("missing") != std::string::npos);
    BOOST_TEST(written.error().context.find("No such file or directory") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(links_are_replaced_by_rename)
{
    BOOST_TEST(!disk::read_link(here, "current").value());
    BOOST_REQUIRE(disk::replace_link(here, "current", "one"));
    BOOST_TEST(disk::read_link(here, "current").value().value() == "one");
    const auto before = look("current").st_ino;
    BOOST_REQUIRE(disk::replace_link(here, "current", "one"));
    BOOST_TEST(look("current").st_ino == before);
    fs::create_symlink("stale", path(".current.exposure-agent"));
    BOOST_REQUIRE(disk::replace_link(here, "current", "two"));
    BOOST_TEST(disk::read_link(here, "current").value().value() == "two");
    BOOST_TEST(holds_no_temporary_name());
}

BOOST_AUTO_TEST_CASE(what_is_no_link_is_not_replaced_by_one)
{
    put("file", "theirs");
    fs::create_directory(path("directory"));
    for (const std::string name : {"file", "directory"}) {
        check_failure(disk::replace_link(here, name, "x"), errc::foreign_file);
        check_failure(disk::read_link(here, name), errc::foreign_file);
    }
    BOOST_TEST(get("file") == "theirs");
}

BOOST_AUTO_TEST_CASE(reading_is_bounded_and_follows_only_where_asked)
{
    put("file", "12345");
    fs::create_symlink("file", path("link"));
    fs::create_directory(path("directory"));
    BOOST_REQUIRE_EQUAL(mkfifo(path("fifo").c_str(), 0600), 0);
    BOOST_TEST(disk::read_file(here, "file", 5).value().value() == "12345");
    BOOST_TEST(disk::read_file(path("link"), 5).value().value() == "12345");
    check_failure(disk::read_file(here, "file", 4), errc::disk);
    check_failure(disk::read_file(here, "link", 5), errc::foreign_file);
    check_failure(disk::read_file(here, "directory", 5), errc::foreign_file);
    check_failure(disk::read_file(here, "fifo", 5), errc::foreign_file);
    BOOST_TEST(!disk::read_file(here, "missing", 5).value());
    BOOST_TEST(!disk::read_file(path("missing"), 5).value());
}

BOOST_AUTO_TEST_CASE(removing_twice_is_once)
{
    put("file", "x");
    fs::create_directory(path("directory"));
    BOOST_TEST(bool(disk::remove_file(here, "file")));
    BOOST_TEST(bool(disk::remove_file(here, "file")));
    BOOST_TEST(!fs::exists(path("file")));
    check_failure(disk::remove_file(here, "directory"), errc::foreign_file);
}

BOOST_AUTO_TEST_CASE(a_staged_directory_appears_at_once_and_replaces_nothing)
{
    const auto staged = here.make("staged", {.mode = 0755}).value();
    BOOST_REQUIRE(disk::create_file(staged, "key.pem", "key", {.mode = 0600}));
    BOOST_REQUIRE(staged.sync());
    BOOST_REQUIRE(disk::rename_into_place(here, "staged", "9f3c2a1b"));
    BOOST_TEST(get("9f3c2a1b/key.pem") == "key");
    fs::create_directory(path("another"));
    check_failure(disk::rename_into_place(here, "another", "9f3c2a1b"), errc::foreign_file);
    BOOST_TEST(get("9f3c2a1b/key.pem") == "key");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
