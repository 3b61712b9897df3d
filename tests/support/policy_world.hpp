#pragma once

#include "policy/fingerprint.hpp"
#include "policy/plan.hpp"

#include <string>
#include <vector>

// The three worlds of a plan, built from few words: one exposure "logs" with its READY instance "i-1", an
// owner "web-01", and users that are put where a test wants them. A generation is named by one hex digit.

namespace support {

using namespace std::chrono_literals;

// Where a generation is on its way. Each includes those before it.
enum class stage { kept, sent, accepted, ready, collected, verified };

class policy_world {
public:
    static constexpr auto start = policy::instant(1'800'000'000s);
    static constexpr auto lifetime = std::chrono::days(90);

    policy_world();

    // ---- the file
    policy::desired_exposure& exposure() { return desired.exposures.front(); }
    policy::desired_user& want(const std::string& user = "web");
    void drop(const std::string& user);

    // ---- the disk
    policy::stored_user& have(const std::string& user = "web");
    policy::stored_exposure& known() { return stored.exposures["logs"]; }
    policy::generation& at(const std::string& user, char digit);
    policy::failure_memory fails(const std::string& user, policy::retry = policy::retry::later,
                                 policy::duration next = 60s) const;

    // ---- the platform
    policy::observed_exposure& seen() { return observed.exposures["logs"]; }
    policy::duration& clock_ahead() { return observed.clock_ahead["https://les.example.com"]; }
    policy::remote_user& remote(const std::string& id);
    void vanish(const std::string& id);  // the list lacks it, and its single read says 404

    // ---- all of them at once
    // A certificate made ten days ago, in use since then, its user READY: "u-a" of generation 'a'.
    policy::generation& in_use(const std::string& user = "web", char digit = 'a');
    // A generation on its way, as far as the stage.
    policy::generation& on_its_way(stage, const std::string& user = "web", char digit = 'b');
    // What was in use before: its successor took over `ago`.
    policy::generation& superseded(policy::duration ago, const std::string& user = "web", char digit = '0');
    // Another remote user with the key of a generation.
    policy::remote_user& second(const std::string& user, char digit, const std::string& id);

    // ---- what comes out
    policy::plan_result plan() const { return policy::plan(desired, observed, stored, now, options); }
    // "issue web, retire web 0 u-0": kind, user, generation's digit, remote id where it is not the
    // generation's.
    std::string steps() const;
    policy::decision view(const std::string& user = "web") const;
    std::string finding(const std::string& user = "web") const;  // its stable word
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
