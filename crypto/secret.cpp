#include "crypto/secret.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <utility>

namespace crypto {

namespace {

void* allocate(std::size_t size, const char*, int)
{
    return size == 0 ? nullptr : std::malloc(size);
}

void release(void* memory, const char*, int)
{
    if (!memory) return;
    OPENSSL_cleanse(memory, ::malloc_usable_size(memory));
    std::free(memory);
}

// realloc(3) would not wipe the old block
void* reallocate(void* memory, std::size_t size, const char* file, int line)
{
    void* const larger = allocate(size, file, line);
    if (!memory || (!larger && size != 0)) return larger;
    if (larger) std::memcpy(larger, memory, std::min(size, ::malloc_usable_size(memory)));
    release(memory, file, line);
    return larger;
}

}  // namespace

secret::secret(std::string_view text)
{
    if (text.empty()) return;
    bytes_.reserve(text.size() + 1);  // one allocation: a growing vector would leave copies behind
    bytes_.assign(text.begin(), text.end());
    bytes_.push_back('\0');
}

secret::secret(const char* text) : secret(std::string_view(text)) {}

secret::secret(std::string&& text) : secret(std::string_view(text))
{
    wipe(text);
}

secret::secret(secret&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

secret& secret::operator=(secret&& other) noexcept
{
    bytes_.swap(other.bytes_);  // our old content is wiped with `other`
    return *this;
}

secret::~secret()
{
    OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

secret secret::clone() const
{
    return secret(view());
}

std::string_view secret::view() const noexcept
{
    return bytes_.empty() ? std::string_view() : std::string_view(bytes_.data(), bytes_.size() - 1);
}

const char* secret::c_str() const noexcept
{
    return bytes_.empty() ? "" : bytes_.data();
}

bool secret::empty() const noexcept
{
    return bytes_.empty();
}

bool operator==(const secret& a, const secret& b) noexcept
{
    return a.bytes_.size() == b.bytes_.size() &&
           CRYPTO_memcmp(a.bytes_.data(), b.bytes_.data(), a.bytes_.size()) == 0;
}

void wipe(std::string& text) noexcept
{
    OPENSSL_cleanse(text.data(), text.size());
    text.clear();
}

bool wipe_memory_freed_by_openssl() noexcept
{
    return CRYPTO_set_mem_functions(allocate, reallocate, release) == 1;
}

void wipe(void* bytes, std::size_t size) noexcept
{
    OPENSSL_cleanse(bytes, size);
}

}  // namespace crypto
