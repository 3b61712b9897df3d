#define BOOST_TEST_MODULE exposure_agent
#include <boost/test/unit_test.hpp>
