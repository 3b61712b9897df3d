#include "agent/deploy/broker_probe.hpp"
#include "agent/deploy/spool.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// Input from other processes: names, requests and results in the spool, and the output of the verification
// program. What was read survives a round trip, and values passed in the environment of programs run by root
// stay single words.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto name = deploy::parse_spool_entry_name(text))
        if (deploy::spool_entry_name(*name) != text) std::abort();
    if (const auto request = deploy::read_spool_request(text)) {
        if (request->reason.find_first_of("\n =") != std::string::npos) std::abort();
        const auto written = deploy::write_spool_request(*request);
        if (!written || deploy::read_spool_request(*written) != request) std::abort();
    }
    if (const auto answer = deploy::read_spool_answer(text)) {
        const auto again = deploy::read_spool_answer(deploy::write_spool_answer(*answer));
        if (!again || again->ticket != answer->ticket) std::abort();
    }
    if (const auto answer = deploy::parse_probe_answer(text))
        if (answer->evidence.find('\n') != std::string::npos) std::abort();
    return 0;
}
