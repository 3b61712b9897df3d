#pragma once

#include <optional>
#include <string>
#include <string_view>

// How the probe tells a refused certificate from an unreachable broker. Part of
// exposure-agent-probe; depends on the wording of librdkafka's messages (2.0), not on its headers.

namespace deploy {

// The probe's one line of output: the value of "verdict", and one sentence.
struct probe_answer {
    std::string verdict;
    std::string evidence;

    bool operator==(const probe_answer&) const = default;
};

// Interprets what librdkafka reports about connections. Under TLS 1.3 a refusal arrives after the
// client's own handshake is complete (RFC 8446 section 4.4.2.4): as an alert at the first read
// or, if the broker's reset overtakes the alert, as a bare disconnect before the first response.
class connection_watch {
public:
    // The message of the error callback; all_down: all brokers of the list are unreachable.
    void reported(std::string_view reason, bool all_down);

    // A log line of the debug context "broker".
    void logged(std::string_view line);

    // The verdict so far: refused_tls or unreachable; none: keep asking.
    std::optional<probe_answer> verdict() const;

    // The last error.
    const std::string& last() const { return last_; }

private:
    bool all_down_ = false;
    bool greeted_ = false;   // a handshake was completed, as far as the client knows
    bool answered_ = false;  // a broker answered a request, so it accepted the certificate
    int cut_offs_ = 0;       // connections that ended between handshake and first response
    std::string alert_;
    std::string distrust_;
    std::string last_ = "no answer";
};

}  // namespace deploy
