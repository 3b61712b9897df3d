#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crypto {

// Bytes that nobody else may see: tokens, keys, passwords. Wiped from memory when it ends, copied only by
// clone(), and without an operator<<, so that no log line can hold one by accident.
class secret {
public:
    secret() = default;
    explicit secret(std::string_view text);
    explicit secret(const char* text);    // up to its NUL
    explicit secret(std::string&& text);  // wipes the source
    secret(secret&&) noexcept;
    secret& operator=(secret&&) noexcept;
    secret(const secret&) = delete;
    secret& operator=(const secret&) = delete;
    ~secret();

    [[nodiscard]] secret clone() const;

    // Valid while this secret lives and is not assigned to.
    std::string_view view() const noexcept;
    const char* c_str() const noexcept;
    bool empty() const noexcept;

    // Takes the same time wherever the two differ; their lengths are no secret.
    friend bool operator==(const secret&, const secret&) noexcept;

private:
    // A vector, because moving a short std::string leaves its bytes behind. Ends in a NUL unless empty.
    std::vector<char> bytes_;
};

// Overwrites the characters and empties the text: for the buffers that a secret passes through.
void wipe(std::string& text) noexcept;

}  // namespace crypto
