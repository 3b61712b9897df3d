#include "agent/platform/response.hpp"

#include "agent/io/url.hpp"
#include "agent/platform/json.hpp"
#include "policy/dates.hpp"
#include "policy/text.hpp"

#include <boost/beast/http/status.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>

namespace platform {
namespace {

constexpr std::string_view mask = "[hidden]";
constexpr std::size_t longest_word = 40;  // longer than a UUID, shorter than a token

bool is_token_character(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.' || c == '~' || c == '+' || c == '=';
}

// How many characters at the start of the text spell the byte: raw, percent-encoded or escaped as in JSON.
std::size_t spelled(std::string_view text, char byte, bool encoded)
{
    const auto code = [&](std::string_view prefix, std::size_t digits) {
        if (!text.starts_with(prefix) || text.size() < prefix.size() + digits) return false;
        unsigned value = 0;
        const auto* first = text.data() + prefix.size();
        const auto [end, error] = std::from_chars(first, first + digits, value, 16);
        return error == std::errc() && end == first + digits && value == static_cast<unsigned char>(byte);
    };
    if (encoded && code("%", 2)) return 3;
    if (encoded && code("\\u", 4)) return 6;
    if (encoded && text.size() > 1 && text[0] == '\\' && text[1] == byte) return 2;
    if (encoded && byte == ' ' && text.starts_with('+')) return 1;
    return text.starts_with(byte) ? 1 : 0;
}

// The length of the secret at the start of the text; 0: it is not there.
std::size_t secret_length(std::string_view text, std::string_view secret, bool encoded)
{
    std::size_t length = 0;
    for (const char byte : secret) {
        const auto step = spelled(text.substr(length), byte, encoded);
        if (step == 0) return 0;
        length += step;
    }
    return length;
}

// Servers and proxies echo a request's body, in which secrets are percent-encoded.
std::string without_secrets(std::string_view text, std::span<const std::string_view> hidden)
{
    std::string kept;
    while (!text.empty()) {
        std::size_t length = 0;
        for (const auto secret : hidden)
            length =
                std::max({length, secret_length(text, secret, false), secret_length(text, secret, true)});
        if (length == 0)
            kept.push_back(text.front());
        else
            kept.append(mask);
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return kept;
}

// The length of the run of token characters, base64's included, at the start of the text.
std::size_t token_length(std::string_view text)
{
    return static_cast<std::size_t>(std::ranges::find_if_not(text, is_token_character) - text.begin());
}

std::string without_tokens(std::string_view text)
{
    std::string kept;
    bool credential = false;  // the next word is a credential, whatever its length
    while (!text.empty()) {
        const auto length = token_length(text);
        if (length == 0) {
            kept.push_back(text.front());
            text.remove_prefix(1);
            continue;
        }
        const auto word = text.substr(0, length);
        kept.append(credential || length > longest_word ? mask : word);
        credential = word == "Bearer" || word == "Basic" || word == "bearer" || word == "basic";
        text.remove_prefix(length);
    }
    return kept;
}

// Each run of blanks and control characters becomes one space.
std::string on_one_line(std::string_view text)
{
    std::string line;
    for (const char c : text) {
        const bool visible = static_cast<unsigned char>(c) > ' ' && c != '\x7f';
        if (visible)
            line.push_back(c);
        else if (!line.empty() && line.back() != ' ')
            line.push_back(' ');
    }
    if (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

// Cuts at a character boundary, so that no partial UTF-8 sequence is left.
std::string shortened(std::string text)
{
    if (text.size() <= shown_length) return text;
    auto end = shown_length;
    while (end > 0 && policy::is_continuation(text[end]))
        --end;
    return text.substr(0, end) + "...";
}

}  // namespace

std::string redact(std::string_view text, std::span<const std::string_view> hidden)
{
    const auto line = without_secrets(text.substr(0, 16 * shown_length), hidden);
    return shortened(without_tokens(on_one_line(line)));
}

namespace json = boost::json;

namespace {

using policy::errc;
using policy::retry;

constexpr policy::duration longest_wait = std::chrono::hours(24);  // the longest Retry-After honored

struct meaning {
    errc code;
    retry kind;
};

meaning meaning_of(unsigned status)
{
    switch (status) {
        case 401:
            return {errc::unauthorized, retry::after_change};
        case 403:
            return {errc::forbidden, retry::after_change};
        case 404:
        case 410:
            return {errc::not_found, retry::later};
        case 408:
        case 425:
        case 429:
            return {errc::throttled, retry::later};
        default:
            break;
    }
    if (status >= 500) return {errc::unavailable, retry::later};
    if (status >= 400) return {errc::refused, retry::after_change};
    return {errc::bad_answer, retry::later};
}

// RFC 7807, the usual {message} and {error}, and the catalog service's {errors: [{message, systemMessage}]}.
std::string reason_of(const json::object& body)
{
    std::string reason;
    for (const auto key :
         {"error", "code", "title", "message", "error_description", "errorMessage", "detail"}) {
        const auto text = text_of(body, key);
        if (!text.empty()) reason.append(reason.empty() ? "" : ": ").append(text);
    }
    if (const auto* inner = object_of(body, "error")) reason += reason_of(*inner);
    const auto* errors = body.if_contains("errors");
    if (errors == nullptr || !errors->is_array()) return reason;
    for (const auto& entry : errors->get_array()) {
        std::string text;
        if (entry.is_string()) text = std::string(entry.get_string());
        if (const auto* inner = entry.if_object()) text = reason_of(*inner);
        if (!text.empty()) reason.append(reason.empty() ? "" : "; ").append(text);
    }
    return reason;
}

// The title of an HTML page, where a proxy names the reason for its error; empty if there is none.
std::string_view title_of(std::string_view page)
{
    constexpr std::string_view tag = "<title";
    const auto matches = [](char c, char wanted) {
        return (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) == wanted;
    };
    // clang 14 cannot compile std::ranges::search of libstdc++ 12
    const auto found = std::search(page.begin(), page.end(), tag.begin(), tag.end(), matches);
    const auto start = page.find('>', static_cast<std::size_t>(found - page.begin()));
    if (start == std::string_view::npos) return {};
    return page.substr(start + 1, page.find('<', start) - start - 1);
}

// Names only the host of a redirect: its query may carry secrets.
std::string redirected_to(const io::http_response& answer)
{
    const auto host = io::host_of(header(answer, "location"));
    if (host.empty()) return "a redirect";
    return "a redirect to " + redact(host) + " (a login page or a proxy?); check the address";
}

}  // namespace

std::string_view header(const io::http_response& answer, const std::string& lower_case_name)
{
    const auto found = answer.headers.find(lower_case_name);
    return found == answer.headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string reason_in(std::string_view body, std::span<const std::string_view> hidden)
{
    if (const auto object = parse_object(body)) return redact(reason_of(*object), hidden);
    const auto first = body.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || body[first] == '{') return {};
    return redact(body[first] == '<' ? title_of(body) : body, hidden);
}

std::optional<policy::duration> retry_after(const io::http_response& answer, policy::instant now)
{
    const auto text = header(answer, "retry-after");
    if (text.empty()) return std::nullopt;
    long long seconds = 0;
    const auto end = text.data() + text.size();
    if (std::from_chars(text.data(), end, seconds).ptr != end) {
        const auto date = policy::parse_date(text);
        if (!date) return std::nullopt;
        seconds = (*date - now).count();
    }
    return policy::duration(std::clamp<long long>(seconds, 0, longest_wait.count()));
}

policy::failure failure_of(const io::http_response& answer, std::string_view what, std::string_view host,
                           policy::instant now, std::span<const std::string_view> hidden)
{
    const auto [code, kind] = meaning_of(answer.status);
    std::string sentence =
        std::string(what) + ": " + std::string(host) + " answered " + std::to_string(answer.status);
    if (const auto words =
            boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(answer.status));
        boost::beast::http::int_to_status(answer.status) != boost::beast::http::status::unknown)
        sentence.append(" ").append(words);
    if (answer.status >= 300 && answer.status < 400) {
        sentence += ", " + redirected_to(answer);
        return {.code = code, .context = std::move(sentence), .kind = kind};
    }
    if (const auto reason = reason_in(answer.body, hidden); !reason.empty()) sentence += " (" + reason + ")";
    return {
        .code = code, .context = std::move(sentence), .kind = kind, .retry_after = retry_after(answer, now)};
}

}  // namespace platform
