#pragma once

#include "agent/io/process.hpp"

#include <deque>
#include <utility>
#include <vector>

// The process port as a script: each run takes the next outcome, exit code 0 without output when none is
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
