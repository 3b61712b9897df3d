#pragma once

#include "agent/io/stop_event.hpp"

#include <list>
#include <utility>

// One at a time among the coroutines of one thread, in the order in which they came.

namespace io {

class async_lock {
public:
    explicit async_lock(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

    // Frees the lock when it ends.
    class holder {
    public:
        holder(holder&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
        holder& operator=(holder&&) = delete;
        ~holder()
        {
            if (lock_) lock_->free();
        }

    private:
        friend class async_lock;
        explicit holder(async_lock& lock) : lock_(&lock) {}

        async_lock* lock_;
    };

    awaitable<holder> acquire()
    {
        if (std::exchange(taken_, true)) {
            waiter here(*this);
            co_await here.turn.wait();
        }
        co_return holder(*this);
    }

private:
    struct waiter {
        explicit waiter(async_lock& lock) : turn(lock.executor_), queue(lock.waiting_)
        {
            queue.push_back(this);
        }
        ~waiter() { queue.remove(this); }  // cancelled: nobody's turn is lost
        waiter(const waiter&) = delete;

        async_event turn;
        std::list<waiter*>& queue;
    };

    // Handed to the first who waits: nobody who comes later is faster.
    void free()
    {
        if (waiting_.empty()) {
            taken_ = false;
            return;
        }
        auto* next = waiting_.front();
        waiting_.pop_front();
        next->turn.set();
    }

    boost::asio::any_io_executor executor_;
    bool taken_ = false;
    std::list<waiter*> waiting_;
};

}  // namespace io
