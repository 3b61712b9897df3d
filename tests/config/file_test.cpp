#include "config/load.hpp"
#include "policy/limits.hpp"
#include "sample.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace sample;
namespace fs = std::filesystem;

namespace {

std::string content(const fs::path& path)
{
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// A directory of its own for files on disk.
struct scratch {
    scratch()
    {
        std::string name = (fs::temp_directory_path() / "config-test-XXXXXX").string();
        BOOST_REQUIRE(::mkdtemp(name.data()));
        path = name;
    }
    ~scratch() { fs::remove_all(path); }

    std::string file(const std::string& text, mode_t mode = 0644) const
    {
        const auto name = (path / "agent.yaml").string();
        std::ofstream(name) << text;
        ::chmod(name.c_str(), mode);
        return name;
    }

    std::string only_mistake(const std::string& name) const
    {
        const auto result = config::load(name, machine());
        BOOST_TEST(!result.state);
        BOOST_REQUIRE(result.mistakes.size() == 1u);
        BOOST_TEST(result.mistakes[0].line == 1);
        return to_string(result.mistakes[0]);
    }

    fs::path path;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(files)

BOOST_AUTO_TEST_CASE(the_shipped_example_is_right)
{
    const auto text = content(fs::path(SOURCE_DIRECTORY) / "systemd/agent.yaml");
    const auto state = state_of(text);
    BOOST_TEST(state.exposures.size() == 1u);
}

// What the example shows in comments is right, too. (An access token excludes the client that it shows.)
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
    BOOST_TEST((state.reconcile == policy::reconcile_settings{}));  // it shows the defaults
}

BOOST_AUTO_TEST_CASE(a_file_is_read)
{
    const scratch in;
    const auto result = config::load(in.file(top("")), machine());
    BOOST_TEST(result.state.has_value());
    BOOST_TEST((result.file_owner == ::geteuid()));

    fs::create_symlink("agent.yaml", in.path / "link.yaml");
    BOOST_TEST(config::load((in.path / "link.yaml").string(), machine()).state.has_value());
}

BOOST_AUTO_TEST_CASE(a_file_that_others_may_write_is_refused)
{
    const scratch in;
    for (const mode_t mode : {0664, 0646, 0666})
        BOOST_TEST(
            (in.only_mistake(in.file(top(""), mode)).find("may write this file") != std::string::npos));
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_refused)
{
    const scratch in;
    BOOST_TEST((in.only_mistake((in.path / "none.yaml").string())
                    .find("none.yaml:1:1: the file cannot be opened: No such file") != std::string::npos));
    BOOST_TEST((in.only_mistake(in.path.string()).find("no regular file") != std::string::npos));

    const auto fifo = (in.path / "fifo").string();
    BOOST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    BOOST_TEST((in.only_mistake(fifo).find("no regular file") != std::string::npos));

    const std::string huge(policy::limits::configuration_bytes + 1, '#');
    BOOST_TEST((in.only_mistake(in.file(huge)).find("larger than 4 MiB") != std::string::npos));
}

BOOST_AUTO_TEST_SUITE_END()
