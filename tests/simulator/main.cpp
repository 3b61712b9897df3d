#include "ca.hpp"
#include "control.hpp"
#include "platform.hpp"
#include "server.hpp"

#include <CLI/CLI.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/json.hpp>

#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <unistd.h>

// platform-simulator: the cloud platform of the reference on a single machine, for tests and demos.

namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using namespace simulator;

struct options {
    std::string listen = "127.0.0.1:0";
    std::string control_listen = "127.0.0.1:0";
    std::string config;
    std::string state;
    std::filesystem::path directory;
};

struct address {
    std::string host;
    std::uint16_t port;
};

address split_address(const std::string& text)
{
    const auto colon = text.rfind(':');
    if (colon == std::string::npos) throw std::runtime_error{text + ": expected HOST:PORT"};
    auto host = text.substr(0, colon);
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    return {.host = host, .port = static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1)))};
}

json::value read_json(const std::string& file)
{
    std::ifstream in{file, std::ios::binary};
    if (!in) throw std::runtime_error{file + ": cannot be read"};
    const std::string text{std::istreambuf_iterator<char>{in}, {}};
    return json::parse(text);
}

asio::ssl::context make_context(const identity& shown)
{
    asio::ssl::context context{asio::ssl::context::tls_server};
    context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                        asio::ssl::context::no_tlsv1_1);
    context.use_certificate(asio::buffer(openssl::to_pem(shown.certificate.get())), asio::ssl::context::pem);
    context.use_private_key(asio::buffer(openssl::to_pem(shown.key.get())), asio::ssl::context::pem);
    return context;
}

std::string url(const char* scheme, const asio::ip::tcp::acceptor& acceptor)
{
    const auto endpoint = acceptor.local_endpoint();
    const auto host = endpoint.address().to_string();
    return std::string{scheme} + "://" + (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" +
           std::to_string(endpoint.port());
}

options read_options(int argc, char** argv)
{
    options chosen;
    CLI::App app{
        "The cloud platform on one machine, for tests and demonstrations: identity service, event exposure "
        "services and catalog over HTTPS, with a certificate authority of its own."};
    app.add_option("--listen", chosen.listen, "HOST:PORT of the platform; port 0 takes a free one")
        ->capture_default_str();
    app.add_option("--control", chosen.control_listen, "HOST:PORT of the control API")->capture_default_str();
    app.add_option("--config", chosen.config, "JSON file: behaviour, and \"faults\"");
    app.add_option("--directory", chosen.directory,
                   "where ca.pem, issuer-ca.pem, server.pem and ready.json go")
        ->required();
    app.add_option("--state", chosen.state,
                   "JSON file that keeps instances, users and tokens across restarts");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        std::exit(app.exit(error));
    }
    return chosen;
}

void run(const options& chosen)
{
    const auto& directory = chosen.directory;
    std::filesystem::create_directories(directory);
    const auto server_ca = load_or_make_authority(directory, "ca", "Simulator Server CA");
    user_authority users{.root = load_or_make_authority(directory, "issuer-root", "Simulator User Root CA")};
    users.issuer = load_or_make_authority(directory, "issuer", "Simulator User Issuing CA", &users.root);
    write_file(directory / "issuer-ca.pem", openssl::to_pem(users.issuer.certificate.get()) +
                                                openssl::to_pem(users.root.certificate.get()));

    std::map<std::string, asio::ssl::context> contexts;
    for (const auto* kind : {"good", "unknown-ca", "other-host", "expired"}) {
        const auto shown = make_server_identity(kind, server_ca);
        if (contexts.empty()) write_file(directory / "server.pem", openssl::to_pem(shown.certificate.get()));
        contexts.emplace(kind, make_context(shown));
    }

    platform world{chosen.config.empty() ? json::value{} : read_json(chosen.config), users};
    if (!chosen.state.empty() && std::filesystem::exists(chosen.state))
        world.load(read_json(chosen.state).as_object());

    const application of_platform{
        .arrive = [&](request& incoming) { return world.arrive(incoming); },
        .work = [&](const request& incoming) { return world.work(incoming); },
        .finish = [&](response& answer) { world.finish(answer); },
        .closed = [&](auto sequence, int status,
                      const auto& outcome) { world.log.close(sequence, status, outcome); },
        .connection_opened = [&] { world.log.connection_opened(); },
        .connection_ended = [&](bool refused) { world.log.connection_ended(refused); }};
    const application of_control{.arrive = [](request&) { return effect{}; },
                                 .work = [&](const request& incoming) { return control(world, incoming); },
                                 .finish = [](response&) {},
                                 .closed = [](auto, int, const auto&) {},
                                 .connection_opened = [] {},
                                 .connection_ended = [](bool) {}};

    asio::io_context io{1};
    const auto main_address = split_address(chosen.listen);
    const auto control_address = split_address(chosen.control_listen);
    auto main_acceptor = listen(io, main_address.host, main_address.port);
    auto control_acceptor = listen(io, control_address.host, control_address.port);
    serve_https(
        main_acceptor,
        [&]() -> asio::ssl::context& { return contexts.at(world.behaviour.get().server_certificate); },
        of_platform);
    serve_http(control_acceptor, of_control);

    asio::signal_set signals{io, SIGTERM, SIGINT};
    signals.async_wait([&](const boost::system::error_code&, int) { io.stop(); });
    const json::object ready{{"base_url", url("https", main_acceptor)},
                             {"control_url", url("http", control_acceptor)},
                             {"pid", ::getpid()}};
    write_file(directory / "ready.json", json::serialize(ready) + "\n");
    std::cout << "platform-simulator: " << json::serialize(ready) << std::endl;
    io.run();
    if (!chosen.state.empty()) write_file(chosen.state, json::serialize(world.save()), true);
}

}  // namespace

int main(int argc, char** argv)
try {
    run(read_options(argc, argv));
    return 0;
} catch (const simulator::bad_request& mistake) {
    std::cerr << "platform-simulator: " << mistake.message << '\n';
    return 1;
} catch (const std::exception& error) {
    std::cerr << "platform-simulator: " << error.what() << '\n';
    return 1;
}
