#pragma once

#include "agent/disk/paths.hpp"
#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <optional>
#include <utility>

namespace disk {

// {state_dir}/private/tokens.json: a text that only its owner understands, 0600, in place and on stable
// storage when save() returns. Calls block.
class token_file {
public:
    explicit token_file(paths where) : where_(std::move(where)) {}

    // None: there is no file.
    [[nodiscard]] policy::result<std::optional<crypto::secret>> load() const;
    [[nodiscard]] policy::result<void> save(const crypto::secret&) const;
    // Gone already is success.
    [[nodiscard]] policy::result<void> erase() const;

private:
    paths where_;
};

}  // namespace disk
