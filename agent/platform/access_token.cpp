#include "agent/platform/access_token.hpp"

#include "agent/platform/token_endpoint.hpp"
#include "agent/platform/token_record.hpp"
#include "policy/fingerprint.hpp"

#include <array>
#include <functional>
#include <utility>

namespace platform {
namespace {

using namespace std::chrono_literals;
using origin = policy::secret_source::origin;

constexpr auto command_pause = 5s;              // after a run of the command, before the next one
constexpr policy::duration command_lead = 60s;  // the command runs again this long before its token expires
constexpr std::array refused_pauses = {1s, 2s,
                                       4s};  // between reads while the source still returns a refused token
constexpr auto refused_rest = 15s;           // after these, calls do not wait for the source for this long

}  // namespace

external_tokens::external_tokens(policy::secret_source source, secret_reader& reader, io::clock& clock,
                                 std::string_view owner)
    : source_(std::move(source)),
      reader_(reader),
      clock_(clock),
      share_(owner.empty() ? 0 : static_cast<int>(policy::stable_hash(owner) % 100))
{
}

io::task<crypto::secret> external_tokens::current()
{
    if (co_await is_stale())
        if (auto done = co_await read(); !done) co_return done.error();
    co_return token_.clone();
}

io::task<crypto::secret> external_tokens::after_refusal(crypto::secret refused)
{
    const bool newer = !token_.empty() && token_ != refused;
    if (newer) co_return co_await current();
    std::function<io::task<void>()> ask = [this, print = fingerprint_of(refused)] {
        return read_until_it_differs(print);
    };
    auto done = co_await asking_again_.run(std::move(ask));
    if (!done) co_return done.error();
    co_return token_.clone();
}

// Retries because the source may be about to change: a renewal under way, a file being replaced.
io::task<void> external_tokens::read_until_it_differs(std::string refused)
{
    const bool known = refused == refused_ && clock_.steady() < ask_again_at_;
    if (known && !may_read()) co_return policy::result<void>();
    auto done = co_await read_once();
    for (const std::chrono::milliseconds each : refused_pauses) {
        const auto pause = each + each * share_ / 100;
        if (done && fingerprint_of(token_) != refused) co_return done;
        if (known || source_.from == origin::environment) break;
        // out of time: return the refused token rather than the cancellation
        if (auto slept = co_await clock_.sleep_for(pause); !slept) break;
        done = co_await read_once();
    }
    if (done && fingerprint_of(token_) == refused) {
        refused_ = refused;
        ask_again_at_ = clock_.steady() + refused_rest;
    }
    co_return done;
}

io::awaitable<bool> external_tokens::is_stale()
{
    if (token_.empty()) co_return true;
    if (source_.from == origin::command) co_return expires_at_&& clock_.now() >= *expires_at_ - command_lead;
    const auto mark = co_await reader_.mark_of(source_);
    co_return mark&& mark != mark_;
}

// Limits how often the command runs: not for every call.
bool external_tokens::may_read() const
{
    return source_.from != origin::command || !read_ended_ || clock_.steady() - *read_ended_ >= command_pause;
}

io::task<void> external_tokens::read()
{
    std::function<io::task<void>()> once = [this] { return read_once(); };
    if (may_read()) co_return co_await reading_.run(std::move(once));
    if (failure_) co_return *failure_;
    co_return policy::result<void>();
}

io::task<void> external_tokens::read_once()
{
    read_at_ = clock_.now();
    const auto mark = co_await reader_.mark_of(source_);  // before the read: a later change is read again
    auto token = co_await reader_.read(source_, "identity.access_token", token_.clone());
    read_ended_ = clock_.steady();
    mark_ = mark;
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
    const auto claims = token_.empty() ? token_claims() : read_claims(token_);
    return {.state = login_state::external,
            .attention = failure_.has_value(),
            .sentence = failure_ ? failure_->context : std::string(),
            .subject = claims.user.empty() ? claims.subject : claims.user,
            .access_token_expires_at = expires_at_,
            .last_refresh_at = read_at_};
}

}  // namespace platform
