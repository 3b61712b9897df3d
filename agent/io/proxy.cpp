#include "agent/io/proxy.hpp"

#include "agent/io/environment.hpp"
#include "crypto/digest.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include <algorithm>
#include <cctype>

namespace io {

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

// Takes a ":port" off the entry. An IPv6 address needs its brackets to have one.
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

// The network contains the address; false when either is none.
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
    // "proxy.example.com:3128" is as usual as the full URL
    const std::string url = text.find("://") == std::string::npos ? "http://" + text : text;
    const auto parsed = boost::urls::parse_uri(url);
    if (!parsed) return unusable_proxy("it is not a URL such as http://proxy.example.com:3128");
    if (parsed->scheme_id() != boost::urls::scheme::http)
        return unusable_proxy("its scheme is not http (https is tunnelled through it with CONNECT)");

    proxy out;
    out.host = parsed->host_address();
    if (out.host.empty()) return unusable_proxy("it has no host name");
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

// The first of the variables that says something.
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
