#include "agent/platform/authorize.hpp"

#include "agent/io/url.hpp"
#include "agent/platform/response.hpp"
#include "crypto/digest.hpp"
#include "policy/text.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/url/parse.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <utility>

namespace platform {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::size_t longest_paste = 64 << 10;

policy::failure no_code(std::string why)
{
    return {
        .code = policy::errc::usage,
        .context =
            std::move(why) +
            ": paste the whole address to which the browser was redirected after the login, or the value of "
            "its code parameter",
        .kind = policy::retry::never};
}

std::string_view trimmed(std::string_view text)
{
    constexpr std::string_view around = " \t\r\n\"'<>";
    const auto first = text.find_first_not_of(around);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(around) - first + 1);
}

// The query of a URL, or of a query with or without its "?"; empty if the text is neither.
std::string_view query_in(std::string_view text)
{
    text = text.substr(0, text.find('#'));
    if (const auto mark = text.find('?'); mark != std::string_view::npos) return text.substr(mark + 1);
    if (text.find("://") != std::string_view::npos) return {};
    const bool named = text.starts_with("code=") || text.starts_with("error=") ||
                       text.find("&code=") != std::string_view::npos ||
                       text.find("&error=") != std::string_view::npos;
    return named ? text : std::string_view();
}

// The first value of each name, still escaped.
std::map<std::string_view, std::string_view> fields_of(std::string_view query)
{
    std::map<std::string_view, std::string_view> fields;
    while (!query.empty()) {
        const auto field = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(field.size() + 1, query.size()));
        const auto equals = std::min(field.find('='), field.size());
        fields.emplace(field.substr(0, equals), field.substr(std::min(equals + 1, field.size())));
    }
    return fields;
}

bool looks_like_a_code(std::string_view text)
{
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

policy::failure reported(std::string_view error, std::string_view description)
{
    std::string words = redact(io::unescaped(error, true));
    if (!description.empty()) words += ": " + redact(io::unescaped(description, true));
    return {.code = policy::errc::refused,
            .context = "the identity provider refused the login: " + words,
            .kind = policy::retry::never};
}

constexpr auto patience = std::chrono::minutes(10);  // for the person at the identity provider
constexpr auto request_time = std::chrono::seconds(10);
constexpr const char* page =
    "<!doctype html><title>exposure-agent</title><p>Done. You can close this page and go back to the "
    "terminal.</p>\n";

// Whether a request with this target (path and query) answers the login with this state.
bool answers(std::string_view target, std::string_view state)
{
    const auto fields = fields_of(query_in(target));
    const auto given = fields.find("state");
    if (given == fields.end() || io::unescaped(given->second, true) != state) return false;
    return fields.contains("code") || fields.contains("error");
}

}  // namespace

std::string challenge_of(const crypto::secret& verifier)
{
    const auto hex = crypto::sha256_hex(verifier.view());
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2)
        bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    auto digest = crypto::base64(bytes);
    std::ranges::replace(digest, '+', '-');
    std::ranges::replace(digest, '/', '_');
    std::erase(digest, '=');
    return digest;
}

std::string authorize_url(const policy::identity_settings& settings, std::string_view state,
                          std::string_view challenge)
{
    auto url = settings.auth_url + "/auth/oauth2/authorize?" +
               io::form({{"response_type", "code"},
                         {"client_id", settings.client_id},
                         {"redirect_uri", settings.redirect_url}});
    if (!settings.scope.empty()) url += "&" + io::form({{"scope", settings.scope}});
    if (!state.empty()) url += "&" + io::form({{"state", state}});
    if (!challenge.empty())
        url += "&" + io::form({{"code_challenge", challenge}, {"code_challenge_method", "S256"}});
    return url;
}

policy::result<redirected> parse_redirected(std::string_view text)
{
    if (text.size() > longest_paste) return no_code("the input is too long for a redirected address");
    text = trimmed(text);
    if (text.empty()) return no_code("the input is empty");
    const auto query = query_in(text);
    const bool bare = query.empty() && !text.starts_with('/') &&
                      text.find_first_of("?#") == std::string_view::npos &&
                      text.find("://") == std::string_view::npos;
    auto fields = fields_of(query);
    if (bare) fields["code"] = text;
    if (!fields["error"].empty()) return reported(fields["error"], fields["error_description"]);
    auto code = io::unescaped(fields["code"], false);
    if (!looks_like_a_code(code)) return no_code("no authorization code found");
    return redirected{.code = crypto::secret(std::move(code)),
                      .state = io::unescaped(fields["state"], true),
                      .userstore = io::unescaped(fields["userstore"], true)};
}

policy::result<void> check_state(const redirected& redirected, std::string_view sent)
{
    if (redirected.state.empty() || redirected.state == sent) return {};
    return policy::failure{.code = policy::errc::refused,
                           .context =
                               "the redirected address belongs to another login (its state does not match): "
                               "open the address that was just printed",
                           .kind = policy::retry::never};
}

std::optional<std::uint16_t> listening_port(const std::string& redirect_url)
{
    const auto url = boost::urls::parse_uri(redirect_url);
    if (!url || url->scheme() != "http" || !url->has_port() || url->port_number() == 0) return std::nullopt;
    const std::string host(url->encoded_host_address());
    if (!policy::is_loopback(host)) return std::nullopt;
    return url->port_number();
}

io::awaitable<std::string> serve_redirect(boost::beast::tcp_stream stream, std::string state)
{
    const auto quiet = asio::as_tuple(asio::use_awaitable);
    boost::beast::flat_buffer buffer;
    http::request<http::empty_body> request;
    stream.expires_after(request_time);
    const auto [unread, size] = co_await http::async_read(stream, buffer, request, quiet);
    if (unread) co_return "";

    const std::string target(request.target());
    const bool ours = request.method() == http::verb::get && answers(target, state);
    http::response<http::string_body> response(ours ? http::status::ok : http::status::not_found,
                                               request.version());
    response.set(http::field::content_type, "text/html; charset=utf-8");
    response.set(http::field::connection, "close");
    if (ours) response.body() = page;
    response.prepare_payload();
    co_await http::async_write(stream, response, quiet);
    co_return ours ? target : "";
}

policy::result<std::string> listen_for_redirect(const std::string& redirect_url, std::string_view state)
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
    const auto cannot_listen = [&](const boost::system::error_code& why) {
        return policy::failure{.code = policy::errc::usage,
                               .context = "cannot listen on " + redirect_url + " (" + why.message() +
                                          "); give the code with --code"};
    };
    if (ec) return cannot_listen(ec);

    std::string target;
    // Connections are served concurrently: browsers open one ahead of need and send nothing on it.
    const auto found = [&](const std::exception_ptr&, std::string answer) {
        if (answer.empty()) return;
        target = std::move(answer);
        context.stop();
    };
    std::function<void()> accept = [&] {
        acceptor.async_accept([&](boost::system::error_code error, asio::ip::tcp::socket socket) {
            if (error && error != asio::error::connection_aborted) {
                ec = error;
                context.stop();
                return;
            }
            if (!error)
                asio::co_spawn(
                    context, serve_redirect(boost::beast::tcp_stream(std::move(socket)), std::string(state)),
                    found);
            accept();
        });
    };
    accept();
    context.run_for(patience);
    if (!target.empty()) return target;
    if (ec) return cannot_listen(ec);
    return policy::failure{
        .code = policy::errc::timed_out,
        .context = "the browser did not return within ten minutes. Run: exposure-agent login"};
}

}  // namespace platform
