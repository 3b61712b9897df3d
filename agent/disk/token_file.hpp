#pragma once

#include "agent/disk/paths.hpp"
#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <filesystem>
#include <optional>

// {state_dir}/private/tokens.json: a text that only its owner understands, 0600. A refresh token exists once:
// what the state directory does not take is kept in a second place, the runtime directory, until it does
// (failure-modes S2, "save fails"). Calls block.

namespace disk {

struct kept_tokens {
    crypto::secret text;
    bool in_place = true;  // false: only the second place has it
};

class token_file {
public:
    // second_place: a directory that exists, or not; empty: there is none.
    explicit token_file(paths where, std::filesystem::path second_place = {});

    // None: there is no file. Changes nothing: others may be writing.
    [[nodiscard]] policy::result<std::optional<kept_tokens>> load() const;

    // In place and on stable storage when it succeeds. A failure says where the text is kept meanwhile.
    [[nodiscard]] policy::result<void> save(const crypto::secret&) const;
    // So that the next save succeeds even if the disk fills up meanwhile. errc::disk_full, disk.
    [[nodiscard]] policy::result<void> make_room() const;

private:
    [[nodiscard]] policy::result<void> save_aside(const crypto::secret&) const;

    paths where_;
    std::filesystem::path aside_;  // empty: there is no second place
};

}  // namespace disk
