#include "agent/cli/progress.hpp"

#include "agent/cli/terminal.hpp"

#include <algorithm>
#include <iostream>

namespace cli {
namespace {

constexpr std::size_t bar_width = 24;

const char* doing(policy::action_kind kind)
{
    using policy::action_kind;
    switch (kind) {
        case action_kind::onboard:
            return "onboarding";
        case action_kind::issue:
        case action_kind::submit:
            return "requesting";
        case action_kind::collect:
            return "fetching";
        case action_kind::prove:
            return "proving";
        case action_kind::publish:
            return "publishing";
        case action_kind::deploy:
            return "running hooks";
        case action_kind::retire:
        case action_kind::retire_surplus:
        case action_kind::delete_before_replace:
            return "retiring";
        case action_kind::remove:
        case action_kind::forget:
            return "removing";
        default:
            return "noting";
    }
}

}  // namespace

progress::progress(const policy::desired_state& desired, bool wanted) : shown_(wanted && is_terminal(stderr))
{
    for (const auto& exposure : desired.exposures)
        total_ += exposure.users.size();
}

reconcile::step_listener progress::listener()
{
    if (!shown_) return {};
    return [this](const policy::action& step, const policy::result<void>* outcome) {
        if (outcome)
            end(step, outcome->has_value());
        else
            begin(step);
    };
}

void progress::begin(const policy::action& step)
{
    if (!step.name.user.empty()) done_.try_emplace(step.name, false);
    draw(std::string(doing(step.kind)) + " " +
         (step.name.user.empty() ? step.name.exposure : step.name.text()));
}

void progress::end(const policy::action& step, bool ok)
{
    const bool in_place =
        step.kind == policy::action_kind::publish || step.kind == policy::action_kind::deploy;
    if (ok && in_place) done_[step.name] = true;
}

void progress::draw(const std::string& text)
{
    const auto done =
        static_cast<std::size_t>(std::ranges::count_if(done_, [](const auto& user) { return user.second; }));
    const auto total = std::max<std::size_t>({total_, done_.size(), 1});
    const auto filled = done * bar_width / total;
    std::cerr << "\r\033[K[" << std::string(filled, '#') << std::string(bar_width - filled, '.') << "] "
              << done << "/" << total << "  " << text.substr(0, 48) << std::flush;
}

void progress::finish()
{
    if (shown_) std::cerr << "\r\033[K" << std::flush;
}

}  // namespace cli
