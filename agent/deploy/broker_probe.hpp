#pragma once

#include "agent/deploy/broker_proof.hpp"
#include "agent/io/process.hpp"

#include <string>
#include <string_view>

// The broker proof by running exposure-agent-probe: a crash or a hang of the Kafka client cannot touch the
// agent.

namespace deploy {

class broker_probe final : public broker_proof {
public:
    explicit broker_probe(io::process& process, std::string program = find_probe())
        : process_(process), program_(std::move(program))
    {
    }

    // Failure: errc::probe_unreachable when the probe could not run, hung, or said nothing that makes sense.
    io::task<proof_answer> ask(proof_request) override;

    // Beside this program's own file, else in /usr/bin or /usr/libexec.
    static std::string find_probe();

private:
    io::process& process_;
    std::string program_;
};

// The probe's one line; errc::bad_answer when it is another.
[[nodiscard]] policy::result<proof_answer> parse_probe_answer(std::string_view line);

}  // namespace deploy
