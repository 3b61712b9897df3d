#pragma once

#include "agent/io/async.hpp"
#include "agent/io/http.hpp"
#include "tests/simulation/machine.hpp"
#include "tests/support/test_ca.hpp"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

// The exposure API and the authorization server of the reference, in memory, and the network in between.
// Incoming requests are checked against those invariants of failure-modes.md that are visible here.

namespace simulation {

inline constexpr const char* client_secret_text = "simulated-client-secret";
inline constexpr const char* owner_name = "web-01";

// Current probability of each fault, as a fraction of the requests.
struct weather {
    double unreachable = 0;  // never sent
    double lost = 0;         // sent, but never arrives
    double unanswered = 0;   // arrives, but the response is lost
    double late = 0;         // arrives long after the client has given up
    double twice = 0;        // duplicated in transit
    double refused = 0;      // 401, 403, 404, 409, 429, 503: not executed
    double broken = 0;       // 500, 502, 504, HTML with 200: processed or not
    double cut_list = 0;     // the list is truncated and says so
    double slow_ready = 0;   // IN PROGRESS for hours
    double list_lag = 0;     // a new user is listed late
    double hook_fails = 0;
    double token_outage = 0;  // affects only the authorization server
    nanoseconds latency = std::chrono::milliseconds(20);
};

struct platform_user {
    std::string id;
    std::string key;  // fingerprint of its public key
    std::string csr;
    std::string slot;   // from its marker, such as "logs/siem"; empty: no marker
    std::string owner;  // from its marker
    std::string contact;
    std::string consumer_group;
    std::string description;
    std::string certificate;
    nanoseconds created_at{0};
    nanoseconds ready_at{0};
    nanoseconds listed_at{0};
    nanoseconds not_after{0};
};

class platform {
public:
    // Called for each violation of an invariant.
    using judge = std::function<void(const std::string& law, const std::string& what)>;

    platform(machine&, judge);

    weather now;
    nanoseconds certificate_life = std::chrono::hours(48);
    nanoseconds access_life = std::chrono::hours(1);

    // For a manual login.
    std::string new_refresh_token();
    bool login_is_dead() const;
    void end_access() { access_.clear(); }
    bool is_secret_in(std::string_view text) const;

    // Called when the program starts to send a request.
    void sent(const std::string& method, const std::string& url, const std::string& body);
    // Processes an incoming request and returns the response.
    io::http_response arrive(const std::string& method, const std::string& url,
                             const std::string& authorization, const std::string& body, bool executed);
    // Called with the response that the client received; status -1: none, the client gave up.
    void answered(const std::string& method, const std::string& url, const std::string& body, int status,
                  const std::string& answer, bool never_sent);

    std::function<void(const std::string&)> tell;  // logs every request, for replaying by hand

    std::map<std::string, platform_user> users;
    std::string instance;
    nanoseconds instance_ready{0};
    std::map<std::string, std::uint64_t> counted;  // requests and responses, for coverage

    // Fingerprint of the key that a consumer of the slot uses; empty: none.
    std::function<std::string(const std::string& slot)> in_use;
    std::function<bool(const std::string& key)> key_is_stored;
    std::function<bool(const std::string& slot)> may_go;  // the file or an operator wants it removed

private:
    struct posted {
        nanoseconds at{0};
        bool certainly_not = false;  // a refusal was received, or it was never sent
        bool listed_since = false;   // missing from a complete list, the settle time later
        bool sent = false;
    };
    struct login_grant {
        bool spent = false;
        bool delivered = false;  // the response to its exchange was received
        int delivered_in = 0;    // in this life
        bool confirmed = false;  // and its tokens have been used since
        std::string brought;     // the access token
    };

    io::http_response exchange_token(const std::string& body, const std::string& authorization,
                                     bool executed);
    io::http_response api(const std::string& method, const std::string& path,
                          const std::string& authorization, const std::string& body, bool executed);
    io::http_response create_user(const std::string& body);
    io::http_response delete_user(const std::string& id);
    std::string shown(const platform_user&, bool with_certificate) const;
    std::string list();
    void judge_delete(const platform_user&);
    void law(const std::string& which, bool kept, const std::string& what) const;

    machine& machine_;
    judge judge_;
    test_support::test_ca ca_{"Simulated CA"};
    std::map<std::string, posted> posts_;        // by key
    std::map<std::string, login_grant> grants_;  // by refresh token
    std::map<std::string, nanoseconds> access_;  // valid until
    std::set<std::string> secrets_;
    std::string family_;  // the current refresh token; empty: none
    bool list_was_cut_ = false;
    std::set<std::string> in_last_list_;
};

// The http port: delivers the program's requests with every fault that can occur in transit.
class network final : public io::http {
public:
    network(machine& m, platform& p, io::stop_event& stop) : machine_(m), platform_(p), stop_(stop) {}

    io::task<io::http_response> exchange(io::http_request) override;

private:
    machine& machine_;
    platform& platform_;
    io::stop_event& stop_;
};

}  // namespace simulation
