#pragma once

#include <cstddef>
#include <memory>
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
void wipe(void* bytes, std::size_t size) noexcept;

// From now on OpenSSL wipes whatever memory it frees: some of its encoders leave private keys behind. To be
// called first in main; false when OpenSSL has allocated memory already.
bool wipe_memory_freed_by_openssl() noexcept;

// For containers that secrets pass through: memory is wiped before it is given back.
template <class T>
struct wiping_allocator {
    using value_type = T;

    wiping_allocator() = default;
    template <class U>
    wiping_allocator(const wiping_allocator<U>&) noexcept
    {
    }

    T* allocate(std::size_t count) { return std::allocator<T>().allocate(count); }
    void deallocate(T* memory, std::size_t count) noexcept
    {
        wipe(static_cast<void*>(memory), count * sizeof(T));
        std::allocator<T>().deallocate(memory, count);
    }
    bool operator==(const wiping_allocator&) const = default;
};

}  // namespace crypto
