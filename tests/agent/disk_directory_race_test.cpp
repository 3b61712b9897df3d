#include "agent/disk/directory.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(disk_directory_race)

// Users of one exposure are created concurrently and share their parent directory.
BOOST_AUTO_TEST_CASE(threads_that_make_one_path_share_it)
{
    const test_support::temporary_directory root;
    for (int round = 0; round < 50; ++round) {
        const auto shared = root.path() / ("round" + std::to_string(round));
        std::atomic<int> failures = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&, i] {
                const auto made = disk::directory::make_path(
                    shared / "exposure" / ("user" + std::to_string(i)), {.mode = 0700});
                if (!made) ++failures;
            });
        for (auto& thread : threads)
            thread.join();
        BOOST_TEST(failures == 0);
        for (int i = 0; i < 4; ++i)
            BOOST_TEST(std::filesystem::is_directory(shared / "exposure" / ("user" + std::to_string(i))));
        BOOST_TEST(std::distance(std::filesystem::directory_iterator(shared / "exposure"), {}) == 4);
    }
}

BOOST_AUTO_TEST_SUITE_END()
