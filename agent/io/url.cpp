#include "agent/io/url.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/url/encode.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <boost/url/url_view.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace io {

namespace {

policy::failure unusable(std::string why)
{
    return {policy::errc::config, std::move(why), policy::retry::after_change, std::nullopt};
}

bool is_host_character(unsigned char c)
{
    return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':';
}

}  // namespace

policy::result<http_address> parse_http_address(std::string_view url)
{
    // The text itself stays out of the sentence: a query may carry what nobody should read.
    const auto parsed = boost::urls::parse_uri({url.data(), url.size()});
    if (!parsed) return unusable("the address is not an absolute URL");
    const auto& parts = *parsed;

    const std::string scheme(parts.scheme());
    http_address address;
    address.tls = parts.scheme_id() == boost::urls::scheme::https;
    if (!address.tls && parts.scheme_id() != boost::urls::scheme::http)
        return unusable("the scheme " + scheme + " is not supported; use https");
    if (parts.has_userinfo()) return unusable("an address must not carry a user name or a password");
    if (parts.has_fragment()) return unusable("an address must not carry a fragment");

    address.host = parts.host_address();
    std::transform(address.host.begin(), address.host.end(), address.host.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (address.host.empty() || !std::all_of(address.host.begin(), address.host.end(), is_host_character))
        return unusable("the address has no usable host name");

    address.port = address.tls ? 443 : 80;
    if (parts.has_port() && !parts.port().empty()) {
        const auto port = parse_port(parts.port());
        if (!port) return unusable("the address has no usable port");
        address.port = *port;
    }
    if (!address.tls && !is_loopback(address.host))
        return unusable("plain http is for loopback only; use https://" + address.host);

    address.target = std::string(parts.encoded_path());
    if (address.target.empty()) address.target = "/";
    if (parts.has_query()) address.target += "?" + std::string(parts.encoded_query());
    return address;
}

std::string host_and_port(std::string_view host, std::uint16_t port)
{
    const bool v6 = host.find(':') != std::string_view::npos;
    return (v6 ? "[" + std::string(host) + "]" : std::string(host)) + ":" + std::to_string(port);
}

std::string host_header(const http_address& address)
{
    auto text = host_and_port(address.host, address.port);
    if (address.port == (address.tls ? 443 : 80)) text.resize(text.rfind(':'));
    return text;
}

std::string origin(const http_address& address)
{
    return (address.tls ? "https://" : "http://") + host_and_port(address.host, address.port);
}

std::optional<std::uint16_t> parse_port(std::string_view digits)
{
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || end != digits.data() + digits.size() || port == 0) return std::nullopt;
    return port;
}

bool is_ip_literal(std::string_view host)
{
    boost::system::error_code error;
    boost::asio::ip::make_address(host, error);
    return !error;
}

bool is_loopback(std::string_view host)
{
    boost::system::error_code error;
    const auto ip = boost::asio::ip::make_address(host, error);
    if (!error) return ip.is_loopback();
    return host == "localhost" || host.ends_with(".localhost");
}

std::string escaped(std::string_view text)
{
    return boost::urls::encode(text, boost::urls::unreserved_chars);
}

std::string form(std::initializer_list<std::pair<std::string_view, std::string_view>> fields)
{
    std::string text;
    for (const auto& [key, value] : fields)
        text.append(text.empty() ? "" : "&").append(escaped(key)).append("=").append(escaped(value));
    return text;
}

std::string unescaped(std::string_view text, bool plus_is_blank)
{
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        unsigned char byte = 0;
        const auto* digits = text.data() + i + 1;
        if (text[i] == '%' && i + 2 < text.size() &&
            std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
            plain.push_back(static_cast<char>(byte));
            i += 2;
        } else {
            plain.push_back(plus_is_blank && text[i] == '+' ? ' ' : text[i]);
        }
    }
    return plain;
}

std::string host_of(std::string_view url)
{
    if (const auto scheme = url.find("://"); scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
    url = url.substr(0, url.find_first_of("/?#"));
    if (const auto user = url.rfind('@'); user != std::string_view::npos) url.remove_prefix(user + 1);
    return std::string(url);
}

}  // namespace io
