#pragma once

#include "config/yaml.hpp"
#include "policy/desired.hpp"

#include <span>
#include <string>

// What a single value may be: the test that the reader applies, and what the JSON Schema says of it.

namespace config {

struct format {
    // What is wrong and what would be right, to follow "KEY: "; "" when nothing is. Only for scalars.
    std::string (*fault)(const node&, const format&);
    const char* type = "string";    // of the JSON Schema
    const char* pattern = nullptr;  // of the JSON Schema; never stricter than `fault`
    int least = 0;                  // of a number; in seconds of a duration
    int most = 0;
    std::span<const char* const> words = {};
    std::string (*canonical)(const std::string&) =
        nullptr;  // of a valid text: without slashes at its end, and the like
};

namespace formats {

// Texts
extern const format text;      // one line
extern const format scope;     // of OAuth: words with single blanks between them
extern const format username;  // of HTTP Basic authentication
extern const format note;      // one line or nothing
extern const format argument;  // of a command: may be empty, may have several lines
extern const format name;
extern const format owner;
extern const format tenant;
extern const format topic;
extern const format email;
extern const format account;     // user or group of this host
extern const format variable;    // environment variable
extern const format credential;  // systemd credential
extern const format unit;        // systemd unit, never the agent's own
extern const format path;
extern const format directory;  // a path that is not /

// Addresses
extern const format https_url;     // http for loopback only
extern const format redirect_url;  // https_url, as it is registered
extern const format api_url;       // https_url without /api/v1, which is appended
extern const format proxy_url;
extern const format webhook_url;  // https_url that may have a query
extern const format brokers;
extern const format listen;

// Numbers and the like
extern const format boolean;
extern const format version;
extern const format connections;
extern const format deletes;
extern const format creates;
extern const format refresh_interval;  // at least 30s: no refresh is attempted sooner
extern const format duration;          // at least 1s
extern const format duration_or_none;  // at least 0s
extern const format lead;
extern const format mode;

// One of the words of an enum
std::string word_fault(const node&, const format&);
template <class E>
inline constexpr format word = {.fault = word_fault, .words = policy::words_of<E>};

}  // namespace formats
}  // namespace config
