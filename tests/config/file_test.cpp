#include "config/parse.hpp"
#include "sample.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>

using namespace sample;
namespace fs = std::filesystem;

namespace {

std::string content(const fs::path& path)
{
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(files)

BOOST_AUTO_TEST_CASE(the_shipped_example_is_right)
{
    const auto text = content(fs::path(SOURCE_DIRECTORY) / "systemd/agent.yaml");
    const auto state = state_of(text);
    BOOST_TEST(state.exposures.size() == 1u);
}

// The commented-out settings of the example are valid, too (access_token excludes the client it shows).
BOOST_AUTO_TEST_CASE(the_shipped_example_is_right_without_its_comment_signs)
{
    static const std::regex comment("^( *)#( *(- )?[a-z_]+:( .*)?)$");
    std::istringstream lines(content(fs::path(SOURCE_DIRECTORY) / "systemd/agent.yaml"));
    std::string text;
    for (std::string line; std::getline(lines, line);)
        if (line.find("#access_token:") == std::string::npos)
            text += std::regex_replace(line, comment, "$1$2") + "\n";
    const auto state = state_of(text);
    BOOST_TEST(!state.metrics.textfile.empty());
    BOOST_TEST(state.exposures.at(0).users.at(0).hooks.size() == 1u);
    BOOST_TEST(state.credentials.size() == 1u);
    BOOST_TEST((state.reconcile == policy::reconcile_settings{}));  // the example shows the defaults
}

BOOST_AUTO_TEST_SUITE_END()
