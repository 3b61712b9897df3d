#include "config/keys.hpp"
#include "config/parse.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace {

std::set<std::string> all_keys(const config::section& in)
{
    std::set<std::string> keys;
    for (const auto& f : in.keys) {
        keys.insert(f.name);
        if (f.inner) keys.merge(all_keys(*f.inner));
    }
    return keys;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(schema)

BOOST_AUTO_TEST_CASE(every_key_is_in_the_schema)
{
    const auto text = config::schema();
    for (const auto& key : all_keys(config::root_section()))
        BOOST_TEST((text.find("\"" + key + "\": {") != std::string::npos), key);
    BOOST_TEST(text.starts_with("{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n"));
    BOOST_TEST(text.ends_with("}\n"));
}

BOOST_AUTO_TEST_CASE(every_key_is_in_the_shipped_example)
{
    std::ifstream file(std::filesystem::path(SOURCE_DIRECTORY) / "systemd/agent.yaml");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const auto& key : all_keys(config::root_section()))
        BOOST_TEST((text.find(key + ":") != std::string::npos), key);
}

BOOST_AUTO_TEST_SUITE_END()
