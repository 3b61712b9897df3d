#pragma once

#include "crypto/secret.hpp"
#include "policy/result.hpp"

#include <optional>

// Port: where the text of the token record (token_record.hpp) is kept. The calls block: they run on the pool.

namespace platform {

struct stored_tokens {
    crypto::secret text;
    bool in_place = true;  // false: they are yet to be saved where they belong
    bool copied = false;   // from another machine's state directory, not taken over: never presented
};

class token_store {
public:
    virtual ~token_store() = default;

    // None: there never was one. errc::disk.
    [[nodiscard]] virtual policy::result<std::optional<stored_tokens>> load() = 0;

    // On stable storage and readable by us alone when it returns, as a whole or not at all. errc::disk,
    // disk_full: the sentence says where they are kept instead.
    [[nodiscard]] virtual policy::result<void> save(const crypto::secret&) = 0;

    // Before a single-use secret is sent: the next save succeeds even if the disk fills up meanwhile.
    // errc::disk, disk_full.
    [[nodiscard]] virtual policy::result<void> make_room() = 0;
};

}  // namespace platform
