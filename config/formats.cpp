#include "config/formats.hpp"

#include "config/values.hpp"
#include "policy/text.hpp"
#include "policy/words.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace config {
namespace {

// --- Text

constexpr std::size_t longest_text = 1024;
constexpr std::size_t longest_argument = 64 << 10;
constexpr std::string_view own_unit = "exposure-agent";

std::string text_fault(const node& value, const format&)
{
    if (value.text.empty()) return "is empty; give it a value or remove the key";
    if (has_control(value.text)) return "contains a line break or a control character; write it on one line";
    if (value.text.size() > longest_text)
        return "is longer than " + std::to_string(longest_text) + " bytes; shorten it";
    return {};
}

std::string note_fault(const node& value, const format& self)
{
    return value.text.empty() ? "" : text_fault(value, self);
}

// RFC 6749 section 3.3
std::string scope_fault(const node& value, const format& self)
{
    if (auto fault = text_fault(value, self); !fault.empty()) return fault;
    const std::string_view text = value.text;
    const bool words = text.front() != ' ' && text.back() != ' ' && text.find("  ") == text.npos;
    const bool clean = std::all_of(text.begin(), text.end(),
                                   [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
    return words && clean
               ? ""
               : "is not a valid scope; write words separated by single spaces, as in openid offline_access";
}

// RFC 7617 section 2
std::string username_fault(const node& value, const format& self)
{
    if (auto fault = text_fault(value, self); !fault.empty()) return fault;
    return value.text.find(':') == value.text.npos ? ""
                                                   : "contains a colon; write the user name alone, and name "
                                                     "the source of the password in `password`";
}

std::string argument_fault(const node& value, const format&)
{
    const auto bad = std::any_of(value.text.begin(), value.text.end(), [](unsigned char c) {
        return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    });
    if (bad) return "contains a control character; remove it";
    return value.text.size() > longest_argument ? "is too long for an argument; put it into a script" : "";
}

// A format defined by one predicate: `is` accepts the text, or `wanted` says what would be valid.
template <bool (*is)(std::string_view), const std::string_view& wanted>
std::string name_fault(const node& value, const format&)
{
    return is(value.text) ? "" : quoted(value.text) + " " + std::string(wanted);
}

constexpr std::string_view name_wanted =
    "is not a valid name; use 1 to 64 of a-z, 0-9 and -, the last one not a -";
constexpr std::string_view owner_wanted =
    "is not a valid owner; use 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'";
constexpr std::string_view tenant_wanted =
    "is not a valid tenant; use 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', a letter or digit first";
constexpr std::string_view topic_wanted =
    "is not a valid topic; use 1 to 249 of A-Z, a-z, 0-9, '.', '_' and '-'";
constexpr std::string_view email_wanted = "is not a valid e-mail address; write it as team@example.com";
constexpr std::string_view account_wanted = "is not a valid user or group; use its name or number";

// A misplaced value may be the secret itself, so it is never quoted.
std::string variable_fault(const node& value, const format&)
{
    return is_variable(value.text)
               ? ""
               : "is not the name of an environment variable; use the name alone, as in CLIENT_SECRET";
}

std::string credential_fault(const node& value, const format&)
{
    return is_credential(value.text)
               ? ""
               : "is not a valid credential name; use the name that LoadCredential= gives it";
}

std::string unit_fault(const node& value, const format&)
{
    const auto unit = unit_name(value.text);
    if (!unit) return quoted(value.text) + " is not a valid unit name; use for example vector.service";
    const auto stem = unit->substr(0, unit->find_first_of(".@"));
    if (stem == own_unit || stem.starts_with(std::string(own_unit) + "-"))
        return quoted(value.text) +
               " is the agent itself, which needs no restart; use the unit that uses the files";
    return {};
}

std::string path_fault(const node& value, const format&)
{
    if (!value.text.starts_with('/')) return "is not an absolute path; start it with /";
    return is_path(value.text)
               ? ""
               : "is not a safe path; use one without '..', control characters or overlong parts";
}

std::string directory_fault(const node& value, const format& self)
{
    if (auto fault = path_fault(value, self); !fault.empty()) return fault;
    return normalised(value.text) == "/" ? "is the root directory; use a directory below it" : "";
}

// --- Addresses. Never quoted in messages: they may contain a user name and password.

constexpr std::string_view unix_prefix = "unix:";
constexpr std::string_view api_suffix = "/api/v1";
constexpr std::size_t longest_socket_path = 107;  // sun_path without the NUL

std::string url_form_fault(const std::string& text)
{
    const auto scheme = std::min(text.find("://"), text.size());
    const auto authority = text.substr(scheme, text.find('/', std::min(scheme + 3, text.size())) - scheme);
    if (authority.find('@') != authority.npos)
        return "contains a user name or password; a secret does not belong in this file, write https://HOST "
               "alone";
    if (text.find_first_of("?#") != text.npos) return "contains ? or #; end the address before it";
    return "is not a valid address; use it as https://HOST, https://HOST:PORT or https://HOST/PATH";
}

std::string https_fault(const node& value, const format&)
{
    const auto address = read_url(value.text);
    if (!address) return url_form_fault(value.text);
    if (address->scheme == "https") return {};
    if (address->scheme != "http") return "must start with https://";
    return policy::is_loopback(address->host)
               ? ""
               : "must start with https://; plain http is for loopback hosts only";
}

// Webhook paths and queries may contain a token.
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
        return "must start with http://; TLS is used inside the tunnel through the proxy";
    return normalised(address->path) == "/" ? "" : "contains a path; use http://HOST:PORT alone";
}

std::string brokers_fault(const node& value, const format&)
{
    return read_host_ports(value.text)
               ? ""
               : "is not a valid broker address; use HOST:PORT, several joined by commas without blanks";
}

std::string listen_fault(const node& value, const format&)
{
    const std::string_view text = value.text;
    if (text.starts_with(unix_prefix)) {
        const auto path = text.substr(unix_prefix.size());
        return is_path(path) && path.size() <= longest_socket_path && !path.ends_with('/')
                   ? ""
                   : "is not a valid socket; use unix:/PATH with an absolute path of at most 107 characters";
    }
    const auto address = read_host_port(text);
    if (!address) return "is not a valid address; use 127.0.0.1:PORT or unix:/PATH";
    return policy::is_loopback(address->host)
               ? ""
               : "would be open to the network without TLS; write 127.0.0.1:PORT or "
                 "unix:/PATH and put a reverse proxy in front of it";
}

// --- Numbers, durations and words

constexpr int longest_duration = 3650 * 86400;  // ten years: longer than any certificate is valid

std::string boolean_fault(const node& value, const format&)
{
    if (!read_boolean(value.text)) return quoted(value.text) + " is not a boolean; use true or false";
    return value.plain ? "" : "is a quoted string; write " + value.text + " without quotes";
}

std::string integer_fault(const node& value, const format& self)
{
    const auto range = std::to_string(self.least) + " to " + std::to_string(self.most);
    const auto number = read_integer(value.text);
    if (!number) return quoted(value.text) + " is not a plain decimal number; use one from " + range;
    if (!value.plain) return "is a quoted string; write " + value.text + " without quotes";
    if (*number < self.least || *number > self.most) return value.text + " is out of range; use " + range;
    return {};
}

std::string version_fault(const node& value, const format& self)
{
    return integer_fault(value, self).empty() ? ""
                                              : quoted(value.text) + " is not known to this program; write 1";
}

std::string duration_range_fault(policy::duration duration, const format& self)
{
    if (duration.count() < self.least)
        return "is too short; use at least " + std::to_string(self.least) + "s";
    if (duration.count() > self.most)
        return "is too long; use at most " + std::to_string(self.most / 86400) + "d";
    return {};
}

std::string duration_fault(const node& value, const format& self)
{
    const auto duration = read_duration(value.text);
    if (duration) return duration_range_fault(*duration, self);
    if (read_integer(value.text)) return value.text + " has no unit; use for example " + value.text + "s";
    return quoted(value.text) + " is not a valid duration; use for example 90s, 15m, 12h, 30d, 2w or 1d12h";
}

std::string lead_fault(const node& value, const format& self)
{
    const auto lead = read_lead(value.text);
    if (!lead && read_integer(value.text))
        return value.text + " has no unit; use " + value.text + "% of the lifetime or " + value.text + "d";
    if (!lead)
        return quoted(value.text) +
               " is not a valid lead time; use a share such as 33% or a duration such as 90d";
    if (const auto* share = std::get_if<policy::percent>(&*lead))
        return share->value >= 1 && share->value <= 99 ? "" : value.text + " is out of range; use 1% to 99%";
    return duration_range_fault(std::get<policy::duration>(*lead), self);
}

std::string mode_fault(const node& value, const format&)
{
    const auto mode = read_mode(value.text);
    if (!mode) return quoted(value.text) + " is not a valid mode; use octal digits, as in 0640";
    if (*mode & 0111) return quoted(value.text) + " makes the file executable; use for example 0640";
    if (*mode & 0002) return quoted(value.text) + " lets everyone write the file; use for example 0640";
    if (!(*mode & 0400)) return quoted(value.text) + " does not let the owner read it; use for example 0640";
    return {};
}

constexpr const char* duration_pattern = "^([0-9]+[wdhms])+$";

// --- Canonical spelling of values

std::string clean_path(const std::string& text)
{
    return normalised(text);
}

std::string full_unit_name(const std::string& text)
{
    return unit_name(text).value_or(text);
}

std::string without_slashes(const std::string& address)
{
    return address.substr(0, address.find_last_not_of('/') + 1);
}

}  // namespace

namespace formats {

const format text = {.fault = text_fault};
const format note = {.fault = note_fault};
const format scope = {.fault = scope_fault};
const format username = {.fault = username_fault, .pattern = "^[^:]+$"};
const format argument = {.fault = argument_fault};
const format name = {.fault = name_fault<is_name, name_wanted>, .pattern = "^[a-z0-9-]{0,63}[a-z0-9]$"};
const format owner = {.fault = name_fault<is_owner, owner_wanted>, .pattern = "^[A-Za-z0-9._-]{1,64}$"};
const format tenant = {.fault = name_fault<is_tenant, tenant_wanted>,
                       .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"};
const format topic = {.fault = name_fault<is_topic, topic_wanted>, .pattern = "^[A-Za-z0-9._-]{1,249}$"};
const format email = {.fault = name_fault<is_email, email_wanted>, .pattern = "^[^@\\s]+@[A-Za-z0-9.-]+$"};
const format account = {.fault = name_fault<is_account, account_wanted>, .pattern = "^[^\\s/:,-][^\\s/:,]*$"};
const format variable = {.fault = variable_fault, .pattern = "^[A-Za-z_][A-Za-z0-9_]*$"};
const format credential = {.fault = credential_fault, .pattern = "^[^\\s/:]+$"};
const format unit = {
    .fault = unit_fault, .pattern = "^[A-Za-z0-9:_\\\\][A-Za-z0-9:_.\\\\@-]*$", .canonical = full_unit_name};
const format path = {.fault = path_fault, .pattern = "^/", .canonical = clean_path};
const format directory = {.fault = directory_fault, .pattern = "^/.", .canonical = clean_path};

const format redirect_url = {.fault = https_fault, .pattern = "^[Hh][Tt][Tt][Pp][Ss]?://[^?#@\\s]+$"};
const format https_url = {
    .fault = https_fault, .pattern = redirect_url.pattern, .canonical = without_slashes};
const format api_url = {.fault = api_fault, .pattern = https_url.pattern, .canonical = without_slashes};
const format webhook_url = {.fault = webhook_fault, .pattern = "^[Hh][Tt][Tt][Pp][Ss]?://[^#@\\s]+$"};
const format proxy_url = {
    .fault = proxy_fault, .pattern = "^[Hh][Tt][Tt][Pp]://[^?#@\\s]+$", .canonical = without_slashes};
const format brokers = {.fault = brokers_fault, .pattern = "^[^\\s,]+:[0-9]+(,[^\\s,]+:[0-9]+)*$"};
const format listen = {.fault = listen_fault, .pattern = "^(unix:/.+|.+:[0-9]+)$"};

const format boolean = {.fault = boolean_fault, .type = "boolean"};
const format version = {.fault = version_fault, .type = "integer", .least = 1, .most = 1};
const format connections = {.fault = integer_fault, .type = "integer", .least = 1, .most = 256};
const format deletes = {.fault = integer_fault, .type = "integer", .least = 0, .most = 100000};
const format creates = {.fault = integer_fault, .type = "integer", .least = 1, .most = 1000};
const format refresh_interval = {
    .fault = duration_fault, .pattern = duration_pattern, .least = 30, .most = longest_duration};
const format duration = {
    .fault = duration_fault, .pattern = duration_pattern, .least = 1, .most = longest_duration};
const format duration_or_none = {
    .fault = duration_fault, .pattern = duration_pattern, .least = 0, .most = longest_duration};
const format lead = {
    .fault = lead_fault, .pattern = "^([0-9]{1,2}%|([0-9]+[wdhms])+)$", .least = 1, .most = longest_duration};
const format mode = {.fault = mode_fault, .type = "mode", .pattern = "^0?[0-7]{3}$"};

std::string word_fault(const node& value, const format& self)
{
    const std::vector<std::string> known(self.words.begin(), self.words.end());
    std::string list;
    for (const auto& word : known) {
        if (word == value.text) return {};
        list += (list.empty() ? "" : ", ") + word;
    }
    const auto near = policy::nearest(value.text, known);
    return quoted(value.text) + " is not known; " +
           (near.empty() ? "use one of " + list : "did you mean " + near + "? Known: " + list);
}

}  // namespace formats
}  // namespace config
