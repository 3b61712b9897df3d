#pragma once

#include "config/yaml.hpp"
#include "policy/desired.hpp"

#include <span>
#include <string>

// The formats of single values: the reader's checks and what the JSON Schema says about them.

namespace config {

struct format {
    // What is wrong and what would be valid, to follow "KEY: "; "" when the value is valid. Scalars only.
    std::string (*fault)(const node&, const format&);
    const char* type = "string";    // in the JSON Schema
    const char* pattern = nullptr;  // in the JSON Schema; never stricter than `fault`
    int least = 0;                  // of a number, or of a duration in seconds
    int most = 0;
    std::span<const char* const> words = {};
    std::string (*canonical)(const std::string&) =
        nullptr;  // of a valid text, for example without trailing slashes
};

namespace formats {

// Text
extern const format text;      // one line
extern const format scope;     // OAuth: words separated by single blanks
extern const format username;  // for HTTP Basic authentication
extern const format note;      // one line, may be empty
extern const format argument;  // of a command: may be empty, may contain several lines
extern const format name;
extern const format owner;
extern const format tenant;
extern const format topic;
extern const format email;
extern const format account;     // user or group on this host
extern const format variable;    // environment variable
extern const format credential;  // systemd credential
extern const format unit;        // systemd unit, except the agent's own
extern const format path;
extern const format directory;  // a path other than /

// Addresses
extern const format https_url;     // http for loopback only
extern const format redirect_url;  // https_url, kept exactly as registered
extern const format api_url;       // https_url; a trailing /api/v1 is rejected because the agent appends it
extern const format proxy_url;
extern const format webhook_url;  // https_url with an optional query
extern const format brokers;
extern const format listen;

// Numbers and similar
extern const format boolean;
extern const format version;
extern const format connections;
extern const format deletes;
extern const format creates;
extern const format refresh_interval;  // at least 30s: tokens are never refreshed more often
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
