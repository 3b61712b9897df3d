#include "agent/io/clock.hpp"

#include "agent/io/async.hpp"

namespace io {

policy::instant real_clock::now() const
{
    return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

task<void> real_clock::sleep_for(std::chrono::milliseconds duration)
{
    return io::sleep_for(duration, stop_);
}

}  // namespace io
