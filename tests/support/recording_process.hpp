#pragma once

#include "agent/io/process.hpp"

#include <deque>
#include <utility>
#include <vector>

// A scripted process port: each run returns the next outcome, or exit code 0 without output once none are
// left.

namespace support {

class recording_process final : public io::process {
public:
    io::task<io::process_outcome> run(io::process_request request) override
    {
        requests.push_back(std::move(request));
        if (outcomes.empty()) co_return io::process_outcome{.exit_code = 0, .out = {}, .err = {}};
        auto next = std::move(outcomes.front());
        outcomes.pop_front();
        co_return next;
    }

    std::deque<policy::result<io::process_outcome>> outcomes;
    std::vector<io::process_request> requests;
};

}  // namespace support
