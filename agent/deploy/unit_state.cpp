#include "agent/deploy/unit_state.hpp"

#include "agent/io/log_format.hpp"

#include <array>
#include <chrono>
#include <utility>

namespace deploy {
namespace {

using namespace std::chrono_literals;

constexpr auto time_to_answer = 10s;
constexpr std::array<std::pair<std::string_view, std::string policy::unit_facts::*>, 4> properties{{
    {"ActiveState", &policy::unit_facts::active_state},
    {"SubState", &policy::unit_facts::sub_state},
    {"Result", &policy::unit_facts::result},
    {"InvocationID", &policy::unit_facts::invocation_id},
}};

}  // namespace

policy::unit_facts parse_unit(std::string_view text)
{
    policy::unit_facts facts;
    while (!text.empty()) {
        const auto line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        for (const auto& [key, member] : properties)
            if (line.starts_with(key) && line.substr(key.size()).starts_with('='))
                facts.*member = io::printable(line.substr(key.size() + 1));
    }
    return facts;
}

io::task<policy::unit_facts> ask_unit(io::process& process, std::string systemctl, std::string unit)
{
    std::string wanted;
    for (const auto& [key, member] : properties)
        wanted += (wanted.empty() ? "" : ",") + std::string(key);
    io::process_request request{
        .argv = {std::move(systemctl), "show", "--property=" + wanted, std::move(unit)},
        .environment = {},
        .input = {},
        .timeout = time_to_answer};
    const auto outcome = co_await process.run(std::move(request));
    if (!outcome && outcome.error().code == policy::errc::stopping) co_return outcome.error();
    if (!outcome || !outcome->ok()) co_return policy::unit_facts{};
    co_return parse_unit(outcome->out);
}

}  // namespace deploy
