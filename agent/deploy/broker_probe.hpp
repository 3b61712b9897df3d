#pragma once

#include "agent/io/async.hpp"
#include "agent/io/process.hpp"
#include "crypto/secret.hpp"

#include <optional>
#include <string>
#include <string_view>

// Port: asks the broker, through exposure-agent-probe, whether it accepts a key and its certificate.

namespace deploy {

struct verify_request {
    std::string exposure;
    std::string user;
    std::string broker;
    std::optional<std::string> broker_ca_file;
    std::string topic;
    std::string consumer_group;
    crypto::secret key_pem;
    std::string certificate_pem;  // full chain
};

enum class verify_verdict {
    accepted,
    refused_tls,        // the broker does not accept the certificate
    topic_not_granted,  // the certificate is accepted, but the topic is not granted or does not exist (yet)
    group_not_granted,  // the certificate is accepted, but the consumer group is not granted (yet)
    unreachable,        // the broker could not be asked
};

struct verify_answer {
    verify_verdict verdict = verify_verdict::unreachable;
    std::string evidence;  // one sentence: what the broker reported
};

class broker_verifier {
public:
    virtual ~broker_verifier() = default;

    // One attempt with a deadline. Fails only if the probe itself could not run.
    virtual io::task<verify_answer> ask(verify_request) = 0;
};

// Asks the broker by running exposure-agent-probe, so that a crash or hang of the Kafka client
// cannot affect the agent.

class broker_probe final : public broker_verifier {
public:
    explicit broker_probe(io::process& process, std::string program = find_probe())
        : process_(process), program_(std::move(program))
    {
    }

    // Failure: errc::probe_unreachable if the probe could not run, hung, or printed no valid answer.
    io::task<verify_answer> ask(verify_request) override;

    // Next to this program's own file, else in /usr/bin or /usr/libexec.
    static std::string find_probe();

private:
    io::process& process_;
    std::string program_;
};

// Parses the probe's one line; errc::bad_answer if it is anything else.
[[nodiscard]] policy::result<verify_answer> parse_probe_answer(std::string_view line);

}  // namespace deploy
