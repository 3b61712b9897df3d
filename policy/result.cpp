#include "policy/result.hpp"

#include <stdexcept>
#include <utility>

namespace policy {

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

namespace policy::exit_code {

int of(errc code) noexcept
{
    switch (code) {
        case errc::usage:
            return usage;
        case errc::not_resolved:
        case errc::not_connected:
        case errc::untrusted:
        case errc::no_answer:
        case errc::timed_out:
            return unreachable;
        case errc::busy:
            return busy;
        case errc::login_required:
        case errc::client_refused:
        case errc::unauthorized:
        case errc::token_source:
            return login;
        case errc::config:
            return configuration;
        default:
            return failed;
    }
}

}  // namespace policy::exit_code
