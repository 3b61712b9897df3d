#include "config/parse.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

// config::parse never throws, and each rejected text gets an error with a position inside that text.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    static const config::environment machine = {
        .hostname = "host", .variable = [](const std::string& name) -> std::optional<std::string> {
            return name == "SET" ? std::optional<std::string>("value") : std::nullopt;
        }};
    const auto result =
        config::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz.yaml", machine);
    if (result.state.has_value() == !result.errors.empty()) std::abort();
    for (const auto& mistake : result.errors)
        if (mistake.line < 1 || mistake.column < 1 || mistake.text.empty()) std::abort();
    return 0;
}
