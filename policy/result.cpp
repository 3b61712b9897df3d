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
