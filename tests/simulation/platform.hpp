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

// The exposure API and the authorization server, as the reference describes them, in memory; and the network
// on the way to them. What arrives is judged: the laws of failure-modes.md that can be seen from here.

namespace simulation {

inline constexpr const char* client_secret_text = "simulated-client-secret";
inline constexpr const char* owner_name = "web-01";

// How bad everything is just now; each a share of the requests.
struct weather {
    double unreachable = 0;  // never sent
    double lost = 0;         // sent, never arrived
    double unanswered = 0;   // arrived, the answer got lost
    double late = 0;         // arrives long after the client gave up
    double twice = 0;        // something on the way repeats it
    double refused = 0;      // 401, 403, 404, 409, 429, 503: not executed
    double broken = 0;       // 500, 502, 504, HTML with 200: executed or not
    double cut_list = 0;     // shows a part, and says so
    double slow_ready = 0;   // IN PROGRESS for hours
    double list_lag = 0;     // a new user is not listed at once
    double hook_fails = 0;
    double token_outage = 0;  // the authorization server alone
    nanoseconds latency = std::chrono::milliseconds(20);
};

struct platform_user {
    std::string id;
    std::string key;  // fingerprint of its public key
    std::string csr;
    std::string slot;   // "logs/siem" of its marker; empty: none
    std::string owner;  // of its marker
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
    // Called with what breaks a law.
    using judge = std::function<void(const std::string& law, const std::string& what)>;

    platform(machine&, judge);

    weather now;
    nanoseconds certificate_life = std::chrono::hours(48);
    nanoseconds access_life = std::chrono::hours(1);

    // For a person's login.
    std::string new_refresh_token();
    bool login_is_dead() const;
    void end_access() { access_.clear(); }
    bool is_secret_in(std::string_view text) const;

    // The program begins to send it.
    void sent(const std::string& method, const std::string& url, const std::string& body);
    // What a request does when it arrives, and what is answered.
    io::http_response arrive(const std::string& method, const std::string& url,
                             const std::string& authorization, const std::string& body, bool executed);
    // The client got this answer; -1: it got none, and gave up.
    void answered(const std::string& method, const std::string& url, const std::string& body, int status,
                  const std::string& answer, bool never_sent);

    std::function<void(const std::string&)> tell;  // of every request, for a person who replays it

    std::map<std::string, platform_user> users;
    std::string instance;
    nanoseconds instance_ready{0};
    std::map<std::string, std::uint64_t> counted;  // requests and answers, for the coverage

    // Which certificate a consumer of that slot uses: fingerprint of its key; empty: none.
    std::function<std::string(const std::string& slot)> in_use;
    std::function<bool(const std::string& key)> key_is_stored;
    std::function<bool(const std::string& slot)> may_go;  // the file or a person wants it gone

private:
    struct posted {
        nanoseconds at{0};
        bool certainly_not = false;  // a refusal reached the program, or it never left
        bool listed_since = false;   // a whole list did, the settle time later, without it
        bool sent = false;
    };
    struct login_grant {
        bool spent = false;
        bool delivered = false;  // the answer to its exchange reached the program
        int delivered_in = 0;    // life
        bool confirmed = false;  // and what it brought has been used since
        std::string brought;     // access token
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
    std::map<std::string, nanoseconds> access_;  // until
    std::set<std::string> secrets_;
    std::string family_;  // the refresh token in force; empty: none
    bool list_was_cut_ = false;
    std::set<std::string> in_last_list_;
};

// The http port: what the program sends, with everything that can become of it on the way.
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
