#include "agent/disk/record.hpp"
#include "policy/events.hpp"
#include "policy/stored.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// Arbitrary values in the state database: each is rejected with a reason or read, and what was read survives
// a round trip through our format.

namespace {

template <class Record>
void read_back(std::string_view text)
{
    const auto record = disk::record::read<Record>(text);
    if (!record) {
        if (record.error().context.empty()) std::abort();
        return;
    }
    const auto written = disk::record::write(*record);
    const auto again = disk::record::read<Record>(written);
    if (!again || disk::record::write(*again) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    read_back<policy::stored_user>(text);
    read_back<policy::stored_exposure>(text);
    read_back<policy::history_event>(text);
    return 0;
}
