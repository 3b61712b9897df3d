#pragma once

#include <boost/json/memory_resource.hpp>
#include <boost/json/storage_ptr.hpp>

#include <cstring>
#include <new>

namespace platform {

// Memory for JSON that holds tokens: overwritten before it is given back.
class wiping_storage final : public boost::json::memory_resource {
private:
    // JSON asks for no alignment beyond the one that every allocation has.
    void* do_allocate(std::size_t size, std::size_t) override { return ::operator new(size); }

    void do_deallocate(void* memory, std::size_t size, std::size_t) override
    {
        explicit_bzero(memory, size);
        ::operator delete(memory);
    }

    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace platform
