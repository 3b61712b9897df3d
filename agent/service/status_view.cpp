#include "agent/service/status_view.hpp"

#include "agent/disk/state_database.hpp"
#include "policy/dates.hpp"
#include "policy/naming.hpp"

#include <boost/json.hpp>

#include <algorithm>

namespace service {

namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

value text_or_null(const std::string& text)
{
    return text.empty() ? value(nullptr) : value(text);
}

value time_or_null(const std::optional<policy::instant>& at)
{
    return at ? value(policy::format_utc(*at)) : value(nullptr);
}

value verification_of(const policy::generation& g)
{
    switch (g.verified) {
        case policy::verification::none:
            return nullptr;
        case policy::verification::local:
            return "local";
        case policy::verification::broker:
            return "broker";
    }
    return nullptr;
}

void add_certificate(object& user, const policy::generation* g)
{
    const auto* c = g && g->certificate ? &*g->certificate : nullptr;
    user["generation"] = g ? value(g->id) : value(nullptr);
    user["remote_id"] = g ? text_or_null(g->remote_id) : value(nullptr);
    user["common_name"] = g ? value(g->sent.common_name) : value(nullptr);
    user["serial"] = c ? value(c->serial) : value(nullptr);
    user["not_before"] = c ? value(policy::format_utc(c->not_before)) : value(nullptr);
    user["not_after"] = c ? value(policy::format_utc(c->not_after)) : value(nullptr);
    user["expiration_date"] = c ? time_or_null(c->expiration_date) : value(nullptr);
}

value pending_of(const policy::generation* g)
{
    if (!g) return nullptr;
    return object{{"generation", g->id},
                  {"remote_id", text_or_null(g->remote_id)},
                  {"since", policy::format_utc(g->created_at)}};
}

value notify_json(const std::optional<policy::notify_memory>& notify)
{
    if (!notify) return nullptr;
    array cases;
    for (const auto& c : notify->cases)
        if (c.told_at)
            cases.push_back(object{{"case", policy::word_of(c.what)},
                                   {"subject", c.subject},
                                   {"since", policy::format_utc(c.since)},
                                   {"told_at", policy::format_utc(*c.told_at)},
                                   {"message", c.message}});
    return object{
        {"cases", std::move(cases)},
        {"last_error", notify->failure ? value(notify->failure->sentence) : value(nullptr)},
        {"failing_since", time_or_null(notify->failing_since)},
        {"next_attempt", notify->failure ? time_or_null(notify->failure->next_attempt) : value(nullptr)}};
}

object user_json(const policy::user_status& s)
{
    object user{{"exposure", s.name.exposure},
                {"name", s.name.user},
                {"state", policy::word_of(s.state)},
                {"reason", s.reason}};
    add_certificate(user, s.current);
    user["rotate_at"] = time_or_null(s.rotate_at);
    user["directory"] = text_or_null(s.directory);
    user["deploy"] = policy::word_of(s.deploy);
    user["proof"] = s.current ? verification_of(*s.current) : value(nullptr);
    user["pending"] = pending_of(s.pending);
    array retiring;
    for (const auto& r : s.retiring)
        retiring.push_back(object{{"remote_id", r.remote_id},
                                  {"common_name", r.common_name},
                                  {"delete_at", policy::format_utc(r.delete_at)}});
    user["retiring"] = std::move(retiring);
    user["failures"] = s.failures;
    user["last_error"] = text_or_null(s.last_error);
    user["next_attempt"] = time_or_null(s.next_attempt);
    user["sentence"] = s.sentence;
    user["warning"] = text_or_null(s.warning);
    return user;
}

std::string next_retry(const std::optional<policy::instant>& at, policy::instant now)
{
    if (!at) return "";
    return *at <= now ? "; next retry now" : "; next retry in " + until(at, now);
}

// Inserts the time of the next attempt before the command that does not wait for it.
std::string with_retry(std::string sentence, const std::optional<policy::instant>& at, policy::instant now)
{
    return sentence.insert(std::min(sentence.find(". Retry now: "), sentence.size()), next_retry(at, now));
}

// The command that the sentence itself names, else the usual one.
std::string command_of(const std::string& sentence, const std::string& usual)
{
    constexpr std::string_view program = "exposure-agent ";
    for (const std::string lead : {"Retry now: ", "un: ", "`"}) {  // Run: or run:
        const auto at = sentence.find(lead + std::string(program));
        if (at == std::string::npos) continue;
        const auto from = at + lead.size();
        const auto end = std::min({sentence.find_first_of(";,(`\n", from), sentence.find(". ", from),
                                   sentence.find(" before ", from)});
        auto command = sentence.substr(from, end == std::string::npos ? end : end - from);
        while (command.ends_with(' ') || command.ends_with('.'))
            command.pop_back();
        return command;
    }
    return usual;
}

class noticer {
public:
    noticer(const status_view& view, policy::instant now) : view_(view), now_(now) {}

    std::vector<notice> all()
    {
        if (!view_.disk.empty()) say(view_.disk, "");
        if (view_.is_decommissioned()) {
            say("This host was decommissioned at " + policy::format_utc(*view_.leaving->finished_at) +
                    ". To use it again, run: exposure-agent decommission --undo",
                "", false);
            return std::move(told_);
        }
        if (view_.leaving)
            say("This host is being decommissioned: nothing is created or rotated. To keep it, run: "
                "exposure-agent decommission --undo",
                "", false);
        const bool required = view_.login.state == platform::login_state::required;
        if (!view_.login.sentence.empty())
            say(policy::about("login", view_.login.sentence), "exposure-agent token");
        else if (required)
            say("Not logged in. Run: exposure-agent login", "");
        for (const auto& e : view_.exposures) {
            if (!e.incident.empty() && e.incident != e.last_error)
                say(policy::about("exposure " + e.name, e.incident), "exposure-agent plan");
            // the login's own line says it already
            if (!e.last_error.empty() && !(required && e.needs_login))
                say(with_retry(policy::about("exposure " + e.name, e.last_error), e.next_attempt, now_),
                    "exposure-agent doctor");
        }
        for (const auto& s : view_.users)
            add(s);
        for (const auto& c : view_.credentials)
            if (!c.last_error.empty())
                say(policy::about("credential " + c.name, c.last_error), "exposure-agent reconcile");
        if (view_.notify && view_.notify->failure)
            say("notification not sent: " + view_.notify->failure->sentence +
                    next_retry(view_.notify->failure->next_attempt, now_) +
                    ". To test it, run: exposure-agent notify --test",
                "exposure-agent notify --test");
        return std::move(told_);
    }

private:
    void say(const std::string& sentence, const std::string& usual, bool attention = true)
    {
        told_.push_back({sentence, command_of(sentence, usual), attention});
    }

    // A problem of a whole exposure is shown once, not for each of its users.
    void add(const policy::user_status& s)
    {
        const auto& sentence = s.last_error.empty() ? s.sentence : s.last_error;
        const bool said = std::ranges::any_of(view_.exposures, [&](const auto& e) {
            return e.name == s.name.exposure && (e.last_error == sentence || e.incident == sentence);
        });
        if (!said && (s.attention || !s.last_error.empty()))
            say(with_retry(policy::about(s.name, sentence), s.next_attempt, now_),
                "exposure-agent explain " + s.name.text());
        if (!s.warning.empty()) say(policy::about(s.name, s.warning), "", false);
        for (const auto& r : s.retiring)
            say(s.name.text() + ": " + r.common_name + " will be deleted " +
                    (r.delete_at <= now_ ? "in the next pass" : "in " + until(r.delete_at, now_)),
                "", false);
    }

    const status_view& view_;
    policy::instant now_;
    std::vector<notice> told_;
};

}  // namespace

status_view view_of(const policy::desired_state& desired, const policy::stored_state& stored,
                    platform::login_status login, std::vector<credential_view> credentials,
                    policy::instant now)
{
    status_view view{.owner = stored.owner, .login = std::move(login)};
    view.users = policy::statuses(desired, stored, now);
    view.leaving = stored.leaving;
    if (view.is_decommissioned()) view.login.sentence.clear();
    for (const auto& exposure : desired.exposures) {
        exposure_view e{.name = exposure.name};
        if (const auto kept = stored.exposures.find(exposure.name); kept != stored.exposures.end()) {
            if (kept->second.failure) {
                e.last_error = kept->second.failure->sentence;
                e.needs_login = kept->second.failure->code == policy::errc::login_required;
                e.next_attempt = kept->second.failure->next_attempt;
            }
            if (kept->second.blocked) e.incident = kept->second.blocked->sentence;
        }
        if (stored.cloned)
            e.incident =
                "the state directory was copied from another machine, so nothing is sent or deleted. If "
                "that machine is gone, run: exposure-agent takeover";
        view.exposures.push_back(std::move(e));
    }
    view.credentials = std::move(credentials);
    return view;
}

std::string disk_trouble(const disk::paths& where)
{
    const auto room = disk::has_room(where);
    return room ? std::string() : room.error().context;
}

std::vector<notice> notices(const status_view& view, policy::instant now)
{
    return noticer(view, now).all();
}

std::string until(const std::optional<policy::instant>& at, policy::instant now)
{
    if (!at) return "-";
    return *at <= now ? "now" : policy::format_duration(*at - now);
}

bool needs_attention(const status_view& view)
{
    const bool gone = view.is_decommissioned();
    return !view.disk.empty() || (view.notify && view.notify->failure) ||
           (!gone && (view.login.state == platform::login_state::required || view.login.attention ||
                      view.login.unsaved)) ||
           std::ranges::any_of(view.users, &policy::user_status::attention) ||
           std::ranges::any_of(view.exposures,
                               [](const auto& e) { return !e.last_error.empty() || !e.incident.empty(); }) ||
           std::ranges::any_of(view.credentials, [](const auto& c) { return !c.last_error.empty(); });
}

object to_json(const status_view& view)
{
    array users;
    for (const auto& s : view.users)
        users.push_back(user_json(s));
    array exposures;
    for (const auto& e : view.exposures)
        exposures.push_back(object{{"name", e.name},
                                   {"last_error", text_or_null(e.last_error)},
                                   {"next_attempt", time_or_null(e.next_attempt)},
                                   {"incident", text_or_null(e.incident)}});
    array credentials;
    for (const auto& c : view.credentials)
        credentials.push_back(object{{"name", c.name},
                                     {"state", c.state},
                                     {"updated_at", time_or_null(c.updated_at)},
                                     {"last_error", text_or_null(c.last_error)}});
    return {{"schema", "exposure-agent.status/v1"},
            {"owner", view.owner},
            {"disk", text_or_null(view.disk)},
            {"login", policy::word_of(view.login.state)},
            {"login_detail", text_or_null(view.login.sentence)},
            {"users", std::move(users)},
            {"credentials", std::move(credentials)},
            {"exposures", std::move(exposures)},
            {"decommission", view.leaving
                                 ? value(object{{"since", policy::format_utc(view.leaving->since)},
                                                {"at_once", view.leaving->at_once},
                                                {"finished_at", time_or_null(view.leaving->finished_at)}})
                                 : value(nullptr)},
            {"notify", notify_json(view.notify)}};
}

std::vector<credential_view> credential_views(const policy::desired_state& desired, const disk::paths& where)
{
    std::vector<credential_view> views;
    auto records = disk::state_database::load_credentials(where);
    for (const auto& credential : desired.credentials) {
        const auto& record = records[credential.name];
        const char* state = record.updated_at ? "valid" : "absent";
        if (!record.last_error.empty()) state = "failing";
        views.push_back({.name = credential.name,
                         .state = state,
                         .updated_at = record.updated_at,
                         .last_error = record.last_error});
    }
    return views;
}

// ---- the status line for systemctl

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
    if (view.is_decommissioned()) return "this host is decommissioned";
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
        text += "; " + (view.login.sentence.empty() ? "not logged in; run: exposure-agent login"
                                                    : view.login.sentence);
    else if (trouble != view.users.end())
        text += "; " + policy::about(trouble->name, trouble->sentence);
    return text;
}

}  // namespace service
