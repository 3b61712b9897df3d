#pragma once

#include "agent/io/stop_event.hpp"

#include <utility>

// One at a time among the coroutines of one thread, in no promised order.

namespace io {

class async_lock {
public:
    explicit async_lock(boost::asio::any_io_executor executor) : free_(std::move(executor)) { free_.set(); }

    // Frees the lock when it ends.
    class holder {
    public:
        holder(holder&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
        holder& operator=(holder&&) = delete;
        ~holder()
        {
            if (lock_) lock_->free_.set();
        }

    private:
        friend class async_lock;
        explicit holder(async_lock& lock) : lock_(&lock) {}

        async_lock* lock_;
    };

    awaitable<holder> acquire()
    {
        while (!free_.is_set())
            co_await free_.wait();
        free_.reset();
        co_return holder(*this);
    }

private:
    async_event free_;
};

}  // namespace io
