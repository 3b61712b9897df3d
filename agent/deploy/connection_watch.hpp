#pragma once

#include <optional>
#include <string>
#include <string_view>

// How the probe tells a refused certificate from a broker that is away. Part of exposure-agent-probe; knows
// librdkafka's sentences (2.0), not its headers.

namespace deploy {

// One line of the probe: the words of its "verdict", and one sentence.
struct probe_answer {
    std::string verdict;
    std::string evidence;

    bool operator==(const probe_answer&) const = default;
};

// Reads what librdkafka reports about connections. A refusal under TLS 1.3 comes after the client's own
// handshake is complete (RFC 8446 section 4.4.2.4): as an alert at the first read or, when the broker's reset
// overtakes the alert, as a bare disconnect before the first answer.
class connection_watch {
public:
    // The error callback's sentence; all_down: no broker of the list is left.
    void reported(std::string_view reason, bool all_down);

    // A line of the debug context "broker".
    void logged(std::string_view line);

    // What the reports so far amount to: refused_tls or unreachable; none: keep asking.
    std::optional<probe_answer> verdict() const;

    // The last thing that went wrong.
    const std::string& last() const { return last_; }

private:
    bool all_down_ = false;
    bool greeted_ = false;   // a handshake was completed, as far as the client can know
    bool answered_ = false;  // a broker answered a request: it took the certificate
    int cut_offs_ = 0;       // connections that ended between handshake and first answer
    std::string alert_;
    std::string distrust_;
    std::string last_ = "no answer";
};

}  // namespace deploy
