#include "tests/simulation/history_impl.hpp"

#include "tests/simulation/child.hpp"

#include <algorithm>
#include <unistd.h>

namespace simulation {

using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t draws_for_a_state = 8;  // few unsynced changes allow few different states

}  // namespace

void history::cut_power()
{
    try_states();
    ++outcome_.counted["power cut"];
    cut_power(disk_->draw(machine_.chance()));
}

// The pair in use survives, or the previous pair is restored as long as its user still exists.
void history::cut_power(const power::loss& drawn)
{
    say("power cut: " + std::to_string(disk_->unsynced()) + " changes are not synced");
    std::map<std::string, std::string> before;
    for (const auto& u : users_)  // a first `current` counts from its sync on
        before[u.slot()] = disk_->is_new(directory_of(u.slot()) / "current") ? "" : in_use(u.slot());
    const auto lost = disk_->cut(drawn);
    for (const auto& each : lost)
        say("  " + each);
    std::error_code ignored;
    fs::remove(state_dir() / "private" / "state.db-shm", ignored);
    for (const auto& [slot, key] : before) {
        const auto now = in_use(slot);
        if (key == now) continue;
        ++outcome_.counted["power cut: another pair is in use"];
        const auto lives = [this](const std::string& of) {
            return std::ranges::any_of(platform_.users, [&](const auto& u) { return u.second.key == of; });
        };
        const auto certificate = text_of(directory_of(slot) / "current" / "cert.pem");
        if (lives(key) && (now.empty() || platform_.deleted.contains(certificate)))
            broken("power cut",
                   slot + (now.empty() ? " lost its pair" : " has a pair back whose user is deleted") +
                       " although a usable one was in use");
    }
}

// Other states that the same power cut may leave behind. Each is built on a copy of the tree and judged by a
// process of its own, in which no more faults happen.
void history::try_states()
{
    const auto root = options_.root.native();
    const fs::path original = root + ".original";
    std::set<power::loss> drawn;
    const auto draws = disk_->unsynced() > 0 ? options_.states * draws_for_a_state : 0;
    for (std::uint64_t number = 1; number <= draws && drawn.size() < options_.states; ++number) {
        auto dice = dice_of(power_cuts + static_cast<std::uint64_t>(machine_.life()) * 1000 + number);
        const auto known = drawn.size();
        const auto& lost = *drawn.insert(disk_->draw(dice)).first;
        if (drawn.size() == known) {
            ++outcome_.counted["states after a power cut that were drawn before"];
            continue;
        }
        const fs::path copy = root + ".copy";
        copy_tree(options_.root, copy);
        fs::rename(options_.root, original);
        fs::rename(copy, options_.root);
        const auto [told, status] = in_child([&](int to) { judge_state(number, lost, original, to); });
        fs::remove_all(options_.root);
        fs::rename(original, options_.root);
        const auto line = told.find('\n');
        if (line == std::string::npos) {
            broken("power cut", "the process of state " + std::to_string(number) +
                                    " ended without reporting an outcome (status " +
                                    std::to_string(status) + ")");
            continue;
        }
        if (!states_.insert(std::stoull(told)).second) continue;
        ++outcome_.counted["distinct states after a power cut"];
        ++outcome_.counted["distinct states after a power cut: " + under_way()];
        if (line + 1 < told.size())
            broken("power cut", "state " + std::to_string(number) + ": " + told.substr(line + 1));
    }
}

// What the program had begun last.
std::string history::under_way() const
{
    if (platform_.last_was_token) return "login or refresh";
    return machine_.steady() - rolled_back_at_ < 1min ? last_step_ + " after a rollback" : last_step_;
}

void history::judge_state(std::uint64_t number, const power::loss& drawn, const fs::path& original, int to)
{
    ::alarm(60);
    judged_to_ = to;
    const auto aside = options_.root.native() + ".aside." + std::to_string(number);
    auto clone = disk_->on_copy(original, options_.root, aside);
    [[maybe_unused]] auto* const of_the_parent = disk_.release();
    disk_ = std::move(clone);
    machine_.disk = disk_.get();
    const auto broken_before = outcome_.broken.size();
    cut_power(drawn);
    look_at_outputs();
    const auto digest = digest_of_tree(options_.root);
    const auto text = std::to_string(digest) + "\n";
    [[maybe_unused]] const auto written = ::write(to, text.data(), text.size());
    if (states_.contains(digest) || outcome_.broken.size() > broken_before) state_is_judged();
    become_calm();
    if (elsewhere_) write_machine_id(false);
    once_ = false;
    state_since_ = machine_.steady();
    while (!over_)
        one_life();
    state_is_judged();
}

// The process of a state ends; not by a signal, which its parent would receive, too.
void history::state_is_judged()
{
    std::string text;
    for (const auto& law : outcome_.broken)
        text += law + " ";
    [[maybe_unused]] const auto written = ::write(judged_to_, text.data(), text.size());
    machine_.disk = nullptr;
    disk_.reset();
    ::_exit(0);
}

}  // namespace simulation
