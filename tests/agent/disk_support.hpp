#pragma once

#include "agent/disk/directory.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace disk_test {

namespace fs = std::filesystem;

// A scratch directory held open, with umask 0 so that any mode not set explicitly shows up.
struct scratch {
    scratch() : old_umask(umask(0)) {}
    ~scratch() { umask(old_umask); }

    fs::path path(const std::string& name) const { return temporary.path() / name; }

    void put(const std::string& name, const std::string& content) const
    {
        std::ofstream(path(name)) << content;
    }

    std::string get(const std::string& name) const
    {
        std::ostringstream text;
        text << std::ifstream(path(name)).rdbuf();
        return text.str();
    }

    struct stat look(const std::string& name) const
    {
        struct stat facts = {};
        BOOST_REQUIRE_EQUAL(lstat(path(name).c_str(), &facts), 0);
        return facts;
    }

    unsigned mode(const std::string& name) const { return look(name).st_mode & 07777; }

    bool holds_no_temporary_name() const
    {
        for (const auto& name : here.names().value())
            if (name.starts_with('.')) return false;
        return true;
    }

    test_support::temporary_directory temporary;
    disk::directory here = disk::directory::open(temporary.path()).value();
    mode_t old_umask;
};

// Reports a test that needs root as skipped, instead of passing silently.
inline bool is_root()
{
    if (geteuid() == 0) return true;
    BOOST_TEST_MESSAGE("skipped: " << boost::unit_test::framework::current_test_case().p_name
                                   << ", because it needs root");
    return false;
}

template <class T>
void check_failure(const policy::result<T>& result, policy::errc code)
{
    BOOST_REQUIRE(!result);
    BOOST_TEST(policy::word_of(result.error().code) == policy::word_of(code), result.error().context);
}

}  // namespace disk_test
