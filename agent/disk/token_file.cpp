#include "agent/disk/token_file.hpp"

#include "agent/disk/atomic_file.hpp"
#include "agent/disk/read_file.hpp"
#include "agent/disk/reserve.hpp"
#include "crypto/digest.hpp"

#include <string_view>
#include <unistd.h>
#include <utility>

// The file in the second place begins with the digest of the tokens.json that it replaces: once that has been
// written again, it is out of date, even when a kill kept it from being removed.

namespace disk {
namespace {

constexpr std::size_t token_file_bytes = 1 << 20;
constexpr access secret_file{.mode = 0600};

// One name a state directory: several agents share a runtime directory.
std::filesystem::path place_aside(const paths& where, const std::filesystem::path& directory)
{
    if (directory.empty()) return {};
    return directory / ("tokens-" + crypto::sha256_hex(where.state_dir().string()).substr(0, 16) + ".json");
}

}  // namespace

token_file::token_file(paths where, std::filesystem::path second_place)
    : where_(std::move(where)), aside_(place_aside(where_, second_place))
{
}

policy::result<std::optional<kept_tokens>> token_file::load() const
{
    auto text = read_file(where_.tokens(), token_file_bytes);
    if (!text) return text.error();
    if (!aside_.empty()) {
        auto other = read_file(aside_, token_file_bytes);
        if (!other) return other.error();
        const auto replaces =
            crypto::sha256_hex(*text ? std::string_view(**text) : std::string_view()) + "\n";
        if (*other && (*other)->starts_with(replaces)) {
            crypto::secret kept(std::string_view(**other).substr(replaces.size()));
            crypto::wipe(**other);
            return std::optional(kept_tokens{.text = std::move(kept), .in_place = false});
        }
    }
    if (!*text) return std::optional<kept_tokens>();
    return std::optional(kept_tokens{.text = crypto::secret(std::move(**text))});
}

policy::result<void> token_file::save(const crypto::secret& text) const
{
    auto saved =
        save_with_reserve(where_, [&] { return write_file(where_.tokens(), text.view(), secret_file); });
    if (saved) {
        if (!aside_.empty()) ::unlink(aside_.c_str());
        return {};
    }
    if (aside_.empty() || !save_aside(text)) return saved;
    auto why = saved.error();
    why.context += "; the tokens are kept in " + aside_.string() + " until then";
    return why;
}

policy::result<void> token_file::make_room() const
{
    return keep_reserve(where_);
}

policy::result<void> token_file::save_aside(const crypto::secret& text) const
{
    auto replaced = read_file(where_.tokens(), token_file_bytes);
    if (!replaced) return replaced.error();
    auto content = crypto::sha256_hex(*replaced ? std::string_view(**replaced) : std::string_view()) + "\n";
    content.reserve(content.size() + text.view().size());  // at once: growing would leave a copy behind
    content.append(text.view());
    auto kept = write_file(aside_, content, secret_file);
    crypto::wipe(content);
    return kept;
}

}  // namespace disk
