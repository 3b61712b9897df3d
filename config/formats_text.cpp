#include "config/formats.hpp"
#include "config/names.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace config {
namespace {

constexpr std::size_t longest_text = 1024;
constexpr std::size_t longest_argument = 64 << 10;
constexpr std::string_view own_unit = "exposure-agent";

std::string text_fault(const node& value, const format&)
{
    if (value.text.empty()) return "is empty; give it a value or remove the key";
    if (has_control(value.text)) return "holds a line break or a control character; write it in one line";
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
    return words && clean ? ""
                          : "is not a valid scope; write words separated by single spaces, as in openid "
                            "offline_access";
}

// RFC 7617 section 2
std::string username_fault(const node& value, const format& self)
{
    if (auto fault = text_fault(value, self); !fault.empty()) return fault;
    return value.text.find(':') == value.text.npos
               ? ""
               : "contains a colon; write the user name alone, and name the "
                 "source of the password in `password`";
}

std::string argument_fault(const node& value, const format&)
{
    const auto bad = std::any_of(value.text.begin(), value.text.end(), [](unsigned char c) {
        return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    });
    if (bad) return "holds a control character; remove it";
    return value.text.size() > longest_argument ? "is too long for an argument; put it into a script" : "";
}

// A format that one predicate tells: `is` says yes, or the sentence says what would be right.
template <bool (*is)(std::string_view), const std::string_view& wanted>
std::string name_fault(const node& value, const format&)
{
    return is(value.text) ? "" : quoted(value.text) + " " + std::string(wanted);
}

constexpr std::string_view name_wanted = "is no name; use 1 to 64 of a-z, 0-9 and -, the last one not a -";
constexpr std::string_view owner_wanted = "is no owner; use 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'";
constexpr std::string_view tenant_wanted =
    "is no tenant; use 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-', a letter or digit first";
constexpr std::string_view topic_wanted = "is no topic; use 1 to 249 of A-Z, a-z, 0-9, '.', '_' and '-'";
constexpr std::string_view email_wanted = "is no e-mail address; write it as team@example.com";
constexpr std::string_view account_wanted = "is no user or group; write its name or number";

// What a mistaken source of a secret holds may be the secret itself: it is not quoted.
std::string variable_fault(const node& value, const format&)
{
    return is_variable(value.text) ? ""
                                   : "is no environment variable; write its name alone, as in CLIENT_SECRET";
}

std::string credential_fault(const node& value, const format&)
{
    return is_credential(value.text)
               ? ""
               : "is no systemd credential; write the name that LoadCredential= gives it";
}

std::string unit_fault(const node& value, const format&)
{
    const auto unit = unit_name(value.text);
    if (!unit) return quoted(value.text) + " is no systemd unit; write it as vector.service";
    const auto stem = unit->substr(0, unit->find_first_of(".@"));
    if (stem == own_unit || stem.starts_with(std::string(own_unit) + "-"))
        return quoted(value.text) +
               " is the agent itself, which needs no restart; name the unit that uses the files";
    return {};
}

std::string path_fault(const node& value, const format&)
{
    if (!value.text.starts_with('/')) return "is no absolute path; begin it with /";
    return is_path(value.text)
               ? ""
               : "is no safe path; write it without '..', control characters and overlong parts";
}

std::string directory_fault(const node& value, const format& self)
{
    if (auto fault = path_fault(value, self); !fault.empty()) return fault;
    return normalised(value.text) == "/" ? "is the root directory; name a directory of its own" : "";
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
const format unit = {.fault = unit_fault, .pattern = "^[A-Za-z0-9:_\\\\][A-Za-z0-9:_.\\\\@-]*$"};
const format path = {.fault = path_fault, .pattern = "^/"};
const format directory = {.fault = directory_fault, .pattern = "^/."};

}  // namespace formats
}  // namespace config
