#include "config/addresses.hpp"
#include "config/formats.hpp"
#include "config/names.hpp"

#include <algorithm>
#include <string_view>

// No address is quoted: a user name with a password may stand in it.

namespace config {
namespace {

constexpr std::string_view unix_prefix = "unix:";
constexpr std::string_view api_suffix = "/api/v1";
constexpr std::size_t longest_socket_path = 107;  // sun_path without the NUL

std::string url_form_fault(const std::string& text)
{
    const auto scheme = std::min(text.find("://"), text.size());
    const auto authority = text.substr(scheme, text.find('/', std::min(scheme + 3, text.size())) - scheme);
    if (authority.find('@') != authority.npos)
        return "holds a user name or password; a secret does not belong into this file, write https://HOST "
               "alone";
    if (text.find_first_of("?#") != text.npos) return "holds a ? or a #; end the address before it";
    return "is no address; write it as https://HOST, https://HOST:PORT or https://HOST/PATH";
}

std::string https_fault(const node& value, const format&)
{
    const auto address = read_url(value.text);
    if (!address) return url_form_fault(value.text);
    if (address->scheme == "https") return {};
    if (address->scheme != "http") return "must begin with https://";
    return is_loopback(address->host) ? ""
                                      : "must begin with https://; plain http is for loopback hosts only";
}

// A token may stand in its path or query.
std::string webhook_fault(const node& value, const format& self)
{
    const auto query = value.text.find('?');
    node address = value;
    address.text.resize(std::min(query, address.text.size()));
    if (auto fault = https_fault(address, self); !fault.empty()) return fault;
    const auto rest = std::string_view(value.text).substr(address.text.size());
    const bool clean = std::all_of(rest.begin(), rest.end(), [](char c) {
        return c > ' ' && c < 0x7f && std::string_view("#\"<>\\^`{|}").find(c) == std::string_view::npos;
    });
    return clean ? "" : "is not a valid address; write it as https://HOST/PATH?QUERY";
}

std::string api_fault(const node& value, const format& self)
{
    if (auto fault = https_fault(value, self); !fault.empty()) return fault;
    const auto path = normalised(read_url(value.text)->path);
    return path.ends_with(api_suffix) ? "ends with /api/v1, which is appended anyway; leave it out" : "";
}

std::string proxy_fault(const node& value, const format&)
{
    const auto address = read_url(value.text);
    if (!address) return url_form_fault(value.text);
    if (address->scheme != "http")
        return "must begin with http://: the tunnel through the proxy is what is encrypted";
    return normalised(address->path) == "/" ? "" : "holds a path; write http://HOST:PORT alone";
}

std::string brokers_fault(const node& value, const format&)
{
    return read_host_ports(value.text)
               ? ""
               : "is no broker; write HOST:PORT, several joined by commas without blanks";
}

std::string listen_fault(const node& value, const format&)
{
    const std::string_view text = value.text;
    if (text.starts_with(unix_prefix)) {
        const auto path = text.substr(unix_prefix.size());
        return is_path(path) && path.size() <= longest_socket_path && !path.ends_with('/')
                   ? ""
                   : "is no socket; write unix:/PATH with an absolute path of at most 107 characters";
    }
    const auto address = read_host_port(text);
    if (!address) return "is no address; write 127.0.0.1:PORT or unix:/PATH";
    return is_loopback(address->host) ? ""
                                      : "would be open to the network without TLS; write 127.0.0.1:PORT or "
                                        "unix:/PATH and put a proxy before it";
}

}  // namespace

namespace formats {

const format https_url = {.fault = https_fault, .pattern = "^[Hh][Tt][Tt][Pp][Ss]?://[^?#@\\s]+$"};
const format api_url = {.fault = api_fault, .pattern = https_url.pattern};
const format webhook_url = {.fault = webhook_fault, .pattern = "^[Hh][Tt][Tt][Pp][Ss]?://[^#@\\s]+$"};
const format proxy_url = {.fault = proxy_fault, .pattern = "^[Hh][Tt][Tt][Pp]://[^?#@\\s]+$"};
const format brokers = {.fault = brokers_fault, .pattern = "^[^\\s,]+:[0-9]+(,[^\\s,]+:[0-9]+)*$"};
const format listen = {.fault = listen_fault, .pattern = "^(unix:/.+|.+:[0-9]+)$"};

}  // namespace formats
}  // namespace config
