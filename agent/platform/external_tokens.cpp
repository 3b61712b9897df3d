#include "agent/platform/external_tokens.hpp"

#include "agent/platform/token_answer.hpp"

#include <utility>

namespace platform {
namespace {

using namespace std::chrono_literals;
using origin = policy::secret_source::origin;

constexpr policy::duration command_pause = 5s;  // between two runs of the command
constexpr policy::duration command_lead = 60s;  // before the end of its token it is run again

}  // namespace

external_tokens::external_tokens(boost::asio::any_io_executor executor, policy::secret_source source,
                                 secret_reader& reader, io::clock& clock)
    : source_(std::move(source)), reader_(reader), clock_(clock), lock_(std::move(executor))
{
}

io::task<crypto::secret> external_tokens::current()
{
    const auto turn = co_await lock_.acquire();
    if (co_await is_stale())
        if (auto done = co_await read(); !done) co_return done.error();
    co_return token_.clone();
}

io::task<crypto::secret> external_tokens::after_refusal(crypto::secret refused)
{
    const auto turn = co_await lock_.acquire();
    const bool newer = !token_.empty() && token_ != refused;
    if (!newer || co_await is_stale())
        if (auto done = co_await read(); !done) co_return done.error();
    co_return token_.clone();
}

io::awaitable<bool> external_tokens::is_stale()
{
    if (token_.empty()) co_return true;
    if (source_.from == origin::command) co_return expires_at_&& clock_.now() >= *expires_at_ - command_lead;
    const auto mark = co_await reader_.mark_of(source_);
    co_return mark&& mark != mark_;
}

io::task<void> external_tokens::read()
{
    const auto now = clock_.now();
    if (source_.from == origin::command && read_at_ && now >= *read_at_ && now - *read_at_ < command_pause) {
        if (failure_) co_return *failure_;
        co_return policy::result<void>();
    }
    read_at_ = now;
    mark_ = co_await reader_.mark_of(source_);  // before the reading: a change in between is read again
    auto token = co_await reader_.read(source_, "identity.access_token");
    if (!token) {
        failure_ = token.error();
        co_return token.error();
    }
    failure_.reset();
    token_ = std::move(*token);
    expires_at_ = read_claims(token_).expires_at;
    co_return policy::result<void>();
}

login_status external_tokens::status() const
{
    return {.state = login_state::external,
            .sentence = failure_ ? failure_->context : std::string(),
            .subject = token_.empty() ? std::string() : read_claims(token_).subject,
            .access_token_expires_at = expires_at_,
            .last_refresh_at = read_at_};
}

}  // namespace platform
