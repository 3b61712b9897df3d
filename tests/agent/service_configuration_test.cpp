#include "agent/service/configuration.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <stdlib.h>

namespace fs = std::filesystem;
using service::places_of;

namespace {

struct scratch {
    scratch()
    {
        std::string name = (fs::temp_directory_path() / "places-XXXXXX").native();
        root = fs::canonical(::mkdtemp(name.data()));
    }
    ~scratch() { fs::remove_all(root); }

    fs::path root;
};

using names = std::set<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(service_configuration)

BOOST_AUTO_TEST_CASE(a_plain_file_shows_in_its_directory)
{
    const scratch here;
    const auto places = places_of(here.root / "agent.yaml");  // whether it exists or not
    BOOST_TEST((places == std::map<fs::path, names>{{here.root, {"agent.yaml"}}}));
}

BOOST_AUTO_TEST_CASE(a_swapped_directory_link_shows_where_the_link_is)
{
    const scratch here;
    fs::create_directory(here.root / "..2026_01");
    std::ofstream(here.root / "..2026_01" / "agent.yaml") << "version: 1\n";
    fs::create_directory_symlink("..2026_01", here.root / "..data");
    fs::create_symlink("..data/agent.yaml", here.root / "agent.yaml");
    const auto places = places_of(here.root / "agent.yaml");
    BOOST_TEST((places.at(here.root) == names{"agent.yaml", "..data"}));
    BOOST_TEST((places.at(here.root / "..2026_01") == names{"agent.yaml"}));
}

BOOST_AUTO_TEST_CASE(a_link_to_elsewhere_is_followed)
{
    const scratch here;
    fs::create_directories(here.root / "etc");
    fs::create_directories(here.root / "srv" / "real");
    std::ofstream(here.root / "srv" / "real" / "x.yaml") << "\n";
    fs::create_symlink("../srv/real/x.yaml", here.root / "etc" / "agent.yaml");
    const auto places = places_of(here.root / "etc" / "agent.yaml");
    BOOST_TEST((places.at(here.root / "etc") == names{"agent.yaml"}));
    BOOST_TEST((places.at(here.root / "srv" / "real") == names{"x.yaml"}));
}

BOOST_AUTO_TEST_CASE(a_link_to_itself_ends)
{
    const scratch here;
    fs::create_symlink("agent.yaml", here.root / "agent.yaml");
    BOOST_TEST((places_of(here.root / "agent.yaml").at(here.root) == names{"agent.yaml"}));
    BOOST_TEST(!service::facts_of(here.root / "agent.yaml").has_value());
}

BOOST_AUTO_TEST_CASE(an_edit_in_place_changes_the_facts)
{
    const scratch here;
    const auto file = here.root / "agent.yaml";
    std::ofstream(file) << "version: 1\n";
    const auto before = service::facts_of(file);
    BOOST_REQUIRE(before.has_value());
    BOOST_TEST((before == service::facts_of(file)));
    std::ofstream(file) << "version: 1 # edited\n";
    BOOST_TEST((before != service::facts_of(file)));
}

// The file that the program started with may have been edited before the watch began.
BOOST_AUTO_TEST_CASE(the_first_look_is_an_edit)
{
    const scratch here;
    std::ofstream(here.root / "agent.yaml") << "version: 1\n";
    boost::asio::io_context context;
    int edits = 0;
    service::file_watch watch(context.get_executor(), here.root / "agent.yaml", [&] { ++edits; });
    BOOST_TEST(watch.check() == 1U);
    BOOST_TEST(watch.check() == 1U);
    std::ofstream(here.root / "agent.yaml") << "version: 1 # edited\n";
    BOOST_TEST(watch.check() == 2U);
    BOOST_TEST(edits == 2);
}

BOOST_AUTO_TEST_CASE(a_file_settles_when_its_writer_closes_it)
{
    const scratch here;
    const auto file = here.root / "agent.yaml";
    std::ofstream(file) << "version: 1\n";
    boost::asio::io_context context;
    io::stop_event stop(context.get_executor());
    service::file_watch watch(context.get_executor(), file, [] {});
    std::ofstream writer(file);
    writer << "half of" << std::flush;
    bool settled = false;
    const auto wait = [&]() -> io::awaitable<void> {
        co_await watch.settled(stop);
        settled = true;
    };
    boost::asio::co_spawn(context, wait(), boost::asio::detached);
    context.run_for(4 * service::debounce::quiet);
    BOOST_TEST(!settled);
    writer << " it\n";
    writer.close();
    context.run();
    BOOST_TEST(settled);
}

BOOST_AUTO_TEST_CASE(a_stop_waits_for_no_writer)
{
    const scratch here;
    const auto file = here.root / "agent.yaml";
    boost::asio::io_context context;
    io::stop_event stop(context.get_executor());
    service::file_watch watch(context.get_executor(), file, [] {});
    std::ofstream writer(file);
    writer << "half of" << std::flush;
    bool settled = false;
    const auto wait = [&]() -> io::awaitable<void> {
        co_await watch.settled(stop);
        settled = true;
    };
    boost::asio::co_spawn(context, wait(), boost::asio::detached);
    boost::asio::post(context, [&] { stop.request(); });
    context.run();
    BOOST_TEST(settled);
}

BOOST_AUTO_TEST_SUITE_END()
