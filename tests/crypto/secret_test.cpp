#include "crypto/secret.hpp"

#include <boost/test/unit_test.hpp>

#include <ostream>
#include <type_traits>
#include <utility>

namespace {

template <class T>
concept printable = requires(std::ostream& out, const T& value)
{
    out << value;
};

static_assert(!std::is_copy_constructible_v<crypto::secret>);
static_assert(!std::is_copy_assignable_v<crypto::secret>);
static_assert(!std::is_convertible_v<std::string, crypto::secret>);
static_assert(!printable<crypto::secret>);

BOOST_AUTO_TEST_SUITE(secret)

BOOST_AUTO_TEST_CASE(holds_what_it_was_given)
{
    const std::string text = "opensesame";
    BOOST_TEST(crypto::secret(text).view() == "opensesame");
    BOOST_TEST(crypto::secret("opensesame").view() == "opensesame");
    BOOST_TEST(crypto::secret(std::string_view("open\0sesame", 11)).view().size() == 11u);
    BOOST_TEST(crypto::secret(std::string_view("opensesame").substr(0, 4)).c_str() == std::string("open"));
    BOOST_TEST(crypto::secret().empty());
    BOOST_TEST(crypto::secret("").empty());
    BOOST_TEST(crypto::secret().c_str() == std::string());
}

BOOST_AUTO_TEST_CASE(leaves_nothing_in_the_string_it_took)
{
    std::string shorter = "opensesame";  // short enough for the small-string buffer
    const char* const bytes = shorter.data();
    const crypto::secret taken(std::move(shorter));
    BOOST_TEST(taken.view() == "opensesame");
    BOOST_TEST(std::string_view(bytes, 10) == std::string_view("\0\0\0\0\0\0\0\0\0\0", 10));
}

BOOST_AUTO_TEST_CASE(moves_and_clones)
{
    crypto::secret first("one");
    const crypto::secret copy = first.clone();
    crypto::secret second = std::move(first);
    BOOST_TEST(second.view() == "one");
    BOOST_TEST(first.empty());
    second = crypto::secret("two");
    BOOST_TEST(second.view() == "two");
    BOOST_TEST(copy.view() == "one");
}

BOOST_AUTO_TEST_CASE(compares)
{
    BOOST_CHECK(crypto::secret("a") == crypto::secret("a"));
    BOOST_CHECK(crypto::secret("a") != crypto::secret("b"));
    BOOST_CHECK(crypto::secret("a") != crypto::secret("ab"));
    BOOST_CHECK(crypto::secret() == crypto::secret(""));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
