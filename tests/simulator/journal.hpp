#pragma once

#include "http.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

// Requests and how they were answered. Secrets are recorded as fingerprints.

namespace simulator {

struct journal_record {
    std::uint64_t sequence = 0;
    std::int64_t at_ms = 0;
    std::string method{};
    std::string path{};
    std::string operation{};
    std::string bearer{};                   // fingerprint of the access token; empty: none
    parameters headers{};                   // without Authorization
    boost::json::value body{};              // only of requests that hold no secrets
    boost::json::object details{};          // of token requests: grant_type, fingerprints, error
    std::vector<std::string> violations{};  // deviations of the client from the reference
    std::string rule{};                     // the fault rule that applied
    int status = 0;                         // 0: no response was sent
    std::string outcome{};  // answered | closed | reset | hung | truncated; empty: in progress
};

// Connections to the platform: whether a client reuses them, and how many it opens at once.
struct connection_counts {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;  // TLS handshake failures, such as an untrusted server certificate
    std::uint64_t open = 0;
    std::uint64_t most_open = 0;
};

class journal {
public:
    // Numbers the request and creates its record.
    journal_record& open(request& incoming, const std::string& operation);

    // The record of a request; nullptr if it has been cleared.
    journal_record* find(std::uint64_t sequence);

    void close(std::uint64_t sequence, int status, const std::string& outcome);

    void connection_opened();
    void connection_ended(bool refused);

    // Drops records and counters; request numbers and open connections continue.
    void clear();

    boost::json::array describe(std::uint64_t since) const;

    // {operation: {status: count}}; requests without a response are counted as "0".
    boost::json::object counts() const;

    boost::json::object connections() const;

private:
    static constexpr std::size_t kept_ = 200'000;

    std::deque<journal_record> records_;
    std::map<std::string, std::map<int, std::uint64_t>> counts_;
    connection_counts connections_;
    std::uint64_t next_ = 1;
};

}  // namespace simulator
