#pragma once

#include "policy/desired.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"
#include "tests/policy/model/dice.hpp"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

// What survives a crash of the agent: platform, disk and time, and how likely each fault is.

namespace model {

using policy::duration;
using policy::instant;
using policy::user_name;
using namespace std::chrono_literals;

// An invariant was violated: the history ends here.
struct broken_law : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The agent was killed between two effects.
struct killed {};

// Probability of each fault, in thousandths, per request, write, hook and probe.
struct weather {
    int unsent = 0;       // a request never leaves this host
    int unanswered = 0;   // ... is lost before or after processing
    int unavailable = 0;  // ... gets a 5xx before or after processing
    int refused = 0;      // ... gets a 4xx
    int nonsense = 0;     // ... gets HTML with 200
    int idless = 0;       // a POST response lacks the id
    int misnamed = 0;     // ... or has the id of another user
    int doubled = 0;      // a POST creates two users
    int late = 0;         // a POST is processed late
    int tardy = 0;        // ... and later than the settle time
    int lag = 0;          // a new user appears late
    int slow = 0;         // READY takes hours
    int never = 0;        // READY never comes
    int misfit = 0;       // the certificate has another key or has expired
    int empty = 0;        // READY, but never with a certificate
    int early = 0;        // the certificate is not valid yet
    int cut = 0;          // the list is truncated
    int lies = 0;         // a single read returns 404 for an existing user
    int full = 0;         // the disk is full
    int unsynced = 0;     // a write reports an error although it succeeded
    int hook = 0;         // a hook fails
    int broker_refuses = 0;
    int broker_down = 0;
    int kill = 0;       // before or after each effect
    int meanwhile = 0;  // the world changes between two effects
};

struct cloud_user {
    policy::remote_user shown;
    std::string place;  // base_url|tenant
    std::string instance;
    std::string key;  // fingerprint of the CSR; empty: not made by the agent
    std::string common_name;
    user_name name;  // the agent's name for it
    instant visible_at;
    instant ready_at;
    std::optional<instant> gone_at;  // when its pending deletion takes effect
    std::string certificate_key;     // key of the certificate; empty: no certificate
    policy::certificate_facts certificate;
    bool remarked = false;  // somebody changed its marker: left alone
    bool keyless =
        false;  // an event beyond the agent's control took its key or made it unknown: exempt from I2 and I9
};

struct cloud_instance {
    std::string id;
    instant ready_at;
};

struct certificate_file {
    std::string key;  // its public key
    policy::certificate_facts facts;
    std::string remote_id;
};

struct published_pair {
    std::string generation;
    std::string key;
    certificate_file certificate;
    bool damaged = false;
};

// State directory and published directories: whatever was written survives.
struct disk {
    std::map<user_name, policy::stored_user> records;
    std::map<std::string, policy::stored_exposure> exposures;
    std::map<std::pair<user_name, std::string>, std::string> keys;  // by generation: key and CSR
    std::map<std::pair<user_name, std::string>, certificate_file> certificates;
    std::map<std::string, published_pair> links;  // by directory
    bool cloned = false;
};

struct late_post {
    instant at;
    cloud_user user;
};

struct world {
    explicit world(std::uint64_t seed) : random(seed) {}

    instant agent_now() const { return now + clock_ahead; }
    void say(const std::string& line)
    {
        if (!loud) return;
        tail.push_back(line);
        if (!everything && tail.size() > 400) tail.pop_front();
    }
    std::string new_id(char kind)
    {
        std::string id(1, kind);
        return id += std::to_string(++serial);
    }
    // Late users appear, pending deletions take effect, other users become READY.
    void settle_time();

    dice random;
    weather sky;
    instant now = instant(1'800'000'000s);
    duration clock_ahead{0};
    policy::desired_state desired;
    disk files;

    std::map<std::string, std::vector<cloud_instance>> instances;  // by place
    std::vector<cloud_user> users;
    std::vector<late_post> late;
    std::map<std::string, int> made;                   // users by key
    std::map<std::string, std::string> deleted_by_us;  // remote id -> word of the action
    std::set<user_name> cursed;                        // the platform always refuses these
    std::size_t cut_descriptions_at = 0;               // 0: not truncated
    int serial = 0;
    std::uint64_t posts = 0, deletions = 0, steps = 0;

    bool loud = false;
    bool everything = false;
    std::deque<std::string> tail;
};

std::string place_of(const policy::place&);
std::string place_of(const policy::desired_exposure&);

}  // namespace model
