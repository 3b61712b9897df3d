#include "policy/result.hpp"

#include <stdexcept>
#include <utility>

namespace policy {

const char* name_of(errc code) noexcept
{
    switch (code) {
        case errc::not_resolved:
            return "not_resolved";
        case errc::not_connected:
            return "not_connected";
        case errc::untrusted:
            return "untrusted";
        case errc::no_answer:
            return "no_answer";
        case errc::bad_answer:
            return "bad_answer";
        case errc::unauthorized:
            return "unauthorized";
        case errc::forbidden:
            return "forbidden";
        case errc::not_found:
            return "not_found";
        case errc::refused:
            return "refused";
        case errc::throttled:
            return "throttled";
        case errc::unavailable:
            return "unavailable";
        case errc::login_required:
            return "login_required";
        case errc::client_refused:
            return "client_refused";
        case errc::token_source:
            return "token_source";
        case errc::disk:
            return "disk";
        case errc::disk_full:
            return "disk_full";
        case errc::foreign_file:
            return "foreign_file";
        case errc::busy:
            return "busy";
        case errc::config:
            return "config";
        case errc::usage:
            return "usage";
        case errc::crypto:
            return "crypto";
        case errc::unusable_certificate:
            return "unusable_certificate";
        case errc::hook_failed:
            return "hook_failed";
        case errc::probe_refused:
            return "probe_refused";
        case errc::probe_unreachable:
            return "probe_unreachable";
        case errc::timed_out:
            return "timed_out";
        case errc::stopping:
            return "stopping";
        case errc::internal:
            return "internal";
    }
    return "internal";
}

bool never_sent(const failure& f) noexcept
{
    return f.code == errc::not_resolved || f.code == errc::not_connected || f.code == errc::untrusted ||
           f.code == errc::timed_out || f.code == errc::stopping;
}

bool is_local(errc code) noexcept
{
    return code == errc::disk || code == errc::disk_full || code == errc::foreign_file ||
           code == errc::config || code == errc::crypto;
}

failure with_context(std::string what, failure f)
{
    f.context = std::move(what) + ": " + f.context;
    return f;
}

void throw_exception_from_error(const failure& f, const boost::source_location&)
{
    throw std::logic_error("unchecked failure: " + f.context);
}

}  // namespace policy
