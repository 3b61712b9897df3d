#pragma once

#include "policy/desired.hpp"
#include "policy/stored.hpp"
#include "policy/words.hpp"

#include <set>
#include <string>
#include <vector>

// Forecast: plan and apply run forward on a virtual clock, against a platform that grants every request
// and hooks that always succeed.

namespace policy {

enum class forecast_action { create, rotate, retire, remove, refresh, login, expire };
BOOST_DESCRIBE_ENUM(forecast_action, create, rotate, retire, remove, refresh, login, expire)

struct forecast_entry {
    instant at;
    user_name name;  // both parts empty: the login of this host
    forecast_action action = forecast_action::rotate;
    std::string reason;    // a stable word
    std::string sentence;  // for people

    bool operator==(const forecast_entry&) const = default;
};

// One user at the start of the forecast: a row of the chart.
struct forecast_user {
    user_name name;
    bool served = false;  // an unexpired certificate is in use

    bool operator==(const forecast_user&) const = default;
};

struct forecast_result {
    instant from;
    instant until;
    std::vector<forecast_user> users;
    std::vector<forecast_entry> entries;  // sorted by time
};

// The longest period that can be forecast.
inline constexpr duration longest_forecast = std::chrono::days(3653);

// Everything due between from and until, derived from the users' records. A platform that has never issued a
// certificate to this host is assumed to issue them for one year.
forecast_result forecast(const desired_state&, const stored_state&, instant from, instant until);

// Inserts entries from elsewhere, such as the login's, in order of time.
void add(forecast_result&, std::vector<forecast_entry>);

// Keeps only the entries about these users and about the login.
void keep_only(forecast_result&, const std::set<user_name>&);

}  // namespace policy
