#include "agent/disk/token_file.hpp"

#include "agent/disk/atomic_file.hpp"
#include "agent/disk/read_file.hpp"

namespace disk {
namespace {

constexpr std::size_t token_file_bytes = 1 << 20;

}  // namespace

policy::result<std::optional<crypto::secret>> token_file::load() const
{
    auto text = read_file(where_.tokens(), token_file_bytes);
    if (!text) return text.error();
    if (!*text) return std::optional<crypto::secret>();
    return std::optional(crypto::secret(std::move(**text)));
}

policy::result<void> token_file::save(const crypto::secret& text) const
{
    return write_file(where_.tokens(), text.view(), {.mode = 0600});
}

policy::result<void> token_file::erase() const
{
    const auto path = where_.tokens();
    const auto parent = directory::open(path.parent_path());
    if (!parent) return parent.error();
    return remove_file(*parent, path.filename().string());
}

}  // namespace disk
