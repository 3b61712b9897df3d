#include "agent/platform/login_listener.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/url/parse.hpp>

#include <chrono>

namespace platform {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr auto patience = std::chrono::minutes(10);  // of the person at the identity provider
constexpr auto request_time = std::chrono::seconds(10);
constexpr const char* page =
    "<!doctype html><title>exposure-agent</title><p>Done. You can close this page and go back to the "
    "terminal.</p>\n";

bool is_loopback(std::string_view host)
{
    if (host == "localhost") return true;
    boost::system::error_code ec;
    const auto address = asio::ip::make_address(std::string(host), ec);
    return !ec && address.is_loopback();
}

// Runs what was started on this context, at most that long; true when it ended by itself.
bool run_for(asio::io_context& context, std::chrono::steady_clock::duration limit)
{
    context.restart();
    context.run_for(limit);
    return context.stopped();
}

// One request of a browser: its target when it carries a code or an error, else nothing (a favicon, a probe).
std::string serve(asio::io_context& context, boost::beast::tcp_stream stream)
{
    boost::beast::flat_buffer buffer;
    http::request<http::empty_body> request;
    boost::system::error_code failed;
    stream.expires_after(request_time);
    http::async_read(stream, buffer, request,
                     [&](boost::system::error_code ec, std::size_t) { failed = ec; });
    run_for(context, request_time);
    if (failed) return "";

    const std::string target(request.target());
    const bool ours = target.find("code=") != std::string::npos || target.find("error=") != std::string::npos;
    http::response<http::string_body> response(ours ? http::status::ok : http::status::not_found,
                                               request.version());
    response.set(http::field::content_type, "text/html; charset=utf-8");
    response.set(http::field::connection, "close");
    if (ours) response.body() = page;
    response.prepare_payload();
    http::async_write(stream, response, [](boost::system::error_code, std::size_t) {});
    run_for(context, request_time);
    return ours ? target : "";
}

}  // namespace

std::optional<std::uint16_t> listening_port(const std::string& redirect_url)
{
    const auto url = boost::urls::parse_uri(redirect_url);
    if (!url || url->scheme() != "http" || !url->has_port() || url->port_number() == 0) return std::nullopt;
    const std::string host(url->encoded_host_address());
    if (!is_loopback(host)) return std::nullopt;
    return url->port_number();
}

policy::result<std::string> listen_for_redirect(const std::string& redirect_url)
{
    asio::io_context context{1};
    asio::ip::tcp::acceptor acceptor(context);
    const auto url = boost::urls::parse_uri(redirect_url);
    const bool v6 = url->host_type() == boost::urls::host_type::ipv6;
    const asio::ip::tcp::endpoint here(v6 ? asio::ip::address(asio::ip::address_v6::loopback())
                                          : asio::ip::address(asio::ip::address_v4::loopback()),
                                       *listening_port(redirect_url));
    boost::system::error_code ec;
    acceptor.open(here.protocol(), ec);
    if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
    if (!ec) acceptor.bind(here, ec);
    if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
    if (ec)
        return policy::failure{.code = policy::errc::usage,
                               .context = "cannot listen on " + redirect_url + " (" + ec.message() +
                                          "); give the code with --code"};

    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < deadline) {
        asio::ip::tcp::socket socket(context);
        boost::system::error_code accepted = asio::error::timed_out;
        acceptor.async_accept(socket, [&](boost::system::error_code result) { accepted = result; });
        if (!run_for(context, deadline - std::chrono::steady_clock::now())) break;
        if (accepted) continue;
        if (auto target = serve(context, boost::beast::tcp_stream(std::move(socket))); !target.empty())
            return target;
    }
    return policy::failure{.code = policy::errc::timed_out,
                           .context = "nobody came back from the browser; say `login` again"};
}

}  // namespace platform
