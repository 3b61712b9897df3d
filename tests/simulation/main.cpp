#include "agent/io/log.hpp"
#include "tests/simulation/child.hpp"
#include "tests/simulation/dice.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/observer.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <set>
#include <sstream>
#include <string_view>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// simulation [--seed N] [--histories N] [--steps N] [--seconds N] [--power [--states N]] [--failures N]
// [--shrink]
//            [--events N] [--skip N,N,...] [--verbose]
// Plays histories one after another, each in a process of its own, starting with the one of --seed.

namespace {

using simulation::options;
using simulation::outcome;

// OpenSSL's random numbers, derived from the seed: a replayed history generates the same keys.
simulation::dice* random_numbers = nullptr;

int random_bytes(unsigned char* into, int count)
{
    for (int i = 0; i < count; ++i)
        into[i] = static_cast<unsigned char>(random_numbers->next());
    return 1;
}

int always()
{
    return 1;
}

void seed_openssl(std::uint64_t seed)
{
    random_numbers = new simulation::dice(seed ^ 0x5eed);
    static RAND_METHOD method{nullptr, random_bytes, nullptr, nullptr, random_bytes, always};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    RAND_set_rand_method(&method);
#pragma GCC diagnostic pop
}

struct totals {
    std::uint64_t histories = 0;
    std::uint64_t steps = 0;
    std::uint64_t events = 0;             // of the last history
    std::vector<std::uint64_t> happened;  // in the last history
    std::map<std::string, std::uint64_t> counted;
};

// In the child: plays one history and writes its outcome to the pipe.
[[noreturn]] void play_and_tell(const options& o, int to)
{
    // create Asio's signal pipe before the first life: killed lives share it
    static boost::asio::io_context context;
    static boost::asio::signal_set signals(context, SIGUSR2);
    io::configure_log(io::severity::info, io::log_format::text);
    ::setenv("RUNTIME_DIRECTORY", (o.root / "run").c_str(), 1);
    seed_openssl(o.seed);
    const auto played = simulation::play(o);
    std::ostringstream out;
    out << "steps " << played.steps << "\nevents " << played.events << "\n";
    for (const auto& [what, times] : played.counted)
        out << "count " << times << " " << what << "\n";
    for (const auto number : played.happened)
        out << "happened " << number << "\n";
    for (const auto& law : played.broken)
        out << "broken " << law << "\n";
    const auto text = out.str();
    for (std::size_t at = 0; at < text.size();)
        at += static_cast<std::size_t>(std::max<ssize_t>(::write(to, text.data() + at, text.size() - at), 0));
    ::_exit(played.broken.empty() ? 0 : 1);
}

// Returns the violated invariants; empty: none.
std::string run(options o, totals& all)
{
    o.root = "/dev/shm/s" + std::to_string(::getpid());
    std::filesystem::remove_all(o.root);
    const auto [told, status] = simulation::in_child([&](int to) {
        if (o.states == 0) ::alarm(100);
        play_and_tell(o, to);
    });
    std::filesystem::remove_all(o.root);
    ++all.histories;
    std::istringstream in(told);
    std::string line;
    std::string broken;
    all.happened.clear();
    while (std::getline(in, line)) {
        if (line.starts_with("steps ")) all.steps += std::stoull(line.substr(6));
        if (line.starts_with("events ")) all.events = std::stoull(line.substr(7));
        if (line.starts_with("happened ")) all.happened.push_back(std::stoull(line.substr(9)));
        if (line.starts_with("broken ")) broken += line.substr(7) + "\n";
        if (!line.starts_with("count ")) continue;
        const auto blank = line.find(' ', 6);
        const auto what = line.substr(blank + 1);
        const auto times = std::stoull(line.substr(6, blank - 6));
        auto& known = all.counted[what];
        known = what.starts_with("most ") ? std::max<std::uint64_t>(known, times) : known + times;
    }
    if (WIFSIGNALED(status))
        broken += "the program ended by signal " + std::to_string(WTERMSIG(status)) + "\n";
    else if (WEXITSTATUS(status) != 0 && broken.empty())
        broken = "exit " + std::to_string(WEXITSTATUS(status)) + "\n";
    return broken;
}

// The violated invariants of an outcome, without their details.
std::set<std::string> laws_of(const std::string& broken)
{
    std::set<std::string> laws;
    std::istringstream in(broken);
    for (std::string line; std::getline(in, line);)
        laws.insert(line.substr(0, line.find(':')));
    return laws;
}

// Leaves out as many events as possible while the same invariant is violated (delta debugging): first those
// after the failure, then ever smaller groups of the others.
options shrink(options o, const std::string& broken)
{
    const auto laws = laws_of(broken);
    totals last;
    const auto still_fails = [&](const options& tried) {
        const auto now = laws_of(run(tried, last));
        return std::ranges::any_of(now, [&](const auto& law) { return laws.contains(law); });
    };
    if (!still_fails(o)) return o;
    o.events = last.events;
    auto left = last.happened;
    const auto all = left.size();
    for (std::size_t group = std::max<std::size_t>(left.size() / 2, 1);;) {
        bool fewer = false;
        for (std::size_t at = 0; at < left.size();) {
            auto tried = o;
            const auto end = std::min(at + group, left.size());
            tried.skipped.insert(left.begin() + static_cast<std::ptrdiff_t>(at),
                                 left.begin() + static_cast<std::ptrdiff_t>(end));
            if (still_fails(tried)) {
                o = tried;
                o.events = last.events;
                // what follows may have changed: new power cuts belong to the history, too
                left = last.happened;
                fewer = true;
            } else {
                at = end;
            }
        }
        if (group == 1 && !fewer) break;
        group = std::max<std::size_t>(group / 2, 1);
    }
    std::cout << "shrunk from " << all << " events to " << left.size() << "\n";
    return o;
}

std::set<std::uint64_t> numbers(const std::string& text)
{
    std::set<std::uint64_t> all;
    std::istringstream in(text);
    for (std::string each; std::getline(in, each, ',');)
        all.insert(std::strtoull(each.c_str(), nullptr, 10));
    return all;
}

std::string replay_of(const options& o)
{
    std::string line = " --seed " + std::to_string(o.seed) + " --steps " + std::to_string(o.steps);
    if (o.power) line += " --power";
    if (o.states > 0) line += " --states " + std::to_string(o.states);
    if (o.events != ~0ULL) line += " --events " + std::to_string(o.events);
    if (!o.skipped.empty()) line += " --skip ";
    for (const auto each : o.skipped)
        line += (line.ends_with(' ') ? "" : ",") + std::to_string(each);
    return line + " --histories 1 --verbose";
}

// What a history cannot reach, by the beginning of its name, and why.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> out_of_reach = {{
    {"action verify", "the connection to the broker is not simulated; see tests/kafka"},
    {"rule not_verified", "the connection to the broker is not simulated"},
    {"error probe_", "the connection to the broker is not simulated"},
    {"error untrusted", "TLS is below the simulated network"},
    {"error config", "a configuration is refused before anything runs"},
    {"error usage", "the command line is not simulated"},
    {"error busy", "one process at a time holds the state directory"},
    {"error crypto", "OpenSSL does not fail"},
    {"error internal", "only a defect leads to it"},
    {"error token_source", "the configuration has an OAuth client, so no other program supplies tokens"},
    {"rule instance_missing", "the configuration allows the agent to create the instance"},
}};

// What the product has rules, actions and errors for, and how much of it was reached.
void show_coverage(const totals& all)
{
    std::map<std::string, std::pair<int, int>> reached;  // of so many, by kind
    std::string never;
    std::map<std::string_view, std::string_view> beyond;
    for (const auto& [what, none] : simulation::observer::reachable()) {
        const auto known = std::ranges::find_if(
            out_of_reach, [&](const auto& each) { return what.starts_with(each.first); });
        const auto kind = what.substr(0, what.find(' ')) + (what.ends_with(": done")    ? " done"
                                                            : what.ends_with(": fails") ? " fails"
                                                                                        : "");
        auto& [some, total] = reached[kind];
        ++total;
        const auto found = all.counted.find(what);
        if (found != all.counted.end() && found->second > 0)
            ++some;
        else if (known != out_of_reach.end())
            beyond.insert(*known);
        else
            never += (never.empty() ? "" : ", ") + what;
    }
    for (const auto& [kind, numbers] : reached)
        std::cout << numbers.first << " of " << numbers.second << "\treached: " << kind << "\n";
    for (const auto& [what, why] : beyond)
        std::cout << "out of reach: " << what << ": " << why << "\n";
    std::cout << "never reached: " << (never.empty() ? "nothing" : never) << "\n";
}

std::uint64_t number(const char* text)
{
    return std::strtoull(text, nullptr, 10);
}

}  // namespace

int main(int argc, char** argv)
{
    options o;
    std::uint64_t histories = 1'000'000'000;
    std::uint64_t seconds = 20;
    int failures = 1;  // stop after this many
    bool shrinks = false;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto* const value = i + 1 < argc ? argv[i + 1] : "0";
        if (word == "--verbose")
            o.verbose = true;
        else if (word == "--power")
            o.power = true;
        else if (word == "--seed")
            o.seed = number(value), ++i;
        else if (word == "--states")
            o.states = number(value), ++i;
        else if (word == "--steps")
            o.steps = number(value), ++i;
        else if (word == "--shrink")
            shrinks = true;
        else if (word == "--skip")
            o.skipped = numbers(value), ++i;
        else if (word == "--events")
            o.events = number(value), ++i;
        else if (word == "--failures")
            failures = std::atoi(value), ++i;
        else if (word == "--histories")
            histories = number(value), ++i;
        else if (word == "--seconds")
            seconds = number(value), ++i;
        else
            return std::cerr << "simulation: unknown argument " << word << "\n", 2;
    }
    ::setenv("TZ", "UTC", 1);
    rlimit files{.rlim_cur = 65536, .rlim_max = 65536};
    ::setrlimit(RLIMIT_NOFILE, &files);
    const auto began = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };
    totals all;
    int failed = 0;
    while (all.histories < histories && elapsed() < static_cast<double>(seconds)) {
        const auto broken = run(o, all);
        if (!broken.empty()) {
            ++failed;
            std::cout << "seed " << o.seed << " breaks\n" << broken << std::flush;
            const auto again = shrinks ? shrink(o, broken) : o;
            std::cout << "replay: " << argv[0] << replay_of(again) << "\n";
            if (failed >= failures) break;
        }
        ++o.seed;
    }
    for (const auto& [what, times] : all.counted)
        std::cout << times << "\t" << what << "\n";
    show_coverage(all);
    std::cout << all.histories << " histories, " << all.steps << " steps, "
              << static_cast<std::uint64_t>(static_cast<double>(all.steps) / elapsed()) << " steps a second, "
              << failed << " failed\n";
    return failed == 0 ? 0 : 1;
}
