#pragma once

#include <boost/json/memory_resource.hpp>
#include <boost/json/storage_ptr.hpp>

#include <cstring>
#include <new>

namespace platform {

// Memory for JSON that holds tokens: overwritten before it is given back.
class wiping_storage final : public boost::json::memory_resource {
private:
    void* do_allocate(std::size_t size, std::size_t alignment) override
    {
        return ::operator new(size, std::align_val_t(alignment));
    }

    void do_deallocate(void* memory, std::size_t size, std::size_t alignment) override
    {
        explicit_bzero(memory, size);
        ::operator delete(memory, std::align_val_t(alignment));
    }

    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace platform
