#include "agent/platform/json.hpp"

#include <boost/json.hpp>

#include <array>
#include <charconv>

namespace platform {

namespace json = boost::json;

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

// As a person writes it: no exponent, no trailing zeros.
std::string number_text(double value)
{
    std::array<char, 400> digits;  // the largest double has 309 in front of the point
    const auto end = std::to_chars(digits.begin(), digits.end(), value, std::chars_format::fixed).ptr;
    return std::string(digits.begin(), end);
}

}  // namespace

policy::failure unexpected_answer(std::string context)
{
    return {.code = policy::errc::bad_answer, .context = std::move(context), .kind = policy::retry::later};
}

policy::result<json::value> parse_json(std::string_view text, json::storage_ptr storage)
{
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    boost::system::error_code error;
    auto value = json::parse(json::string_view(text.data(), text.size()), error, std::move(storage));
    if (!error) return value;
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return unexpected_answer("it has no content");
    if (text[first] == '<') return unexpected_answer("it is an HTML page (of a login or a proxy?), not JSON");
    return unexpected_answer("it is not JSON (" + error.message() + ")");
}

policy::result<json::object> parse_object(std::string_view text, json::storage_ptr storage)
{
    auto value = parse_json(text, std::move(storage));
    if (!value) return value.error();
    if (!value->is_object()) return unexpected_answer("it is not a JSON object");
    return std::move(value->get_object());
}

std::string text_of(const json::object& object, std::string_view key)
{
    const auto* member = object.if_contains(json::string_view(key.data(), key.size()));
    if (member == nullptr) return {};
    if (const auto* text = member->if_string()) return std::string(text->data(), text->size());
    if (const auto* number = member->if_int64()) return std::to_string(*number);
    if (const auto* number = member->if_uint64()) return std::to_string(*number);
    if (const auto* number = member->if_double()) return number_text(*number);
    return {};
}

const json::object* object_of(const json::object& object, std::string_view key)
{
    const auto* member = object.if_contains(json::string_view(key.data(), key.size()));
    return member == nullptr ? nullptr : member->if_object();
}

}  // namespace platform
