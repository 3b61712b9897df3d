#include "crypto/openssl.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <cstring>
#include <utility>

namespace crypto::openssl {
namespace {

std::string reason_of(unsigned long code)
{
    if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
    if (const char* reason = ERR_reason_error_string(code)) return reason;
    return "error " + std::to_string(code);
}

}  // namespace

error_queue::error_queue() noexcept
{
    ERR_clear_error();
}

error_queue::~error_queue()
{
    ERR_clear_error();
}

policy::failure error_queue::failure(std::string what, policy::errc code) const
{
    std::string reasons;
    while (const unsigned long error = ERR_get_error()) {
        reasons += reasons.empty() ? ": " : ", ";
        reasons += reason_of(error);
    }
    return {.code = code, .context = std::move(what) + reasons};
}

bio reader(std::string_view bytes)
{
    return bio(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

std::string_view written(const bio& memory)
{
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(memory.get(), &bytes);
    return size > 0 ? std::string_view(bytes, static_cast<std::size_t>(size)) : std::string_view();
}

std::string to_pem(const char* label, std::string_view der)
{
    const error_queue errors;
    const bio memory(BIO_new(BIO_s_mem()));
    PEM_write_bio(memory.get(), label, "", reinterpret_cast<const unsigned char*>(der.data()),
                  static_cast<long>(der.size()));
    return std::string(written(memory));
}

}  // namespace crypto::openssl
