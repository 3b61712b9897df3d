#include "policy/credential.hpp"

#include "policy/fingerprint.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace policy {
namespace {

std::string for_sh(const std::string& value)
{
    std::string quoted = "'";
    for (const char c : value)
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

// A JSON string, which is also a YAML double-quoted scalar.
std::string for_json(const std::string& value)
{
    std::string quoted = "\"";
    for (const char c : value) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            quoted += std::string{'\\', c};
        } else if (byte < 0x20 || byte == 0x7f) {
            std::array<char, 8> escape{};
            std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
            quoted += escape.data();
        } else {
            quoted += c;
        }
    }
    return quoted + "\"";
}

std::string as_json(const std::map<std::string, std::string>& values)
{
    std::string text = "{\n";
    for (auto it = values.begin(); it != values.end(); ++it)
        text += "  " + for_json(it->first) + ": " + for_json(it->second) +
                (std::next(it) == values.end() ? "\n" : ",\n");
    return text + "}\n";
}

}  // namespace

instant fetch_due_at(const desired_credential& c, const credential_facts& facts)
{
    const bool changed = facts.wanted != entry_fingerprint(c);
    if (facts.next_attempt && !changed) return *facts.next_attempt;
    if (changed || !facts.file_there || !facts.fetched_at) return instant{};
    return *facts.fetched_at + c.interval;
}

result<std::string> render_values(values_format format, const std::map<std::string, std::string>& values)
{
    for (const auto& [name, value] : values)
        if (value.find('\0') != std::string::npos)
            return failure{.code = errc::refused,
                           .context = "the value of " + name +
                                      " contains a NUL byte, which no file format can represent",
                           .kind = retry::after_change};
    if (format == values_format::json) return as_json(values);
    std::string text;
    for (const auto& [name, value] : values)
        text += format == values_format::env ? name + "=" + for_sh(value) + "\n"
                                             : name + ": " + for_json(value) + "\n";
    return text;
}

}  // namespace policy
