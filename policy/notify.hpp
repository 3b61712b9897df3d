#pragma once

#include "policy/status.hpp"

#include <boost/describe.hpp>

#include <optional>
#include <string>
#include <vector>

// Who needs to be told that a person is needed, and that this is over (contract section 10, `notify`).

namespace policy {

enum class notify_state { raised, repeated, over, test };
BOOST_DESCRIBE_ENUM(notify_state, raised, repeated, over, test)

enum class notify_case { login, blocked, hook, expiry, configuration, test };
BOOST_DESCRIBE_ENUM(notify_case, login, blocked, hook, expiry, configuration, test)

// One message.
struct notification {
    notify_state state = notify_state::raised;
    notify_case what = notify_case::test;
    std::string subject;  // "login", "configuration", an exposure's or a user's name
    instant since;
    std::string message;
    std::string remedy;  // a command

    bool operator==(const notification&) const = default;
};

// A case that is known: seen, and told or still waiting to be.
struct known_case {
    notify_case what = notify_case::test;
    std::string subject;
    instant since;
    std::string message;
    std::string remedy;
    std::optional<instant> told_at;  // the last time that it was sent

    bool operator==(const known_case&) const = default;
};
BOOST_DESCRIBE_STRUCT(known_case, (), (what, subject, since, message, remedy, told_at))

// What is remembered across restarts.
struct notify_memory {
    std::vector<known_case> cases;
    long long sent = 0;
    long long failed = 0;
    std::optional<failure_memory> failure;  // of sending
    std::optional<instant> failing_since;

    bool operator==(const notify_memory&) const = default;
};
BOOST_DESCRIBE_STRUCT(notify_memory, (), (cases, sent, failed, failure, failing_since))

struct login_facts {
    bool required = false;
    bool failing = false;  // it works, but time alone may not keep it working
    std::string sentence;
    std::optional<instant> since;
};

// What the status knows.
struct notify_facts {
    const desired_state& desired;
    const stored_state& stored;
    login_facts login;
    std::vector<std::string> diagnostics;  // of the edited file; empty: it is in force
};

struct notify_decision {
    std::vector<notification> due;
    notify_memory memory;            // to be kept, whatever becomes of sending
    std::optional<instant> wake_at;  // when time alone makes something due
};

// Nothing is told twice, but what goes on after `repeat`; what ended before it was told is not told at all.
notify_decision notifications(const notify_facts&, const notify_memory& before, instant now);

// It was sent.
notify_memory after_sending(notify_memory, const notification&, instant now);
// It was not: retried with back-off.
notify_memory after_sending(notify_memory, const failure&, instant now);

// What `notify --test` sends.
notification test_notification(const std::string& owner, instant now);

}  // namespace policy
