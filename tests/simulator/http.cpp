#include "http.hpp"

#include "text.hpp"

#include <boost/json.hpp>

namespace simulator {

namespace json = boost::json;

std::optional<std::string> find(const parameters& list, std::string_view name)
{
    for (const auto& [key, value] : list) {
        if (key == name) return value;
    }
    return std::nullopt;
}

parameters read_form(std::string_view text)
{
    parameters form;
    for (const auto& part : split(text, '&')) {
        if (part.empty()) continue;
        const auto equals = part.find('=');
        const auto value = equals == std::string::npos ? std::string{} : part.substr(equals + 1);
        form.emplace_back(percent_decode(part.substr(0, equals), true), percent_decode(value, true));
    }
    return form;
}

std::string request::field(std::string_view lower_case_name) const
{
    return find(fields, lower_case_name).value_or("");
}

std::vector<std::string> request::segments() const
{
    std::vector<std::string> parts;
    for (const auto& part : split(path, '/')) {
        if (!part.empty()) parts.push_back(percent_decode(part, false));
    }
    return parts;
}

response json_response(int status, const json::value& body)
{
    return {
        .status = status, .fields = {{"Content-Type", "application/json"}}, .body = json::serialize(body)};
}

response html_response(int status, std::string_view title)
{
    const std::string text{title};
    return {.status = status,
            .fields = {{"Content-Type", "text/html; charset=utf-8"}},
            .body = "<!DOCTYPE html><html><head><title>" + text + "</title></head><body><h1>" + text +
                    "</h1></body></html>\n"};
}

response problem(int status, std::string_view message)
{
    return json_response(status, {{"status", status}, {"message", message}});
}

}  // namespace simulator
