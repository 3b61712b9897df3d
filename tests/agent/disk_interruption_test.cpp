#include "tests/agent/disk_publication.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <set>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>

// What is left if the agent is killed, or the disk fails, before any single system call that changes
// something: every such call of this program is intercepted here and can be made to fail.

namespace {

enum class strike { off, kill, refuse };
std::atomic<strike> how = strike::off;
std::atomic<long> calls_left = 0;
constexpr int killed = 137;
std::set<ino_t> synced;
std::atomic<std::size_t> syncs = 0;

bool struck()
{
    if (how == strike::off || --calls_left != 0) return false;
    if (how == strike::kill) _exit(killed);
    errno = ENOSPC;
    return true;
}

template <class... T>
int pass(long number, T... argument)
{
    return struck() ? -1 : static_cast<int>(syscall(number, argument...));
}

}  // namespace

extern "C" {
// Recorded, not performed: written data survives the death of the process, and tests need not wait.
int fsync(int fd)
{
    struct stat facts;
    ++syncs;
    if (fstat(fd, &facts) == 0) synced.insert(facts.st_ino);
    return struck() ? -1 : 0;
}
int fchmod(int fd, mode_t mode) noexcept
{
    return pass(SYS_fchmod, fd, mode);
}
int fchown(int fd, uid_t uid, gid_t gid) noexcept
{
    return pass(SYS_fchown, fd, uid, gid);
}
int mkdirat(int at, const char* name, mode_t mode) noexcept
{
    return pass(SYS_mkdirat, at, name, mode);
}
int symlinkat(const char* target, int at, const char* name) noexcept
{
    return pass(SYS_symlinkat, target, at, name);
}
int unlinkat(int at, const char* name, int flags) noexcept
{
    return pass(SYS_unlinkat, at, name, flags);
}
int renameat(int from_at, const char* from, int to_at, const char* to) noexcept
{
    return pass(SYS_renameat2, from_at, from, to_at, to, 0);
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept
{
    return pass(SYS_renameat2, from_at, from, to_at, to, flags);
}
}

namespace {

using namespace disk_test;

using act = std::function<bool()>;  // true: it reported success

// Runs the action in a child killed before its n-th call. Returns true if there were fewer calls.
bool survives_kill(long n, const act& action)
{
    const pid_t child = fork();
    if (child == 0) {
        calls_left = n;
        how = strike::kill;
        _exit(action() ? 0 : 1);
    }
    int status = 0;
    BOOST_REQUIRE_EQUAL(waitpid(child, &status, 0), child);
    BOOST_REQUIRE(WIFEXITED(status));
    BOOST_TEST((WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == killed));
    return WEXITSTATUS(status) == 0;
}

// Runs the action with its n-th call failing with ENOSPC. Returns true if there were fewer calls.
bool survives_refusal(long n, const act& action)
{
    calls_left = n;
    how = strike::refuse;
    action();
    how = strike::off;
    return calls_left > 0;
}

// Interrupts the action before each call in turn, starting from a freshly prepared state each time.
void at_every_call(const std::function<void()>& prepare, const act& action,
                   const std::function<void()>& check)
{
    for (const auto survives : {survives_kill, survives_refusal}) {
        bool through = false;
        long n = 1;
        for (; !through; ++n) {
            BOOST_TEST_CONTEXT((survives == survives_kill ? "killed" : "refused") << " before call " << n)
            {
                prepare();
                through = survives(n, action);
                check();
            }
            BOOST_REQUIRE(n < 1000);
        }
        BOOST_TEST(n > 3);  // otherwise no call was intercepted
    }
}

struct interrupted_publisher : publication_fixture {
    interrupted_publisher() { output.formats = {file_format::java, file_format::librdkafka}; }

    bool is_synced(const std::string& name) const
    {
        struct stat facts;
        return stat(path(name).c_str(), &facts) == 0 && synced.contains(facts.st_ino);
    }

    bool try_publish(const issued& pair) const
    {
        return disk::file_publisher().publish(publication_of(pair)).has_value();
    }

    // `current` points to one complete pair of `pairs`, or is absent where that is allowed.
    void check_current(const std::vector<issued>& pairs, bool may_be_absent) const
    {
        if (!fs::is_symlink(path("tls/current"))) {
            BOOST_TEST(may_be_absent);
            return;
        }
        const auto target = fs::read_symlink(path("tls/current")).string();
        const auto pair = std::ranges::find(pairs, target, &issued::generation);
        BOOST_REQUIRE((pair != pairs.end()));
        BOOST_TEST(get(current("key.pem")) == pair->key);
        BOOST_TEST(get(current("cert.pem")) == pair->leaf);
        BOOST_TEST(get(current("chain.pem")) == pair->chain);
        BOOST_TEST(get(current("fullchain.pem")) == pair->fullchain());
        BOOST_TEST(mode(current("key.pem")) == 0600u);
    }

    // The next publication succeeds as if nothing had happened. It cannot know what was synced before, so it
    // must sync everything it relies on.
    void check_heals(const issued& pair, const std::set<std::string>& generations)
    {
        const bool nothing_there = !fs::exists(path("tls")) || fs::is_empty(path("tls"));
        synced.clear();
        publish(pair);
        BOOST_TEST(is_synced("tls"));
        BOOST_TEST(is_synced("tls/" + pair.generation));
        BOOST_TEST((!nothing_there || is_synced("")));
        BOOST_TEST((inspected() == output_condition::sound), user.output_detail);
        auto expected = generations;
        expected.insert("current");
        BOOST_TEST(names("tls") == expected, boost::test_tools::per_element());
        BOOST_TEST(names("tls/current").size() == 8u);
    }

    const issued one = issue();
    const issued two = issue();
    const issued three = issue();
};

BOOST_FIXTURE_TEST_SUITE(disk_interruption, interrupted_publisher)

BOOST_AUTO_TEST_CASE(of_the_first_publication)
{
    at_every_call([&] { fs::remove_all(path("tls")); }, [&] { return try_publish(one); },
                  [&] {
                      check_current({one}, true);
                      check_heals(one, {one.generation});
                  });
}

BOOST_AUTO_TEST_CASE(nothing_is_synced_more_often_than_needed)
{
    syncs = 0;
    publish(one);
    const auto files = names("tls/current").size();
    // the generation with its files, `tls` after each of three renames, and the directory above `tls`
    BOOST_TEST(syncs == files + 1 + 3 + 1);
}

BOOST_AUTO_TEST_CASE(of_a_rotation)
{
    at_every_call(
        [&] {
            fs::remove_all(path("tls"));
            keep.clear();
            publish(one);
            keep = one.generation;
            publish(two);
            keep = two.generation;
        },
        [&] { return try_publish(three); },
        [&] {
            check_current({two, three}, false);
            check_heals(three, {two.generation, three.generation});
        });
}

BOOST_AUTO_TEST_CASE(of_a_repair)
{
    at_every_call(
        [&] {
            fs::remove_all(path("tls"));
            publish(one);
            put(current("bundle.pem"), "damaged");
            fs::remove(path(current("ca.pem")));
            put(current("librdkafka.conf"), "damaged");
        },
        [&] { return try_publish(one); },
        [&] {
            check_current({one}, false);
            check_heals(one, {one.generation});
        });
}

BOOST_AUTO_TEST_CASE(of_a_change_of_formats)
{
    at_every_call(
        [&] {
            fs::remove_all(path("tls"));
            output.formats = {file_format::bundle};
            publish(one);
            output.formats = {file_format::java, file_format::librdkafka};
        },
        [&] { return try_publish(one); },
        [&] {
            check_current({one}, false);
            check_heals(one, {one.generation});
        });
}

BOOST_AUTO_TEST_CASE(of_a_withdrawal)
{
    const std::vector<std::string> generations = {one.generation, two.generation};
    const auto unpublish = [&] {
        return disk::file_publisher().unpublish(output.directory, generations).has_value();
    };
    at_every_call(
        [&] {
            fs::remove_all(path("tls"));
            publish(one);
            keep = one.generation;
            publish(two);
        },
        unpublish,
        [&] {
            check_current({two}, true);
            BOOST_TEST(unpublish());
            BOOST_TEST(!fs::exists(path("tls")));
        });
}

// ---- a reader in a busy loop

std::optional<std::string> read_at(int directory, const char* name)
{
    const int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return std::nullopt;
    std::string text(1 << 16, '\0');
    const auto size = read(fd, text.data(), text.size());
    close(fd);
    text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return text;
}

struct sightings {
    long whole = 0;
    long gone = 0;  // two rotations happened between opening the directory and opening its files
    long torn = 0;
};

// Reads `current` in a loop. The pair is read through one open directory, as the contract requires of readers
// of two files; the bundle by its path.
void watch(const std::string& at, const std::vector<issued>& pairs, const std::atomic<bool>& done,
           sightings& seen)
{
    while (!done) {
        const int directory = open((at + "/current").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const auto bundle = read_at(AT_FDCWD, (at + "/current/bundle.pem").c_str());
        const auto key = read_at(directory, "key.pem");
        const auto chain = read_at(directory, "fullchain.pem");
        close(directory);
        const bool gone = directory < 0 || !bundle || !key || !chain;
        const bool whole = !gone && std::ranges::any_of(pairs, [&](const issued& pair) {
            return *key == pair.key && *chain == pair.fullchain();
        }) && std::ranges::any_of(pairs, [&](const issued& pair) {
            return *bundle == pair.key + pair.fullchain();
        });
        ++(gone ? seen.gone : whole ? seen.whole : seen.torn);
    }
}

BOOST_AUTO_TEST_CASE(a_reader_never_sees_a_torn_pair)
{
    std::vector<issued> pairs;
    for (int i = 0; i < 8; ++i)
        pairs.push_back(issue());
    publish(pairs.front());
    std::atomic<bool> done = false;
    sightings seen;
    std::thread reader(watch, output.directory, std::cref(pairs), std::cref(done), std::ref(seen));
    for (std::size_t i = 1; i <= 200; ++i) {
        keep = pairs[(i - 1) % pairs.size()].generation;
        publish(pairs[i % pairs.size()]);
    }
    done = true;
    reader.join();
    BOOST_TEST(seen.torn == 0);
    BOOST_TEST(seen.whole > 200);
    BOOST_TEST(seen.gone < seen.whole / 100);
    BOOST_TEST_MESSAGE(seen.whole << " whole, " << seen.gone << " gone");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
