#include "policy/words.hpp"

#include <boost/test/unit_test.hpp>

namespace {

BOOST_AUTO_TEST_SUITE(nearest)

BOOST_AUTO_TEST_CASE(guesses_what_is_near)
{
    const std::vector<std::string> known = {"planName", "serviceName", "p_vm_cpu_count"};
    BOOST_TEST(policy::nearest("planNmae", known) == "planName");
    BOOST_TEST(policy::nearest("p_cpu_count", known) == "p_vm_cpu_count");
    BOOST_TEST(policy::nearest("serviceName", known) == "serviceName");
    BOOST_TEST(policy::nearest("colour", known) == "");
    BOOST_TEST(policy::nearest("", known) == "");
    BOOST_TEST(policy::nearest(std::string(100, 'p'), known) == "");
    BOOST_TEST(policy::nearest("planName", {}) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
