#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace crypto {

// Confidential bytes: tokens, keys, passwords. Wiped from memory on destruction, copied only by clone(), and
// without an operator<<, so that they cannot be logged by accident.
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

    // Valid until this secret is destroyed or assigned to.
    std::string_view view() const noexcept;
    const char* c_str() const noexcept;
    bool empty() const noexcept;

    // In constant time for equal lengths; the lengths are not secret.
    friend bool operator==(const secret&, const secret&) noexcept;

private:
    // A vector, because moving a short std::string leaves its bytes behind. NUL-terminated unless empty.
    std::vector<char> bytes_;
};

// Overwrites and empties the text: for buffers that hold a secret temporarily.
void wipe(std::string& text) noexcept;
void wipe(void* bytes, std::size_t size) noexcept;

// From now on OpenSSL wipes all memory that it frees, because some of its encoders leave private keys behind.
// Must be called first in main; false when OpenSSL has already allocated memory.
bool wipe_memory_freed_by_openssl() noexcept;

// For containers that hold secrets temporarily: memory is wiped before it is freed.
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
