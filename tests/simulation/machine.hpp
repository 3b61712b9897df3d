#pragma once

#include "tests/simulation/dice.hpp"
#include "tests/simulation/disk_trouble.hpp"
#include "tests/simulation/power.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <semaphore>
#include <string>
#include <utility>

// The machine under the program: clocks, timers, threads, and how the program ends. The program's own calls
// of the C library (clock_gettime, epoll_wait, rename, fsync, ...) end up here, so the shipped code runs
// unmodified: time passes only while it waits, one thing happens at a time, and the order is determined by
// the seed.

namespace simulation {

using nanoseconds = std::chrono::nanoseconds;

class machine {
public:
    machine(std::uint64_t seed, std::filesystem::path root);

    dice& chance() { return dice_; }
    const std::filesystem::path& root() const { return root_; }

    // ---- time
    nanoseconds steady() const { return steady_; }
    nanoseconds true_time() const { return steady_ + epoch_; }          // everybody else's clock
    nanoseconds wall() const { return steady_ + epoch_ + set_wrong_; }  // this host's clock
    void set_clock_wrong(nanoseconds by) { set_wrong_ = by; }
    bool clock_is_wrong() const { return set_wrong_ != nanoseconds(0); }
    void suspend(nanoseconds duration) { epoch_ += duration; }
    void pass(nanoseconds duration) { steady_ += duration; }  // the program sleeps

    // ---- future events. Events of the program are dropped when its life ends.
    void at(nanoseconds delay, std::function<void()> what);
    void at_in_this_life(nanoseconds delay, std::function<void()> what);

    // ---- lives (runs) of the program
    enum class end { returned, crashed, left_behind };
    // Runs the program on a thread of its own until it returns or crashes.
    end live(std::function<void()> program);
    int life() const { return life_; }
    bool alive() const { return alive_; }
    bool is_of_program() const;  // called on the program's thread during its life
    bool is_by_program() const { return is_of_program() && !in_world_; }  // excluding events of the world
    [[noreturn]] void crash(end how = end::crashed);
    // Crashes the program at the given change of the file system, counted from now.
    void crash_at_change(std::uint64_t number) { crash_at_ = changes_ + number; }

    // ---- called by the C library replacements
    void wait(nanoseconds until);             // nothing to do before `until`
    void changes_the_disk(const char* call);  // before each change
    std::uint64_t changes() const { return changes_; }
    power* disk = nullptr;  // records unsynced changes
    disk_trouble trouble;
    std::uint64_t steps() const { return steps_; }

    // after_step is called after every step, at_change before every change of the disk.
    std::function<void()> after_step;
    std::function<void(std::string_view call)> at_change;
    std::function<void(std::string_view)> on_log;

    // ---- threads: jobs of a pool, and jobs of a single writer in order
    boost::asio::any_io_executor workers();
    boost::asio::any_io_executor writer();
    void post_job(std::function<void()> job);
    void post_write(std::function<void()> job);

private:
    struct event {
        std::function<void()> what;
        int life;  // 0: event of the world
    };

    void add(nanoseconds delay, std::function<void()> what, int life);
    void write_all();
    nanoseconds job_delay();

    dice dice_;
    std::filesystem::path root_;
    nanoseconds steady_{std::chrono::hours(1)};
    nanoseconds epoch_;
    nanoseconds set_wrong_{0};
    std::multimap<std::pair<std::int64_t, std::uint64_t>, event> events_;
    std::deque<std::function<void()>> writes_;
    bool in_world_ = false;
    bool in_job_ = false;
    bool writing_ = false;
    int life_ = 0;
    bool alive_ = false;
    end ended_ = end::returned;
    std::uint64_t changes_ = 0;
    std::uint64_t crash_at_ = ~0ULL;
    std::uint64_t steps_ = 0;
    std::binary_semaphore over_{0};
};

// The machine that handles calls of the C library; null: they go to the real library.
machine*& the_machine();

}  // namespace simulation
