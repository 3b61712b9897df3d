#include "tests/simulation/machine.hpp"

#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>

#include <algorithm>
#include <memory>
#include <thread>
#include <unistd.h>

namespace simulation {
namespace {

using namespace std::chrono_literals;

thread_local int life_of_thread = 0;

// The executor behind workers() and writer().
class turn_executor {
public:
    turn_executor(machine& m, bool in_order) : machine_(&m), in_order_(in_order) {}

    boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept
    {
        static boost::asio::execution_context context;
        return context;
    }
    static constexpr boost::asio::execution::blocking_t query(boost::asio::execution::blocking_t) noexcept
    {
        return boost::asio::execution::blocking.never;
    }
    template <class Function>
    void execute(Function fn) const
    {
        // any_io_executor needs a copyable function, and the handler may be move-only
        auto job = [kept = std::make_shared<Function>(std::move(fn))] { (*kept)(); };
        in_order_ ? machine_->post_write(job) : machine_->post_job(job);
    }
    bool operator==(const turn_executor&) const noexcept = default;

private:
    machine* machine_;
    bool in_order_;
};

}  // namespace

machine*& the_machine()
{
    static machine* one = nullptr;
    return one;
}

machine::machine(std::uint64_t seed, std::filesystem::path root)
    : trouble(root / "state"),
      dice_(seed),
      root_(std::move(root)),
      epoch_(std::chrono::sys_days(std::chrono::year(2026) / 3 / 1).time_since_epoch())
{
}

void machine::add(nanoseconds delay, std::function<void()> what, int life)
{
    events_.emplace(std::pair((steady_ + std::max(delay, 0ns)).count(), dice_.next()),
                    event{std::move(what), life});
}

void machine::at(nanoseconds delay, std::function<void()> what)
{
    add(delay, std::move(what), 0);
}

void machine::at_in_this_life(nanoseconds delay, std::function<void()> what)
{
    add(delay, std::move(what), life_);
}

machine::end machine::live(std::function<void()> program)
{
    ++life_;
    alive_ = true;
    crash_at_ = ~0ULL;
    ended_ = end::returned;
    writes_.clear();
    in_job_ = writing_ = in_world_ = false;
    std::thread([this, life = life_, program = std::move(program)] {
        life_of_thread = life;
        program();
        alive_ = false;
        over_.release();
    }).detach();
    over_.acquire();
    return ended_;
}

bool machine::is_of_program() const
{
    return alive_ && life_of_thread == life_;
}

// Like SIGKILL: not one more instruction is executed. The thread stays blocked here with all its state.
void machine::crash(end how)
{
    ended_ = how;
    alive_ = false;
    over_.release();
    for (;;)
        ::pause();
}

void machine::wait(nanoseconds until)
{
    const auto is_forgotten = [this](const event& e) { return e.life != 0 && (!alive_ || e.life != life_); };
    while (!events_.empty() && is_forgotten(events_.begin()->second))
        events_.erase(events_.begin());
    ++steps_;
    if (events_.empty() || nanoseconds(events_.begin()->first.first) > until) {
        steady_ = std::max(steady_, until);
    } else {
        const auto first = events_.begin();
        steady_ = std::max(steady_, nanoseconds(first->first.first));
        const auto next = std::move(first->second);
        events_.erase(first);
        in_world_ = next.life == 0;
        next.what();
    }
    in_world_ = true;
    if (after_step) after_step();
    in_world_ = false;
}

void machine::changes_the_disk(const char* call)
{
    if (at_change) at_change(call);
    if (++changes_ == crash_at_) crash();
}

nanoseconds machine::job_delay()
{
    return dice_.chance(0.02) ? nanoseconds(dice_.between(0, 4'000'000'000))
                              : nanoseconds(dice_.between(0, 2'000'000));
}

void machine::post_job(std::function<void()> job)
{
    at_in_this_life(job_delay(), [this, job = std::move(job)] {
        in_job_ = true;
        job();
        in_job_ = false;
    });
}

void machine::write_all()
{
    if (std::exchange(writing_, true)) return;
    while (!writes_.empty()) {
        const auto job = std::move(writes_.front());
        writes_.pop_front();
        job();
    }
    writing_ = false;
}

// If a pool job is waiting for the writer, the writer runs at once.
void machine::post_write(std::function<void()> job)
{
    writes_.push_back(std::move(job));
    if (in_job_) return write_all();
    if (!writing_ && writes_.size() == 1) at_in_this_life(job_delay(), [this] { write_all(); });
}

boost::asio::any_io_executor machine::workers()
{
    return turn_executor(*this, false);
}

boost::asio::any_io_executor machine::writer()
{
    return turn_executor(*this, true);
}

}  // namespace simulation
