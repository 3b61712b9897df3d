#pragma once

#include "agent/io/awaitable.hpp"
#include "crypto/secret.hpp"

#include <optional>
#include <string>

// Port: asks the broker, through exposure-agent-probe, whether it accepts a pair of key and certificate.

namespace deploy {

struct proof_request {
    std::string exposure;
    std::string user;
    std::string broker;
    std::optional<std::string> broker_ca_file;
    std::string topic;
    std::string consumer_group;
    crypto::secret key_pem;
    std::string certificate_pem;  // full chain
};

enum class proof_verdict {
    accepted,
    refused_tls,     // the broker does not take the certificate
    not_authorized,  // it takes the certificate, but topic or group are not granted (yet)
    unreachable,     // the broker could not be asked
};

struct proof_answer {
    proof_verdict verdict = proof_verdict::unreachable;
    std::string evidence;  // one sentence: what the broker said
};

class broker_proof {
public:
    virtual ~broker_proof() = default;

    // One attempt with a deadline. Failure only when the probe itself could not run.
    virtual io::task<proof_answer> ask(proof_request) = 0;
};

}  // namespace deploy
