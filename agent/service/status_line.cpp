#include "agent/service/status_line.hpp"

#include "policy/naming.hpp"

#include <algorithm>

namespace service {
namespace {

std::string rough(policy::duration left)
{
    using namespace std::chrono;
    if (left <= 0s) return "now";
    if (left < 2min) return "in " + std::to_string(left.count()) + " s";
    if (left < 2h) return "in " + std::to_string(duration_cast<minutes>(left).count()) + " min";
    if (left < 48h) return "in " + std::to_string(duration_cast<hours>(left).count()) + " h";
    return "in " + std::to_string(duration_cast<days>(left).count()) + " d";
}

bool is_wanted(const policy::user_status& s)
{
    return s.state != policy::user_state::removing;
}

bool is_ok(const policy::user_status& s)
{
    return is_wanted(s) && !s.attention && s.current &&
           (s.state == policy::user_state::valid || s.state == policy::user_state::due);
}

}  // namespace

std::string status_line(const status_view& view, policy::instant now)
{
    const auto all = std::ranges::count_if(view.users, is_wanted);
    const auto ok = std::ranges::count_if(view.users, is_ok);
    std::string text = ok == all ? std::to_string(ok) : std::to_string(ok) + " of " + std::to_string(all);
    text += all == 1 ? " certificate ok" : " certificates ok";

    const policy::user_status* next = nullptr;
    for (const auto& s : view.users)
        if (is_ok(s) && s.rotate_at && (!next || *s.rotate_at < *next->rotate_at)) next = &s;
    if (next) text += ", next rotation " + next->name.text() + " " + rough(*next->rotate_at - now);
    const auto trouble = std::ranges::find_if(view.users, &policy::user_status::attention);
    if (view.login.state == platform::login_state::required)
        text +=
            "; " + (view.login.sentence.empty() ? "log in first: exposure-agent login" : view.login.sentence);
    else if (trouble != view.users.end())
        text += "; " + policy::about(trouble->name, trouble->sentence);
    return text;
}

}  // namespace service
