#pragma once

#include "policy/status.hpp"

#include <boost/describe.hpp>

#include <optional>
#include <string>
#include <vector>

// When to notify that a person is needed, and when that is over (contract section 10, `notify`).

namespace policy {

enum class notify_state { raised, repeated, over, test };
BOOST_DESCRIBE_ENUM(notify_state, raised, repeated, over, test)

enum class notify_case { login, blocked, hook, expiry, configuration, test };
BOOST_DESCRIBE_ENUM(notify_case, login, blocked, hook, expiry, configuration, test)

// A notification to send.
struct notification {
    notify_state state = notify_state::raised;
    notify_case what = notify_case::test;
    std::string subject;  // "login", "configuration", or the name of an exposure or user
    instant since;
    std::string message;
    std::string remedy;  // a command

    bool operator==(const notification&) const = default;
};

// A known case, reported or still waiting to be.
struct known_case {
    notify_case what = notify_case::test;
    std::string subject;
    instant since;
    std::string message;
    std::string remedy;
    std::optional<instant> told_at;  // last time it was sent

    bool operator==(const known_case&) const = default;
};
BOOST_DESCRIBE_STRUCT(known_case, (), (what, subject, since, message, remedy, told_at))

// State kept across restarts.
struct notify_memory {
    std::vector<known_case> cases;
    long long sent = 0;
    long long failed = 0;
    std::optional<failure_memory> failure;  // of delivery
    std::optional<instant> failing_since;

    bool operator==(const notify_memory&) const = default;
};
BOOST_DESCRIBE_STRUCT(notify_memory, (), (cases, sent, failed, failure, failing_since))

struct login_facts {
    bool required = false;
    bool failing = false;  // works now, but may not keep working by itself
    std::string sentence;
    std::optional<instant> since;
};

// What `status` knows.
struct notify_facts {
    const desired_state& desired;
    const stored_state& stored;
    login_facts login;
    std::vector<std::string> diagnostics;  // of the edited file; empty: it is in effect
};

struct notify_decision {
    std::vector<notification> due;
    notify_memory memory;            // to be stored, whether or not sending succeeds
    std::optional<instant> wake_at;  // next time that something becomes due by itself
};

// A case is reported once, then again after `repeat`; one that ends before its first report never is.
notify_decision notifications(const notify_facts&, const notify_memory& before, instant now);

// Delivered.
notify_memory after_sending(notify_memory, const notification&, instant now);
// Not delivered: retried with back-off.
notify_memory after_sending(notify_memory, const failure&, instant now);

// The notification sent by `notify --test`.
notification test_notification(const std::string& owner, instant now);

}  // namespace policy
