#include "agent/service/configuration.hpp"
#include "policy/limits.hpp"

#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace {

config::environment machine()
{
    return {.hostname = "web-01",
            .variable = [](const std::string&) { return std::optional<std::string>(); }};
}

const std::string right = "identity: {access_token: {file: /run/token}}\nexposures: []\n";

// A temporary directory for files on disk.
struct scratch {
    scratch()
    {
        std::string name = (fs::temp_directory_path() / "configuration-test-XXXXXX").string();
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

    std::string only_error(const std::string& name) const
    {
        const auto result = service::read_configuration(name, machine());
        BOOST_TEST(!result.state);
        BOOST_REQUIRE(result.errors.size() == 1u);
        BOOST_TEST(result.errors[0].line == 1);
        return to_string(result.errors[0]);
    }

    fs::path path;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(configuration_file)

BOOST_AUTO_TEST_CASE(a_file_is_read)
{
    const scratch in;
    const auto result = service::read_configuration(in.file(right), machine());
    BOOST_TEST(result.state.has_value());
    BOOST_TEST((result.file_owner == ::geteuid()));

    fs::create_symlink("agent.yaml", in.path / "link.yaml");
    BOOST_TEST(service::read_configuration((in.path / "link.yaml").string(), machine()).state.has_value());
}

BOOST_AUTO_TEST_CASE(a_file_that_others_may_write_is_refused)
{
    const scratch in;
    for (const mode_t mode : {0664, 0646, 0666})
        BOOST_TEST(
            (in.only_error(in.file(right, mode)).find("writable by group or others") != std::string::npos));
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_refused)
{
    const scratch in;
    BOOST_TEST((in.only_error((in.path / "none.yaml").string())
                    .find("none.yaml:1:1: not found; create it with `exposure-agent init`") != std::string::npos));
    BOOST_TEST((in.only_error(in.path.string()).find("not a regular file") != std::string::npos));

    const auto fifo = (in.path / "fifo").string();
    BOOST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    BOOST_TEST((in.only_error(fifo).find("not a regular file") != std::string::npos));

    const std::string huge(policy::limits::configuration_bytes + 1, '#');
    BOOST_TEST((in.only_error(in.file(huge)).find("larger than 4 MiB") != std::string::npos));
}

BOOST_AUTO_TEST_SUITE_END()
