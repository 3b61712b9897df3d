#include "agent/disk/directory.hpp"
#include "agent/disk/state_directory.hpp"
#include "tests/agent/disk_support.hpp"

#include <boost/test/unit_test.hpp>

#include <optional>
#include <stdexcept>
#include <sys/wait.h>
#include <vector>

namespace {

using namespace disk_test;
using policy::errc;

struct state : scratch {
    disk::paths where{path("state")};
};

BOOST_FIXTURE_TEST_SUITE(disk_directory, scratch)

BOOST_AUTO_TEST_CASE(a_directory_that_is_a_link_is_refused)
{
    fs::create_directory(path("real"));
    fs::create_directory_symlink("real", path("link"));
    put("file", "x");
    for (const char* name : {"link", "link/", "link/.", "file"})
        check_failure(disk::directory::open(path(name)), errc::foreign_file);
    check_failure(disk::directory::make_path(path("link/"), {.mode = 0755}), errc::foreign_file);
    check_failure(here.enter("link"), errc::foreign_file);
    check_failure(here.make("link", {.mode = 0755}), errc::foreign_file);
    check_failure(here.make("file", {.mode = 0755}), errc::foreign_file);
    BOOST_TEST(bool(disk::directory::open_through_link(path("link"))));
    check_failure(disk::directory::open(path("missing")), errc::disk);
}

BOOST_AUTO_TEST_CASE(makes_what_is_missing_with_exact_modes)
{
    BOOST_REQUIRE(disk::directory::make_path(path("a/b/c/"), {.mode = 0751}));
    for (const char* name : {"a", "a/b", "a/b/c"})
        BOOST_TEST(mode(name) == 0751u);
    BOOST_REQUIRE(disk::directory::make_path(path("a"), {.mode = 0700}));
    BOOST_TEST(mode("a") == 0751u);  // it existed already
    fs::create_directory_symlink("a", path("way"));
    BOOST_REQUIRE(disk::directory::make_path(path("way/d"), {.mode = 0700}));
    BOOST_TEST(mode("a/d") == 0700u);
}

BOOST_AUTO_TEST_CASE(puts_a_loosened_mode_right)
{
    BOOST_REQUIRE(here.make("a", {.mode = 0700}));
    fs::permissions(path("a"), fs::perms::all);
    BOOST_REQUIRE(here.make("a", {.mode = 0700}));
    BOOST_TEST(mode("a") == 0700u);
}

BOOST_AUTO_TEST_CASE(what_a_kill_left_of_its_making_by_two_threads_goes)
{
    BOOST_REQUIRE(here.make("a", {.mode = 0700}));
    fs::create_directory(path(".a.exposure-agent"));
    BOOST_REQUIRE(here.make("a", {.mode = 0700}));
    BOOST_TEST(!fs::exists(path(".a.exposure-agent")));
    // on the way to another directory, and at its end
    BOOST_REQUIRE(disk::directory::make_path(path("b/c"), {.mode = 0700}));
    for (const char* name : {".b.exposure-agent", "b/.c.exposure-agent"})
        fs::create_directory(path(name));
    BOOST_REQUIRE(disk::directory::make_path(path("b/c"), {.mode = 0700}));
    BOOST_TEST(!fs::exists(path(".b.exposure-agent")));
    BOOST_TEST(!fs::exists(path("b/.c.exposure-agent")));
}

BOOST_AUTO_TEST_CASE(somebody_elses_directory_is_left_alone)
{
    if (!is_root()) return;
    fs::create_directory(path("theirs"));
    BOOST_REQUIRE_EQUAL(chown(path("theirs").c_str(), 12345, 12345), 0);
    check_failure(here.make("theirs", {.mode = 0700}), errc::foreign_file);
    BOOST_TEST(look("theirs").st_uid == 12345u);
}

BOOST_AUTO_TEST_CASE(lists_in_order)
{
    for (const char* name : {"c", "a", ".b"})
        put(name, "");
    BOOST_TEST(here.names().value() == (std::vector<std::string>{".b", "a", "c"}),
               boost::test_tools::per_element());
    BOOST_TEST(here.names().value().size() == 3u);  // a second listing returns the same names
    BOOST_TEST(here.has("a"));
    BOOST_TEST(!here.has("b"));
}

BOOST_AUTO_TEST_CASE(removes_a_tree_without_leaving_it)
{
    fs::create_directories(path("tree/inner/deeper"));
    put("tree/inner/file", "x");
    put("kept", "theirs");
    fs::create_directory(path("outside"));
    put("outside/kept", "theirs");
    fs::create_symlink("../kept", path("tree/link"));
    fs::create_directory_symlink("../outside", path("tree/way"));
    BOOST_REQUIRE(disk::remove_tree(here, "tree"));
    BOOST_REQUIRE(disk::remove_tree(here, "tree"));
    BOOST_TEST(!fs::exists(path("tree")));
    BOOST_TEST(get("kept") == "theirs");
    BOOST_TEST(get("outside/kept") == "theirs");
    fs::create_directory_symlink("outside", path("link"));
    check_failure(disk::remove_tree(here, "link"), errc::foreign_file);
    check_failure(disk::remove_tree(here, "kept"), errc::foreign_file);
}

BOOST_AUTO_TEST_CASE(clears_leftovers_alone)
{
    const auto ours = [](const std::string& name) { return name == "key.pem"; };
    put(".a.exposure-agent", "x");
    put(".theirs", "x");
    fs::create_directory(path(".b.exposure-agent"));
    put(".b.exposure-agent/key.pem", "x");
    for (const char* name : {"a", "b", "c"})
        BOOST_REQUIRE(disk::remove_leftover(here, name, ours));
    BOOST_TEST(here.names().value() == std::vector<std::string>{".theirs"});

    // somebody else's directory was renamed to the temporary name
    fs::create_directory(path(".a.exposure-agent"));
    put(".a.exposure-agent/precious", "x");
    check_failure(disk::remove_leftover(here, "a", ours), errc::foreign_file);
    BOOST_TEST(get(".a.exposure-agent/precious") == "x");
}

// ---- walking a path

BOOST_AUTO_TEST_CASE(links_of_root_and_of_ours_are_followed)
{
    fs::create_directory(path("real"));
    fs::permissions(path("real"), fs::perms(0755));
    fs::create_directory_symlink("real", path("relative"));
    fs::create_directory_symlink(path("relative"), path("absolute"));
    BOOST_REQUIRE(disk::directory::make_path(path("absolute/made"), {.mode = 0700}));
    BOOST_TEST(fs::is_directory(path("real/made")));
    BOOST_TEST(bool(disk::directory::open(path("relative/made"))));
    fs::create_directory_symlink("loop", path("loop"));
    check_failure(disk::directory::open(path("loop/x")), errc::foreign_file);
    check_failure(disk::directory::open("relative"), errc::config);
}

BOOST_AUTO_TEST_CASE(a_directory_that_others_could_swap_is_refused_by_its_name)
{
    const auto refused = [&](const std::string& name, const disk::receiver& to = {}) {
        const auto opened = disk::directory::make_path(path(name), {.mode = 0700}, to);
        if (opened) return std::string();
        BOOST_TEST((opened.error().code == errc::foreign_file));
        return opened.error().context;
    };
    fs::create_directories(path("open/below"));
    fs::permissions(path("open"), fs::perms(0777));
    BOOST_TEST(refused("open/below").find(path("open").string() + " is world-writable") == 0u);
    fs::permissions(path("open"), fs::perms(01777));
    BOOST_TEST(refused("open/below") == "");
    fs::permissions(path("open"), fs::perms(0775));
    BOOST_TEST(refused("open/new").find(path("open").string() + " is group-writable") == 0u);
    BOOST_TEST(!fs::exists(path("open/new")));
    BOOST_TEST(refused("open/below", {.gid = getegid()}) == "");
    BOOST_TEST(refused("open") == "");  // the final component is not judged by the walk

    if (!is_root()) return;
    fs::create_directories(path("theirs/below"));
    fs::permissions(path("theirs"), fs::perms(0755));
    BOOST_REQUIRE_EQUAL(chown(path("theirs").c_str(), 65534, 65534), 0);
    BOOST_TEST(refused("theirs/below").find(path("theirs").string() + " belongs to user nobody") == 0u);
    BOOST_TEST(refused("theirs/below", {.uid = 65534}) == "");

    // HOME/.config is a link created by the receiver: not followed, even below the receiver's own directory
    fs::create_directory(path("precious"));
    fs::create_directory_symlink(path("precious"), path("theirs/.config"));
    BOOST_REQUIRE_EQUAL(lchown(path("theirs/.config").c_str(), 65534, 65534), 0);
    BOOST_TEST(refused("theirs/.config/s3", {.uid = 65534}).find("is a link of user nobody") !=
               std::string::npos);
    BOOST_TEST(fs::is_empty(path("precious")));
}

BOOST_AUTO_TEST_CASE(half_a_million_foreign_names_cost_nothing)
{
    for (int number = 0; number < 2000; ++number)
        put("n" + std::to_string(number), "");
    BOOST_TEST(here.names([](const std::string& name) { return name == "n7"; }).value().size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(disk_state_directory, state)

BOOST_AUTO_TEST_CASE(has_the_modes_of_the_contract)
{
    BOOST_REQUIRE(disk::prepare_state_directory(where));
    BOOST_TEST(mode("state") == 0711u);
    BOOST_TEST(mode("state/private") == 0700u);
}

BOOST_AUTO_TEST_CASE(repairs_loosened_modes)
{
    BOOST_REQUIRE(disk::prepare_state_directory(where));
    fs::permissions(path("state"), fs::perms::all);
    fs::permissions(path("state/private"), fs::perms::all);
    BOOST_REQUIRE(disk::prepare_state_directory(where));
    BOOST_TEST(mode("state") == 0711u);
    BOOST_TEST(mode("state/private") == 0700u);
}

BOOST_AUTO_TEST_CASE(refuses_a_private_directory_that_is_a_link)
{
    fs::create_directory(path("state"));
    fs::create_directory(path("elsewhere"));
    fs::create_directory_symlink(path("elsewhere"), path("state/private"));
    check_failure(disk::prepare_state_directory(where), errc::foreign_file);
}

BOOST_AUTO_TEST_CASE(may_be_a_link_itself)  // systemd.exec(5), DynamicUser=
{
    fs::create_directory(path("elsewhere"));
    fs::create_directory_symlink("elsewhere", path("state"));
    BOOST_REQUIRE(disk::prepare_state_directory(where));
    BOOST_TEST(mode("elsewhere/private") == 0700u);
}

BOOST_AUTO_TEST_CASE(refuses_what_belongs_to_another_user)
{
    if (!is_root()) return;
    BOOST_REQUIRE(disk::prepare_state_directory(where));
    BOOST_REQUIRE_EQUAL(chown(path("state/private").c_str(), 12345, 12345), 0);
    check_failure(disk::prepare_state_directory(where), errc::foreign_file);
    BOOST_REQUIRE_EQUAL(chown(path("state").c_str(), 12345, 12345), 0);
    const auto refused = disk::prepare_state_directory(where);
    check_failure(refused, errc::foreign_file);
    BOOST_TEST(refused.error().context.find("12345") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(one_agent_at_a_time)
{
    BOOST_REQUIRE(disk::prepare_state_directory(where));
    auto held = disk::state_lock::acquire(where);
    BOOST_REQUIRE(held);
    BOOST_TEST(mode("state/lock") == 0600u);
    const auto second = disk::state_lock::acquire(where);
    check_failure(second, errc::busy);
    BOOST_TEST(second.error().context.find("process " + std::to_string(getpid())) != std::string::npos);
    {
        const auto ended = std::move(*held);
    }
    BOOST_TEST(bool(disk::state_lock::acquire(where)));
}

BOOST_AUTO_TEST_CASE(a_killed_holder_frees_the_lock)
{
    BOOST_REQUIRE(disk::prepare_state_directory(where));
    int ready[2] = {};
    BOOST_REQUIRE_EQUAL(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        const auto held = disk::state_lock::acquire(where);
        const char answer = held ? 'y' : 'n';
        if (write(ready[1], &answer, 1) == 1) pause();
        _exit(0);
    }
    char answer = 0;
    BOOST_REQUIRE_EQUAL(read(ready[0], &answer, 1), 1);
    BOOST_TEST(answer == 'y');
    const auto busy = disk::state_lock::acquire(where);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    check_failure(busy, errc::busy);
    BOOST_TEST(busy.error().context.find("process " + std::to_string(child)) != std::string::npos);
    BOOST_TEST(bool(disk::state_lock::acquire(where)));
    close(ready[0]);
    close(ready[1]);
}

BOOST_AUTO_TEST_CASE(a_lock_file_that_is_a_link_is_refused)
{
    BOOST_REQUIRE(disk::prepare_state_directory(where));
    put("elsewhere", "theirs");
    fs::create_symlink(path("elsewhere"), path("state/lock"));
    check_failure(disk::state_lock::acquire(where), errc::foreign_file);
    BOOST_TEST(get("elsewhere") == "theirs");
}

BOOST_AUTO_TEST_CASE(paths_are_those_of_the_contract)
{
    const disk::paths root("/var/lib/exposure-agent");
    const policy::user_name name{.exposure = "logs", .user = "siem"};
    BOOST_TEST(root.lock() == "/var/lib/exposure-agent/lock");
    BOOST_TEST(root.live(name) == "/var/lib/exposure-agent/live/logs/siem");
    BOOST_TEST(root.database() == "/var/lib/exposure-agent/private/state.db");
    for (const std::string bad : {"", ".", "..", "../a", "a/b", "a\n"}) {
        BOOST_CHECK_THROW((void)root.live({.exposure = bad, .user = "u"}), std::invalid_argument);
        BOOST_CHECK_THROW((void)root.live({.exposure = "e", .user = bad}), std::invalid_argument);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
