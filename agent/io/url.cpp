#include "agent/io/url.hpp"

#include "agent/io/environment.hpp"
#include "crypto/digest.hpp"
#include "policy/text.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
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

// Judged after decoding: "%3a" in a name would otherwise become the colon before a port.
bool is_usable_host(const std::string& host)
{
    return !host.empty() && std::all_of(host.begin(), host.end(), is_host_character) &&
           (host.find(':') == std::string::npos || is_ip_literal(host));
}

}  // namespace

policy::result<http_address> parse_http_address(std::string_view url)
{
    // The URL itself is not in the message: its query may contain a secret.
    const auto parsed = boost::urls::parse_uri({url.data(), url.size()});
    if (!parsed) return unusable("the address is not an absolute URL");
    const auto& parts = *parsed;

    const std::string scheme(parts.scheme());
    http_address address;
    address.tls = parts.scheme_id() == boost::urls::scheme::https;
    if (!address.tls && parts.scheme_id() != boost::urls::scheme::http)
        return unusable("the scheme " + scheme + " is not supported; use https");
    if (parts.has_userinfo()) return unusable("an address must not contain a user name or a password");
    if (parts.has_fragment()) return unusable("an address must not contain a fragment");

    address.host = parts.host_address();
    std::transform(address.host.begin(), address.host.end(), address.host.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (!is_usable_host(address.host)) return unusable("the address has no usable host name");

    address.port = address.tls ? 443 : 80;
    if (parts.has_port() && !parts.port().empty()) {
        const auto port = parse_port(parts.port());
        if (!port) return unusable("the address has no usable port");
        address.port = *port;
    }
    if (!address.tls && !policy::is_loopback(address.host))
        return unusable("plain http is for loopback only; use https://" + address.host);

    address.target = std::string(parts.encoded_path());
    if (address.target.empty()) address.target = "/";
    // Boost.URL 1.81 takes what follows the bracket of [::1]443 for a path
    if (address.target.front() != '/') return unusable("the address has no usable port");
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

namespace ip = boost::asio::ip;

namespace {

std::string lower(std::string_view text)
{
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

std::string_view without_trailing_dot(std::string_view host)
{
    if (host.ends_with('.')) host.remove_suffix(1);
    return host;
}

// Consumes a ":port" at the end of the entry. An IPv6 address needs brackets to have one.
std::optional<std::uint16_t> take_port(std::string_view& entry)
{
    const auto colon = entry.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const bool bracketed = entry.starts_with('[') && entry[colon - 1] == ']';
    if (!bracketed && entry.find(':') != colon) return std::nullopt;
    const auto digits = entry.substr(colon + 1);
    const auto port = parse_port(digits);
    if (!port) return std::nullopt;
    entry = entry.substr(0, colon);
    return port;
}

// True when the network contains the address; false when either cannot be parsed.
bool network_contains(std::string_view network, std::string_view host)
{
    boost::system::error_code error;
    const auto address = ip::make_address(host, error);
    if (error) return false;
    if (address.is_v4()) {
        const auto net = ip::make_network_v4(network, error);
        return !error && ip::network_v4(address.to_v4(), net.prefix_length()).canonical() == net.canonical();
    }
    const auto net = ip::make_network_v6(network, error);
    return !error && ip::network_v6(address.to_v6(), net.prefix_length()).canonical() == net.canonical();
}

bool matches(std::string_view entry, const http_address& to)
{
    if (entry == "*") return true;
    const auto host = without_trailing_dot(to.host);
    if (entry.find('/') != std::string_view::npos) return network_contains(entry, host);

    const auto port = take_port(entry);
    if (port && *port != to.port) return false;
    if (entry.starts_with('[') && entry.ends_with(']')) entry = entry.substr(1, entry.size() - 2);
    if (entry.starts_with('*')) entry.remove_prefix(1);
    if (entry.starts_with('.')) entry.remove_prefix(1);
    entry = without_trailing_dot(entry);
    if (entry.empty()) return false;

    boost::system::error_code not_an_address;
    const auto address = ip::make_address(entry, not_an_address);
    boost::system::error_code host_is_a_name;
    const auto host_address = ip::make_address(host, host_is_a_name);
    if (!not_an_address || !host_is_a_name)
        return !not_an_address && !host_is_a_name && address == host_address;
    return host == entry || (host.ends_with(entry) && host[host.size() - entry.size() - 1] == '.');
}

policy::failure unusable_proxy(std::string why)
{
    return {policy::errc::not_connected,
            "the proxy (network.proxy or $HTTPS_PROXY) cannot be used: " + std::move(why),
            policy::retry::after_change, std::nullopt};
}

policy::result<proxy> parse_proxy(const std::string& text)
{
    // "proxy.example.com:3128" is as common as the full URL
    const std::string url = text.find("://") == std::string::npos ? "http://" + text : text;
    const auto parsed = boost::urls::parse_uri(url);
    if (!parsed) return unusable_proxy("it is not a URL such as http://proxy.example.com:3128");
    if (parsed->scheme_id() != boost::urls::scheme::http)
        return unusable_proxy("its scheme is not http (https is tunnelled through it with CONNECT)");

    proxy out;
    out.host = parsed->host_address();
    if (!is_usable_host(out.host)) return unusable_proxy("it has no usable host name");
    if (parsed->has_port() && !parsed->port().empty()) {
        const auto port = parse_port(parsed->port());
        if (!port) return unusable_proxy("it has no usable port");
        out.port = *port;
    }
    if (parsed->has_userinfo()) {
        auto user = parsed->userinfo();  // decoded
        if (!parsed->has_password()) user += ':';
        out.authorization = basic_authorization(user);
        crypto::wipe(user);
    }
    return out;
}

// The first of the two variables that is set and not empty.
std::optional<std::string> first_of(const char* upper, const char* lower_case)
{
    auto value = environment(upper);
    if (!value || value->empty()) value = environment(lower_case);
    return value && !value->empty() ? value : std::nullopt;
}

}  // namespace

proxy_environment read_proxy_environment()
{
    return {first_of("HTTPS_PROXY", "https_proxy"), first_of("NO_PROXY", "no_proxy")};
}

crypto::secret basic_authorization(std::string_view user_and_password)
{
    auto encoded = crypto::base64(user_and_password);
    std::string value;
    value.reserve(encoded.size() + 6);
    value.append("Basic ").append(encoded);
    crypto::wipe(encoded);
    return crypto::secret(std::move(value));
}

bool bypasses_proxy(const http_address& to, std::string_view no_proxy)
{
    const auto list = lower(no_proxy);
    std::string_view rest = list;
    while (!rest.empty()) {
        const auto end = std::min(rest.find_first_of(", \t"), rest.size());
        const auto entry = rest.substr(0, end);
        if (!entry.empty() && matches(entry, to)) return true;
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
}

policy::result<std::optional<proxy>> proxy_for(const http_address& to,
                                               const std::optional<std::string>& configured,
                                               const proxy_environment& environment)
{
    const auto& chosen = configured ? configured : environment.https_proxy;
    if (!to.tls || !chosen || chosen->empty()) return std::optional<proxy>();
    if (environment.no_proxy && bypasses_proxy(to, *environment.no_proxy)) return std::optional<proxy>();
    auto parsed = parse_proxy(*chosen);
    if (!parsed) return parsed.error();
    return std::optional<proxy>(std::move(*parsed));
}

}  // namespace io
