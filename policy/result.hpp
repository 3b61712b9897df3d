#pragma once

#include "policy/dates.hpp"
#include "policy/words.hpp"

#include <boost/describe.hpp>
#include <boost/system/result.hpp>

#include <optional>
#include <string>

// Expected failures are values: a code for programs, a sentence for people, and when to retry.

namespace policy {

// word_of gives the stable word for logs, JSON and metrics.
enum class errc {
    // the request never left this host: safe to repeat, whatever it was
    not_resolved,   // DNS
    not_connected,  // TCP, proxy
    untrusted,      // TLS: unknown CA, host name mismatch, expired, revoked
    // the request may have been processed: only the platform knows
    no_answer,   // closed, timed out or truncated after the first byte was sent
    bad_answer,  // a complete answer that does not follow the reference (HTML, broken JSON, too large)
    // the platform refused
    unauthorized,  // 401 again after the one refresh
    forbidden,     // 403
    not_found,     // 404
    refused,       // 400, 409, 422 and other 4xx: the request itself is wrong
    throttled,     // 429
    unavailable,   // 5xx
    // login
    login_required,  // no token, or the refresh token was rejected (invalid_grant)
    client_refused,  // the token endpoint rejected the OAuth client (invalid_client)
    token_source,    // the external token source returned no access token
    // this host
    disk,  // errno on read or write
    disk_full,
    foreign_file,  // a symbolic link or a file that is not ours is in its place
    busy,          // another agent holds the state directory
    config,        // the configuration is invalid
    usage,         // the command line is invalid
    crypto,        // rejected by OpenSSL
    unusable_certificate,
    hook_failed,
    probe_refused,      // the broker rejected the certificate
    probe_unreachable,  // the broker could not be reached
    timed_out,          // our own time limit, nothing was sent
    stopping,           // told to stop; never logged as an error
    internal,
};
BOOST_DESCRIBE_ENUM(errc, not_resolved, not_connected, untrusted, no_answer, bad_answer, unauthorized,
                    forbidden, not_found, refused, throttled, unavailable, login_required, client_refused,
                    token_source, disk, disk_full, foreign_file, busy, config, usage, crypto,
                    unusable_certificate, hook_failed, probe_refused, probe_unreachable, timed_out, stopping,
                    internal)

// When a failed operation may be retried.
enum class retry {
    later,         // automatically, with back-off
    after_change,  // once the configuration (or the environment) has changed; slow retries only
    never,         // a person must act
};
BOOST_DESCRIBE_ENUM(retry, later, after_change, never)

struct failure {
    errc code = errc::internal;
    std::string context;  // what failed, for whom, and what to do: one sentence, no secrets
    retry kind = retry::later;
    std::optional<duration> retry_after = {};  // the server's Retry-After: a lower bound

    bool operator==(const failure&) const = default;
};

// True when the request had no effect because no byte of it left this host.
bool never_sent(const failure&) noexcept;

// True for failures of this host alone, which neither the platform nor the broker can fix.
bool is_local(errc) noexcept;

// The same failure, with "what: " before its sentence.
failure with_context(std::string what, failure);

// result<T>::value() of a failure is a bug in the caller: throws std::logic_error.
[[noreturn]] void throw_exception_from_error(const failure&, const boost::source_location&);

template <class T>
using result = boost::system::result<T, failure>;

}  // namespace policy

namespace policy::exit_code {

// --- Exit codes (contract section 4); 64 and above follow sysexits.h

inline constexpr int done = 0;
inline constexpr int failed = 1;
inline constexpr int changes_pending = 2;
inline constexpr int usage = 64;
inline constexpr int unreachable = 69;
inline constexpr int busy = 75;
inline constexpr int login = 77;
inline constexpr int configuration = 78;

// The exit code of a command that ended with this failure.
int of(errc) noexcept;

}  // namespace policy::exit_code
