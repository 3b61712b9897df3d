#pragma once

#include "policy/fingerprint.hpp"
#include "policy/plan.hpp"

#include <string>
#include <vector>

// The three inputs of a plan in few words: one exposure "logs" with its READY instance "i-1", owner "web-01",
// and users in whatever stage a test needs. A generation is identified by one hex digit.

namespace support {

using namespace std::chrono_literals;

// Progress of a new generation. Each stage includes the earlier ones.
enum class stage { kept, sent, accepted, ready, collected, verified };

class policy_world {
public:
    static constexpr auto start = policy::instant(1'800'000'000s);
    static constexpr auto lifetime = std::chrono::days(90);

    policy_world();

    // ---- the desired state (file)
    policy::desired_exposure& exposure() { return desired.exposures.front(); }
    policy::desired_user& want(const std::string& user = "web");
    void drop(const std::string& user);

    // ---- the stored state (disk)
    policy::stored_user& have(const std::string& user = "web");
    policy::stored_exposure& known() { return stored.exposures["logs"]; }
    policy::generation& at(const std::string& user, char digit);
    policy::failure_memory fails(const std::string& user, policy::retry = policy::retry::later,
                                 policy::duration next = 60s) const;

    // ---- the observed state (platform)
    policy::observed_exposure& seen() { return observed.exposures["logs"]; }
    policy::duration& clock_ahead() { return observed.clock_ahead["https://les.example.com"]; }
    policy::remote_user& remote(const std::string& id);
    void vanish(const std::string& id);  // missing from the list, and a single read returns 404

    // ---- all three at once
    // A certificate issued ten days ago and in use since; its user is READY: "u-a" for generation 'a'.
    policy::generation& in_use(const std::string& user = "web", char digit = 'a');
    // A new generation that has reached `stage`.
    policy::generation& on_its_way(stage, const std::string& user = "web", char digit = 'b');
    // The previous certificate, replaced `ago` before now.
    policy::generation& superseded(policy::duration ago, const std::string& user = "web", char digit = '0');
    // Another remote user with the same key as the generation.
    policy::remote_user& second(const std::string& user, char digit, const std::string& id);

    // ---- the result
    policy::plan_result plan() const { return policy::plan(desired, observed, stored, now, options); }
    // "issue web, retire web 0 u-0": action, user, digit of the generation, and the remote id unless it is
    // the generation's own.
    std::string steps() const;
    policy::decision view(const std::string& user = "web") const;
    std::string finding(const std::string& user = "web") const;  // its stable identifier
    policy::decision exposure_view() const;

    policy::desired_state desired;
    policy::observed_state observed;
    policy::stored_state stored;
    policy::instant now = start;
    policy::plan_options options;

private:
    policy::generation make(const std::string& user, char digit, policy::duration age);
    policy::remote_user& list(const policy::user_name&, const policy::generation&);
};

std::string fingerprint_of(char digit);

}  // namespace support
