// The least that issuing certificates costs: a key, a request, POST, GET, and the same four published files,
// synced and renamed into place, for each user. Two threads with one connection each; nothing is remembered,
// retried or checked.
//
//     bench-floor HOST:PORT CA_FILE TOKEN_FILE PATH_OF_USERS NAME_PREFIX COUNT DIRECTORY

#include "crypto/digest.hpp"
#include "crypto/key.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

struct arguments {
    std::string host, port, ca_file, token, path, prefix, directory;
    int count = 0;
};

class connection {
public:
    explicit connection(const arguments& to) : to_(to)
    {
        tls_.load_verify_file(to.ca_file);
        tls_.set_verify_mode(asio::ssl::verify_peer);
        asio::ip::tcp::resolver resolver(context_);
        asio::connect(stream_.next_layer(), resolver.resolve(to.host, to.port));
        stream_.next_layer().set_option(asio::ip::tcp::no_delay(true));
        stream_.handshake(asio::ssl::stream_base::client);
    }

    boost::json::value call(http::verb method, const std::string& path, const std::string& body = {})
    {
        http::request<http::string_body> request(method, path, 11, body);
        request.set(http::field::host, to_.host + ":" + to_.port);
        request.set(http::field::authorization, "Bearer " + to_.token);
        request.set(http::field::accept, "application/json");
        if (!body.empty()) request.set(http::field::content_type, "application/json");
        request.prepare_payload();
        http::write(stream_, request);
        http::response<http::string_body> answer;
        http::read(stream_, buffer_, answer);
        if (answer.result_int() >= 300)
            throw std::runtime_error(std::to_string(answer.result_int()) + " " + answer.body());
        return boost::json::parse(answer.body());
    }

private:
    const arguments& to_;
    asio::io_context context_;
    asio::ssl::context tls_{asio::ssl::context::tls_client};
    asio::ssl::stream<asio::ip::tcp::socket> stream_{context_, tls_};
    boost::beast::flat_buffer buffer_;
};

void check(bool good, const std::string& what)
{
    if (!good) throw std::runtime_error(what);
}

void sync_directory(const std::string& path)
{
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY);
    check(fd >= 0 && fsync(fd) == 0, path);
    close(fd);
}

void write_file(const std::string& path, std::string_view content, mode_t mode)
{
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, mode);
    check(fd >= 0 && write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
              fsync(fd) == 0,
          path);
    close(fd);
}

void publish(const std::string& home, const std::string& id, std::string_view key,
             const std::string& certificate)
{
    const std::string staged = home + "/." + id;
    check(mkdir(home.c_str(), 0755) == 0 && mkdir(staged.c_str(), 0755) == 0, home);
    write_file(staged + "/key.pem", key, 0600);
    write_file(staged + "/cert.pem", certificate, 0644);
    write_file(staged + "/chain.pem", "", 0644);
    write_file(staged + "/fullchain.pem", certificate, 0644);
    sync_directory(staged);
    check(rename(staged.c_str(), (home + "/" + id).c_str()) == 0, staged);
    sync_directory(home);
    check(symlink(id.c_str(), (home + "/.current").c_str()) == 0, home);
    check(rename((home + "/.current").c_str(), (home + "/current").c_str()) == 0, home);
    sync_directory(home);
}

void issue(connection& to, const arguments& a, int number)
{
    const auto key = crypto::private_key::generate(policy::key_type::ecdsa_p256).value();
    const std::string name = a.prefix + std::to_string(number);
    const auto csr = crypto::make_csr(key, name).value();
    const boost::json::object body{{"description", "floor"},
                                   {"contact", {{"email", "floor@example.com"}}},
                                   {"consumerGroup", name},
                                   {"businessGroupName", "floor"},
                                   {"csr", crypto::base64(csr.pem)}};
    const auto made = to.call(http::verb::post, a.path, boost::json::serialize(body)).as_object();
    const std::string id(made.at("id").as_string());
    const auto shown = to.call(http::verb::get, a.path + "/" + id).as_object();
    check(shown.at("status").as_string() == "READY", "not READY at once");
    publish(a.directory + "/" + std::to_string(number), "00000000", key.to_pem().value().view(),
            std::string(shown.at("certificate").as_string()));
}

std::string read_line(const char* file)
{
    std::string line;
    std::ifstream text(file);
    check(static_cast<bool>(std::getline(text, line)), file);
    return line;
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc != 8) return EXIT_FAILURE;
    const std::string address = argv[1];
    const auto colon = address.rfind(':');
    const arguments a{.host = address.substr(0, colon),
                      .port = address.substr(colon + 1),
                      .ca_file = argv[2],
                      .token = read_line(argv[3]),
                      .path = argv[4],
                      .prefix = argv[5],
                      .directory = argv[7],
                      .count = std::atoi(argv[6])};
    std::vector<std::thread> threads;
    for (int first = 0; first < 2; ++first)
        threads.emplace_back([&a, first] {
            try {
                connection to(a);
                for (int number = first; number < a.count; number += 2)
                    issue(to, a, number);
            } catch (const std::exception& error) {
                std::cerr << error.what() << "\n";
                std::_Exit(EXIT_FAILURE);
            }
        });
    for (auto& thread : threads)
        thread.join();
    return EXIT_SUCCESS;
}
