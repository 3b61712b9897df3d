#pragma once

#include "http.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

// What was asked and how it was answered. Holds fingerprints where the request held secrets.

namespace simulator {

struct journal_record {
    std::uint64_t sequence = 0;
    std::int64_t at_ms = 0;
    std::string method{};
    std::string path{};
    std::string operation{};
    std::string bearer{};                   // fingerprint of the access token; empty: none was sent
    parameters headers{};                   // without Authorization
    boost::json::value body{};              // of requests that hold no secret
    boost::json::object details{};          // of the token endpoint: grant_type, fingerprints, error
    std::vector<std::string> violations{};  // of the reference, by the client
    std::string rule{};                     // the fault rule that fired
    int status = 0;                         // 0: no answer was given
    std::string outcome{};  // answered | closed | reset | hung | truncated; empty: still under way
};

// Of the platform's address; tells whether a client keeps its connections and how many it opens at once.
struct connection_counts {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;  // the TLS handshake failed, such as over our certificate
    std::uint64_t open = 0;
    std::uint64_t most_open = 0;
};

class journal {
public:
    // Gives the request its number and opens its record.
    journal_record& open(request& incoming, const std::string& operation);

    // The record of a request; nullptr once it was cleared away.
    journal_record* find(std::uint64_t sequence);

    void close(std::uint64_t sequence, int status, const std::string& outcome);

    void connection_opened();
    void connection_ended(bool refused);

    // Forgets the records and the counts; the numbers and the open connections go on.
    void clear();

    boost::json::array describe(std::uint64_t since) const;

    // {operation: {status: count}}; a request without an answer counts under "0".
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
