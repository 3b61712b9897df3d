#pragma once

#include "agent/io/async.hpp"
#include "agent/io/http.hpp"
#include "policy/stored.hpp"
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
struct faults {
    double unreachable = 0;  // never sent
    double lost = 0;         // sent, but never arrives
    double lost_posts = 0;   // the same for POSTs alone, and as often their response is lost
    double unanswered = 0;   // arrives, but the response is lost
    double late = 0;         // arrives long after the client has given up
    double twice = 0;        // duplicated in transit
    double refused = 0;      // 401, 403, 404, 409, 429, 503: not executed
    double broken = 0;       // 500, 502, 504, HTML with 200: processed or not
    double cut_list = 0;     // the list is truncated and says so
    double lies = 0;         // the read of a user that exists is answered with 404, once
    double no_instance = 0;  // the list of instances is empty, and the instance is answered with 404
    double slow_ready = 0;   // IN PROGRESS for hours
    double list_lag = 0;     // a new user is listed late, and sometimes also shown late by its id
    double hook_fails = 0;
    double token_outage = 0;   // affects only the authorization server
    double token_lost = 0;     // the same, but the request is sent and never arrives
    double killed = 0;         // the program is killed while a request is under way; a POST more often
    double doubled_posts = 0;  // a POST is duplicated in transit
    double early = 0;          // a certificate is not valid yet
    double unusable = 0;       // a certificate is for servers alone
    nanoseconds latency = std::chrono::milliseconds(20);

    bool operator==(const faults&) const = default;
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
    nanoseconds shown_at{0};  // by its id
    nanoseconds not_after{0};
    nanoseconds not_before{0};
    bool late = false;      // made when the client no longer expected it
    bool remarked = false;  // a person changed its marker: it is no longer the program's to delete
    bool copied = false;    // a person copied it, for another owner
};

class platform {
public:
    // Called for each violation of an invariant.
    using judge = std::function<void(const std::string& law, const std::string& what)>;

    platform(machine&, judge);

    faults now;
    nanoseconds fair_since{0};       // no fault since then, by the steady clock
    nanoseconds unauthorized_at{0};  // the last 401
    nanoseconds certificate_life = std::chrono::hours(48);
    nanoseconds access_life = std::chrono::hours(1);

    // For a manual login.
    std::string new_refresh_token();
    bool login_is_dead() const;
    void end_access() { access_.clear(); }
    nanoseconds last_request{0};      // to the exposure API, by the steady clock
    std::uint64_t changes = 0;        // POSTs and DELETEs that were sent to it
    nanoseconds clock_changed_at{0};  // by the steady clock
    std::set<std::string> deleted;    // certificates of users that the program deleted
    // The refresh token that was exchanged last; empty: none, or nobody has used what it brought.
    std::string used_refresh_token() const;
    bool is_secret_in(std::string_view text) const;

    // The state of this host is lost: nobody has the keys of the users created so far.
    void lose_keys();
    bool is_lost(const platform_user& u) const { return lost_keys_.contains(u.key); }
    bool only_reads = false;      // `plan` runs
    bool last_was_token = false;  // the last request exchanged a token

    // A person's `rotate` starts the budget of creations again.
    void forget_budget(const std::string& slot) { creations_[slot].clear(); }

    // Called when the program starts to send a request.
    void sent(const std::string& method, const std::string& url, const std::string& body);
    // Processes an incoming request and returns the response.
    io::http_response arrive(const std::string& method, const std::string& url,
                             const std::string& authorization, const std::string& body, bool executed);
    // Called with the response that the client received; status -1: none, the client gave up.
    void answered(const std::string& method, const std::string& url, const std::string& body, int status,
                  const std::string& answer, bool never_sent);

    // Whether this request for an existing user may be answered with 404, which another look contradicts.
    bool may_lie_about(const std::string& path) const;
    void lies_about(const std::string& path);
    void never_left(const std::string& body);  // whatever the program learns of it
    void refuses(const std::string& authorization) { refused_.insert(authorization); }

    std::function<void(const std::string&)> tell;  // logs every request, for replaying by hand

    std::map<std::string, platform_user> users;
    std::string instance;
    nanoseconds instance_ready{0};
    std::map<std::string, std::uint64_t> counted;  // requests and responses, for coverage

    std::function<bool(const platform_user&)> is_in_use;  // a consumer uses its certificate
    // What the disk holds of the generation with this key; null: nothing.
    std::function<std::optional<policy::generation>(const std::string& key)> stored;
    std::function<bool(const std::string& slot)> is_paused;          // and has a certificate in use
    std::function<bool(const std::string& slot)> rotation_is_asked;  // a person's `rotate` has no answer yet
    std::function<bool()> is_elsewhere;      // the state directory was copied to another machine
    std::function<bool()> person_waits;      // for a verb that may send the refresh token at once
    std::function<bool()> loss_is_accepted;  // a person said so within the last hour
    std::function<bool(const platform_user&)> may_retire;         // its retire_after has passed
    std::function<bool(const platform_user&)> waits_for_person;   // kept until a person has looked at it
    std::function<std::uint64_t()> events;                        // that have happened so far
    std::function<bool(const std::string& slot)> may_go;          // the file or an operator wants it removed
    std::function<bool(const platform_user&)> hooks_have_passed;  // of a successor
    std::map<std::string, nanoseconds> hooks_passed_at;           // by slot: last time

private:
    struct posted {
        nanoseconds at{0};
        bool certainly_not = false;  // a refusal was received, or it was never sent
        bool listed_since = false;   // missing from a complete list, the settle time later
        bool sent = false;
        std::string what;  // everything but the names of optional fields
    };
    struct login_grant {
        bool spent = false;
        bool delivered = false;      // the response to its exchange was received
        int delivered_in = 0;        // in this life
        bool confirmed = false;      // and its tokens have been used since, with a disk that works
        std::string brought;         // the access token
        std::string beside;          // the access token that came with it
        nanoseconds clock_wrong{0};  // of this host, when it was brought
        int uncertain = 0;           // times that it was sent and may have been used
        nanoseconds last{0};         // when it was sent last
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
    void judge_budget(const std::string& slot);
    void judge_refresh(login_grant&);
    void expect_fetch(const std::string& id);
    void law(const std::string& which, bool kept, const std::string& what) const;

    machine& machine_;
    judge judge_;
    test_support::test_ca ca_{"Simulated CA"};
    std::map<std::string, posted> posts_;                        // by key
    std::map<std::string, std::vector<nanoseconds>> creations_;  // by slot: first POSTs of new keys
    std::map<std::string, login_grant> grants_;                  // by refresh token
    std::map<std::string, nanoseconds> access_;                  // valid until
    std::set<std::string, std::less<>> tokens_;
    std::map<std::string, nanoseconds> lied_about_;  // by id: answered with 404 although it exists
    std::set<std::string> asked_to_go_;              // ids of which the deletion was sent
    std::set<std::string> fetched_;                  // ids whose certificate was sent
    std::set<std::string> refused_;                  // access tokens that were answered with 401
    std::vector<std::string> exchanged_;             // refresh tokens, in order
    std::set<std::string> lost_keys_;
    std::vector<nanoseconds> recent_;  // requests
    std::string family_;               // the current refresh token; empty: none
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
