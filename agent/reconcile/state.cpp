#include "agent/reconcile/state.hpp"

#include "agent/io/async.hpp"
#include "policy/facts.hpp"

#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <exception>
#include <stdexcept>

namespace reconcile {
namespace {

policy::last_entry entry_of(const policy::desired_user& user)
{
    return {
        .retire_after = user.rotation.retire_after, .directory = user.output.directory, .hooks = user.hooks};
}

const policy::desired_exposure* find(const policy::desired_state& desired, const std::string& name)
{
    const auto found = std::ranges::find(desired.exposures, name, &policy::desired_exposure::name);
    return found == desired.exposures.end() ? nullptr : &*found;
}

const policy::desired_user* find(const policy::desired_exposure& exposure, const std::string& name)
{
    const auto found = std::ranges::find(exposure.users, name, &policy::desired_user::name);
    return found == exposure.users.end() ? nullptr : &*found;
}

// Compares the published files with the record and the configuration. Blocks: run it on the pool.
void compare_output(disk::publisher& publisher, const policy::user_index& all, policy::stored_user& user)
{
    const auto* exposure = all.of(user.name.exposure).wanted;
    const auto* want = all.wanted(user.name);
    if (user.current.empty() || !want) return;
    publisher.inspect(user, want->output.directory);
    const bool asked_otherwise = user.entry.directory != want->output.directory ||
                                 user.rendered != disk::rendering_of(*exposure, *want);
    if (user.output == policy::output_condition::sound && asked_otherwise)
        user.output = policy::output_condition::changed;
}

// Holding the lock of another exposure is a bug that the compiler cannot detect.
void must_hold(const state::hold& held, const std::string& exposure)
{
    if (held.exposure() != exposure)
        throw std::logic_error("a record of " + exposure + " in the turn of " + held.exposure());
}

}  // namespace

io::task<void> state::load()
{
    auto loaded = co_await io::offload(outside_.pool, [this] { return outside_.store.load(); });
    if (!loaded) co_return loaded.error();
    stored_ = std::move(*loaded);
    if (desired_->owner) stored_.owner = *desired_->owner;
    co_return policy::result<void>();
}

// The pool works on copies: other exposures' records may change meanwhile.
io::awaitable<void> state::inspect_outputs(std::string exposure)
{
    std::vector<policy::stored_user> copies;
    for (const auto& [name, user] : stored_.users)
        if (exposure.empty() || name.exposure == exposure) copies.push_back(user);
    const auto desired = desired_for(exposure);
    const policy::observed_state nothing_seen;
    const policy::user_index all(*desired, nothing_seen, stored_);
    co_await io::offload(outside_.pool, [&] {
        for (auto& copy : copies)
            compare_output(outside_.publisher, all, copy);
    });
    for (auto& copy : copies) {
        const auto user = stored_.users.find(copy.name);
        if (user == stored_.users.end() || user->second.current != copy.current) continue;
        user->second.output = copy.output;
        user->second.output_detail = std::move(copy.output_detail);
    }
}

io::awaitable<state::hold> state::take(std::string exposure)
{
    const auto executor = co_await boost::asio::this_coro::executor;
    auto turn = co_await turns_.try_emplace(exposure, executor).first->second.acquire();
    co_return hold(*this, std::move(exposure), std::move(turn));
}

void state::hold::begin(io::async_lock::holder turn)
{
    state_->pinned_[exposure_] = state_->desired_;
    turn_.emplace(std::move(turn));
}

void state::hold::end()
{
    if (!state_ || !turn_) return;
    state_->pinned_.erase(exposure_);
    turn_.reset();
}

io::awaitable<void> state::hold::without(io::awaitable<void> work)
{
    end();
    std::exception_ptr error;
    try {
        co_await std::move(work);
    } catch (...) {
        error = std::current_exception();
    }
    auto turn = co_await state_->turns_.at(exposure_).acquire();
    begin(std::move(turn));
    if (error) std::rethrow_exception(error);
}

std::optional<state::running_hooks> state::begin_hooks(const hold& held, const policy::user_name& name)
{
    must_hold(held, name.exposure);
    if (running_hooks_.contains(name)) return std::nullopt;
    running_hooks_.emplace(name, nullptr);
    return running_hooks(*this, name);
}

state::running_hooks::~running_hooks()
{
    if (!state_) return;
    const auto ended = state_->running_hooks_.extract(name_);
    if (ended && ended.mapped()) ended.mapped()->set();
}

io::awaitable<void> state::hooks_end(policy::user_name name)
{
    const auto executor = co_await boost::asio::this_coro::executor;
    const auto running = running_hooks_.find(name);
    if (running == running_hooks_.end()) co_return;
    auto& event = running->second;
    if (!event) event = std::make_shared<io::async_event>(executor);
    const auto ended = event;
    co_await ended->wait();
}

std::shared_ptr<const policy::desired_state> state::desired_for(const std::string& exposure) const
{
    const auto pinned = pinned_.find(exposure);
    return pinned == pinned_.end() ? desired_ : pinned->second;
}

const policy::desired_exposure* state::exposure(const std::string& name) const
{
    return find(*desired_for(name), name);
}

const policy::desired_user* state::wanted(const policy::user_name& name) const
{
    const auto* e = exposure(name.exposure);
    return e ? find(*e, name.user) : nullptr;
}

policy::stored_user& state::user(const hold& held, const policy::user_name& name)
{
    must_hold(held, name.exposure);
    auto& record = stored_.users[name];
    record.name = name;
    if (record.entry == policy::last_entry{})
        if (const auto* want = wanted(name)) record.entry = entry_of(*want);
    return record;
}

policy::stored_exposure& state::exposure_record(const hold& held, const policy::desired_exposure& e)
{
    must_hold(held, e.name);
    auto& record = stored_.exposures[e.name];
    record.name = e.name;
    if (!record.unreadable.empty()) return record;
    policy::place here{.base_url = e.base_url, .variant = e.variant, .tenant = e.tenant};
    // an instance id is valid only at its own address and tenant
    here.instance_id = record.where.instance_id;
    if (record.where == here) return record;
    here.instance_id.clear();
    record = {.name = e.name, .where = here};
    return record;
}

void state::forget(const hold& held, const policy::user_name& name)
{
    must_hold(held, name.exposure);
    stored_.users.erase(name);
}

io::task<void> state::change(const hold& held, policy::user_name name, std::vector<policy::user_event> events,
                             policy::origin from, disk::change with)
{
    const auto now = outside_.clock.now();
    const auto before = user(held, name);
    auto after = before;
    const bool new_files = !with.keys.empty() || !with.certificates.empty();
    for (const auto& what : events) {
        if (auto line = policy::describe(after, what, now, from)) with.events.push_back(std::move(*line));
        after = policy::apply(std::move(after), what, now);
    }
    user(held, name) = after;
    with.users.push_back(std::move(after));
    auto saved = co_await outside_.store.commit(std::move(with));
    const auto counts_once_stored = [](const policy::user_event& e) { return policy::must_be_stored(e); };
    if (!saved && (new_files || std::ranges::any_of(events, counts_once_stored))) user(held, name) = before;
    co_return saved;
}

io::task<void> state::record(const hold& held, const policy::user_name& name,
                             std::vector<policy::user_event> events, const policy::origin& from)
{
    return change(held, name, std::move(events), from, disk::change());
}

io::task<void> state::record(const hold& held, const policy::user_name& name, policy::user_event what,
                             const policy::origin& from)
{
    return record(held, name, std::move(what), from, disk::change());
}

io::task<void> state::record(const hold& held, const policy::user_name& name, policy::user_event what,
                             const policy::origin& from, disk::change with)
{
    std::vector<policy::user_event> events;
    events.push_back(std::move(what));
    return change(held, name, std::move(events), from, std::move(with));
}

io::task<void> state::record(const hold& held, policy::desired_exposure e, policy::exposure_event what)
{
    const auto before = exposure_record(held, e);
    const auto after = policy::apply(before, what, outside_.clock.now());
    exposure_record(held, e) = after;
    disk::change with;
    with.exposures.push_back(after);
    auto saved = co_await outside_.store.commit(std::move(with));
    if (!saved && policy::must_be_stored(what)) exposure_record(held, e) = before;
    co_return saved;
}

io::task<void> state::leave(std::optional<policy::decommission> how)
{
    disk::change with;
    with.leaving = how;
    with.staying = !how;
    auto saved = co_await outside_.store.commit(std::move(with));
    if (saved) stored_.leaving = how;
    co_return saved;
}

}  // namespace reconcile
