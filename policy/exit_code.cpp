#include "policy/exit_code.hpp"

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
