#include "agent/platform/oauth.hpp"
#include "agent/service/exposure_tasks.hpp"
#include "policy/backoff.hpp"
#include "policy/facts.hpp"
#include "policy/limits.hpp"
#include "policy/observed.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// The load of a fleet on the platform during two years of virtual time: every host follows the schedule of
// the shipped program (turns, daily lists, rotation dates, backoff, spread at start, login heartbeat). No
// host's responses depend on other hosts, so the hosts are simulated one after another.
// tests/bench/fleet.py prints the results.

namespace {

using namespace std::chrono_literals;
using policy::duration;
using policy::instant;

constexpr instant epoch(1'800'000'000s);
constexpr duration years = std::chrono::days(730);
constexpr duration lifetime = std::chrono::days(365);
constexpr duration interval = 15min;
constexpr duration settle = 2min;
constexpr duration retire_after = std::chrono::days(1);
constexpr duration refresh_every = std::chrono::days(1);
constexpr int hosts_of_a_tenant = 3'333;  // about 10,000 users
constexpr int polls_until_ready = 4;
constexpr duration poll_interval = 5s;

// HTTP bytes in both directions (tests/e2e/test_fleet.py measures a pass of two users: 6,210).
constexpr std::uint32_t bytes_of_read = 2'070;
constexpr std::uint32_t bytes_of_refusal = 700;
constexpr std::uint32_t bytes_of_post = 4'000;
constexpr std::uint32_t bytes_of_listed_user = 360;

// Events that affect all hosts at once.
constexpr instant outage = epoch + std::chrono::days(200);
constexpr instant outage_ends = outage + 24h;
constexpr instant power_cut = epoch + std::chrono::days(300) + 2h;
constexpr instant power_is_back = power_cut + 6h;
constexpr instant token_revoked =
    epoch + std::chrono::days(500);  // of one keeper, until the second one publishes
constexpr instant token_replaced = token_revoked + 1h;

// A period recorded with a resolution of one second.
struct window {
    const char* name;
    instant from;
    duration length;
};
constexpr window windows[] = {
    {"steady state", epoch + std::chrono::days(40), 24h},
    {"all hosts onboarded within an hour", epoch, 24h},
    {"platform down for a day", outage, 36h},
    {"all hosts restarted after six hours", power_cut, 18h},
    {"a keeper's login revoked", token_revoked, 12h},
};

struct counts {
    std::vector<std::uint32_t> requests;
    std::vector<std::uint64_t> bytes;
};

struct totals {
    std::uint64_t creations = 0;
    std::uint64_t lists = 0;
    std::uint64_t refreshes = 0;
    std::uint64_t expired = 0;
    duration shortest_left = duration::max();
};

// The hosts of one worker thread.
class fleet {
public:
    fleet()
    {
        for (const auto& each : windows)
            seen.push_back({std::vector<std::uint32_t>(static_cast<std::size_t>(each.length.count())),
                            std::vector<std::uint64_t>(static_cast<std::size_t>(each.length.count()))});
        days.resize(static_cast<std::size_t>(years / std::chrono::days(1)) + 1);
    }

    void count(instant at, std::uint32_t requests, std::uint64_t bytes)
    {
        days[static_cast<std::size_t>((at - epoch) / std::chrono::days(1))] += requests;
        for (std::size_t i = 0; i < seen.size(); ++i) {
            const auto offset = at - windows[i].from;
            if (offset < 0s || offset >= windows[i].length) continue;
            seen[i].requests[static_cast<std::size_t>(offset.count())] += requests;
            seen[i].bytes[static_cast<std::size_t>(offset.count())] += bytes;
        }
    }

    std::vector<counts> seen;
    std::vector<std::uint64_t> days;  // requests per day
    totals all;
};

// Outside the windows, quiet days are counted without being simulated.
bool has_watched(instant from, duration length)
{
    return std::ranges::any_of(windows, [&](const window& w) {
        return from < w.from + w.length + 1h && from + length > w.from - 1h;
    });
}

class host {
public:
    host(int number, fleet& f) : fleet_(f), number_(number)
    {
        stored_.owner = "host-" + std::to_string(number);
        // not the product's hash: two values derived from the same hash would not be independent
        std::mt19937_64 drawn(static_cast<std::uint64_t>(number));
        clock_error_ = duration(static_cast<std::int64_t>(drawn() % 600) - 300);
        first_start_ = epoch + duration(static_cast<std::int64_t>(drawn() % 3600));
        previous_ = local(first_start_);
        exposure_.name = "logs";
        const auto users = drawn() % 5 + 1;
        for (std::uint64_t i = 0; i < users; ++i)
            exposure_.users.push_back({.name = "user-" + std::to_string(i)});
        desired_.exposures.push_back(exposure_);
        desired_.reconcile.interval = interval;
        desired_.reconcile.settle = settle;
    }

    void live()
    {
        auto now = first_start_;
        while (now < epoch + years) {
            if (now >= power_cut && now < power_is_back) {
                const service::status_view nothing_due;
                now = power_is_back + duration(number_ % 60);  // power returns rack by rack
                previous_ = local(now);
                now += std::chrono::duration_cast<duration>(
                    service::start_delay(nothing_due, "machine" + stored_.owner));
            }
            now = pass(now);
        }
        const auto beat = platform::heartbeat(refresh_every, stored_.owner);
        fleet_.all.refreshes += static_cast<std::uint64_t>(years / beat);
    }

private:
    instant local(instant at) const { return at + clock_error_; }

    static bool is_up(instant at) { return at < outage || at >= outage_ends; }
    static bool is_allowed(instant at) { return at < token_revoked || at >= token_replaced; }

    // Performs one pass; returns when the next one is due.
    instant pass(instant now)
    {
        auto& kept = stored_.exposures["logs"];
        const auto previous = std::exchange(previous_, local(now));
        if (!is_up(now) || !is_allowed(now)) {
            // refused, then retried with a token read again from its source
            fleet_.count(now, is_up(now) ? 2 : 1, bytes_of_refusal);
            const policy::failure failed{
                .code = is_up(now) ? policy::errc::unauthorized : policy::errc::unavailable,
                .context = "no answer",
                .kind = policy::retry::later};
            kept.failure = policy::remember(kept.failure, failed, "", std::nullopt, local(now));
            return next(now, now + years);
        }
        kept.failure.reset();

        const auto asked = policy::inquiry_of(desired_, exposure_, stored_, local(now), previous);
        std::uint32_t requests = 1;
        std::uint64_t bytes = bytes_of_read;
        if (asked.list) {
            ++requests;
            bytes += std::uint64_t{bytes_of_listed_user} * hosts_of_a_tenant * 3;
            ++fleet_.all.lists;
            kept.listed_at = local(now);
            kept.where = {.base_url = exposure_.base_url,
                          .variant = exposure_.variant,
                          .tenant = exposure_.tenant,
                          .instance_id = "i-1"};
        } else {
            requests += static_cast<std::uint32_t>(asked.ids.size());
            bytes += std::uint64_t{bytes_of_read} * asked.ids.size();
        }
        fleet_.count(now, requests, bytes);

        auto wake = now + years;
        for (const auto& user : exposure_.users)
            wake = std::min(wake, look_after(user, now));
        return skip_quiet(next(now, wake), wake, requests, bytes);
    }

    // Issues what is due and deletes what was replaced; returns when this user next needs a change.
    instant look_after(const policy::desired_user& wanted, instant now)
    {
        const policy::user_name name{"logs", wanted.name};
        auto& user = stored_.users[name];
        user.name = name;
        auto& all = user.generations;
        auto due = instant::min();
        if (!all.empty()) {
            const auto expiry = all.back().certificate->expiry();
            due =
                policy::rotate_at(*all.back().certificate, wanted.rotation.renew_before, stored_.owner, name)
                    .at;
            if (local(now) >= expiry) ++fleet_.all.expired;
            if (local(now) >= due)
                fleet_.all.shortest_left = std::min(fleet_.all.shortest_left, expiry - local(now));
        }
        if (all.size() > 1 && local(now) >= all.back().created_at + retire_after) {
            fleet_.count(now, 2, 2 * bytes_of_refusal);
            all.erase(all.begin());
        }
        if (local(now) >= due) {
            issue(user, now);
            return local(now) + settle;
        }
        return all.size() > 1 ? std::min(due, all.back().created_at + retire_after) : due;
    }

    void issue(policy::stored_user& user, instant now)
    {
        ++fleet_.all.creations;
        fleet_.count(now, 1, bytes_of_post);
        for (int poll = 1; poll <= polls_until_ready; ++poll)
            fleet_.count(now + poll_interval * poll, 1, bytes_of_read);
        policy::generation made;
        made.id = std::to_string(fleet_.all.creations);
        made.where = stored_.exposures["logs"].where;
        made.created_at = local(now);
        made.submitted_at = made.accepted_at = local(now);
        made.remote_id = "u";
        made.certificate = policy::certificate_facts();
        made.certificate->not_before = now;
        made.certificate->not_after = now + lifetime;
        user.generations.push_back(std::move(made));
    }

    instant next(instant now, instant wake)
    {
        reconcile::pass_outcome outcome;
        outcome.plan.wake_at = wake;
        const auto turn = policy::next_turn(stored_.owner, "logs", interval, local(now));
        const auto wait =
            service::wait_after(outcome, stored_.exposures["logs"].failure, turn - local(now), local(now));
        return now + std::max<duration>(std::chrono::ceil<duration>(wait), 1s);
    }

    // Skips whole days of idle passes outside the windows.
    instant skip_quiet(instant now, instant wake, std::uint32_t requests, std::uint64_t bytes)
    {
        while (now < epoch + years && !has_watched(now, 24h) && local(now) + 24h < wake &&
               now + 24h < epoch + years) {
            constexpr auto passes = static_cast<std::uint32_t>(24h / interval);
            fleet_.count(now, passes * requests + 1, bytes);
            ++fleet_.all.lists;
            stored_.exposures["logs"].listed_at = local(now + 24h);
            now += 24h;
            previous_ = local(now);
        }
        return now;
    }

    fleet& fleet_;
    int number_;
    policy::desired_exposure exposure_;
    policy::desired_state desired_;
    policy::stored_state stored_;
    duration clock_error_{};
    instant first_start_;
    instant previous_;  // pass, or start
};

template <class T>
T percentile(std::vector<T> values, double share)
{
    const auto at =
        values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
    std::ranges::nth_element(values, at);
    return *at;
}

template <class T>
double mean(const std::vector<T>& values)
{
    double sum = 0;
    for (const auto& value : values)
        sum += static_cast<double>(value);
    return sum / static_cast<double>(values.size());
}

template <class T>
boost::json::object summary(const std::vector<T>& values)
{
    // for the plot: the maximum of each of 480 intervals
    constexpr std::size_t parts = 480;
    boost::json::array plot;
    for (std::size_t i = 0; i < parts; ++i)
        plot.push_back(
            *std::max_element(values.begin() + static_cast<std::ptrdiff_t>(values.size() * i / parts),
                              values.begin() + static_cast<std::ptrdiff_t>(values.size() * (i + 1) / parts)));
    constexpr std::size_t minute = 60;
    double busiest = 0;
    for (std::size_t i = 0; i + minute <= values.size(); i += minute) {
        const auto from = values.begin() + static_cast<std::ptrdiff_t>(i);
        busiest = std::max(busiest, mean(std::vector<T>(from, from + minute)));
    }
    return {{"mean", mean(values)},
            {"minute", busiest},
            {"p999", percentile(values, 0.999)},
            {"peak", *std::ranges::max_element(values)},
            {"plot", std::move(plot)}};
}

template <class T>
void add(std::vector<T>& to, const std::vector<T>& from)
{
    std::ranges::transform(to, from, to.begin(), std::plus());
}

}  // namespace

int main(int argc, char** argv)
{
    const int hosts = argc > 1 ? std::atoi(argv[1]) : 100'000;
    const auto workers = std::max(1u, std::thread::hardware_concurrency());
    std::vector<fleet> shares(workers);
    std::atomic<int> following = 0;
    {
        std::vector<std::jthread> threads;
        for (auto& share : shares)
            threads.emplace_back([&] {
                for (int number = following++; number < hosts; number = following++)
                    host(number, share).live();
            });
    }
    auto& sum = shares.front();
    for (std::size_t i = 1; i < shares.size(); ++i) {
        add(sum.days, shares[i].days);
        for (std::size_t w = 0; w < sum.seen.size(); ++w) {
            add(sum.seen[w].requests, shares[i].seen[w].requests);
            add(sum.seen[w].bytes, shares[i].seen[w].bytes);
        }
        sum.all.creations += shares[i].all.creations;
        sum.all.lists += shares[i].all.lists;
        sum.all.refreshes += shares[i].all.refreshes;
        sum.all.expired += shares[i].all.expired;
        sum.all.shortest_left = std::min(sum.all.shortest_left, shares[i].all.shortest_left);
    }
    boost::json::array shown;
    for (std::size_t w = 0; w < sum.seen.size(); ++w)
        shown.push_back(boost::json::object{{"name", windows[w].name},
                                            {"hours", windows[w].length / 1h},
                                            {"requests", summary(sum.seen[w].requests)},
                                            {"bytes", summary(sum.seen[w].bytes)}});
    boost::json::array days;
    for (const auto day : sum.days)
        days.push_back(day);
    std::cout << boost::json::object{{"hosts", hosts},
                                     {"users_of_a_tenant", hosts_of_a_tenant * 3},
                                     {"creations", sum.all.creations},
                                     {"lists", sum.all.lists},
                                     {"refreshes", sum.all.refreshes},
                                     {"expired", sum.all.expired},
                                     {"shortest_left_days", sum.all.shortest_left / std::chrono::days(1)},
                                     {"windows", std::move(shown)},
                                     {"days", std::move(days)}}
              << "\n";
}
