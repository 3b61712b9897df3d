#include "agent/service/credential_task.hpp"

#include "agent/service/operations.hpp"

#include <algorithm>

namespace service {
namespace {

constexpr std::chrono::milliseconds nothing_due = std::chrono::hours(1);
constexpr std::chrono::milliseconds shortest = std::chrono::seconds(1);

}  // namespace

credential_task::credential_task(application& app, timers& a)
    : app_(app),
      timers_(a),
      lock_(app.executor()),
      wake_(app.executor()),
      on_stop_(app.stop().on_request([this] { wake_.set(); }))
{
}

io::awaitable<void> credential_task::run()
{
    while (!app_.stop().requested()) {
        wake_.reset();
        const auto wait = co_await fetch_due();
        if (!app_.stop().requested()) co_await timers_.wait(wait, wake_);
    }
}

// How long until the next one is due.
io::awaitable<std::chrono::milliseconds> credential_task::fetch_due()
{
    const auto alone = co_await lock_.acquire();
    if (app_.stop().requested()) co_return nothing_due;
    const auto outcome = co_await keep_credentials(app_, reconcile::fetch::due);
    if (!outcome.wake_at) co_return nothing_due;
    co_return std::max<std::chrono::milliseconds>(*outcome.wake_at - app_.clock().now(), shortest);
}

}  // namespace service
