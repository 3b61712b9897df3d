#include "agent/platform/address.hpp"

#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>

#include <charconv>

namespace platform {

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

}  // namespace platform
