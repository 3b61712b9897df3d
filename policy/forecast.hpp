#pragma once

#include "policy/desired.hpp"
#include "policy/stored.hpp"
#include "policy/words.hpp"

#include <set>
#include <string>
#include <vector>

// The coming time: plan and apply run forward on a virtual clock, against a platform that does what it is
// asked and hooks that pass.

namespace policy {

enum class forecast_action { create, rotate, retire, remove, refresh, login, expire };
BOOST_DESCRIBE_ENUM(forecast_action, create, rotate, retire, remove, refresh, login, expire)

struct forecast_entry {
    instant at;
    user_name name;  // both empty: the login of this host
    forecast_action action = forecast_action::rotate;
    std::string reason;    // a stable word
    std::string sentence;  // for people

    bool operator==(const forecast_entry&) const = default;
};

// One user at the beginning: a row of a picture.
struct forecast_user {
    user_name name;
    bool served = false;  // a certificate that has not expired is in use

    bool operator==(const forecast_user&) const = default;
};

struct forecast_result {
    instant from;
    instant until;
    std::vector<forecast_user> users;
    std::vector<forecast_entry> entries;  // by time
};

// The longest time that a forecast looks ahead.
inline constexpr duration longest_forecast = std::chrono::days(3653);

// What the users' records make necessary until then. A platform that has never issued a certificate for this
// host is taken to issue them for a year.
forecast_result forecast(const desired_state&, const stored_state&, instant from, instant until);

// Adds what becomes of the login, or whatever else comes from elsewhere, in its place by time.
void add(forecast_result&, std::vector<forecast_entry>);

// Leaves only what is about these users, and about the login.
void keep_only(forecast_result&, const std::set<user_name>&);

}  // namespace policy
