#include "agent/service/metrics.hpp"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <set>

namespace service {
namespace {

using label = std::pair<std::string_view, std::string_view>;
using labels = std::initializer_list<label>;

std::string escaped(std::string_view text)
{
    std::string out;
    for (const char c : text) {
        if (c == '\n') {
            out += "\\n";
            continue;
        }
        if (c == '\\' || c == '"') out += '\\';
        out += c;
    }
    return out;
}

// For sums of seconds: enough digits, never an exponent.
std::string decimal(double value)
{
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.6f", value);
    return text.data();
}

std::string bound_text(double bound)
{
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%g", bound);
    return text.data();
}

// One family after another: a name must not appear again later in the text.
class page {
public:
    void family(std::string_view name, const char* type, const char* help)
    {
        name_ = "exposure_agent_";
        name_ += name;
        text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
    }

    void sample(labels with, const std::string& value, std::string_view suffix = {})
    {
        text_ += name_;
        text_ += suffix;
        char separator = '{';
        for (const auto& [key, content] : with) {
            text_ += separator;
            text_ += key;
            text_ += "=\"" + escaped(content) + '"';
            separator = ',';
        }
        if (with.size() > 0) text_ += '}';
        text_ += ' ' + value + '\n';
    }

    std::string take() { return std::move(text_); }

private:
    std::string text_;
    std::string name_;
};

std::string seconds_of(const std::optional<policy::instant>& at)
{
    return at ? std::to_string(at->time_since_epoch().count()) : "0";
}

bool is_wanted(const policy::user_status& s)
{
    return s.state != policy::user_state::removing;
}

std::optional<policy::instant> expiry_of(const policy::user_status& s)
{
    if (!s.current || !s.current->certificate) return std::nullopt;
    return s.current->certificate->expiry();
}

// True when a consumer can log in with it now, judging by the disk alone.
bool is_ready(const policy::user_status& s, policy::instant now)
{
    const auto expiry = expiry_of(s);
    return expiry && *expiry > now && !s.current->missing_since;
}

template <class Value>
void each_user(page& out, const status_view& view, const char* name, const char* help, Value value)
{
    out.family(name, "gauge", help);
    for (const auto& s : view.users)
        if (is_wanted(s)) out.sample({{"exposure", s.name.exposure}, {"user", s.name.user}}, value(s));
}

void add_users(page& out, const status_view& view, policy::instant now)
{
    each_user(out, view, "certificate_not_after_timestamp_seconds",
              "When the certificate in use expires; 0 while there is none.",
              [](const auto& s) { return seconds_of(expiry_of(s)); });
    each_user(out, view, "certificate_rotate_at_timestamp_seconds",
              "When the certificate in use is to be rotated, paused or not; 0 while there is none.",
              [](const auto& s) { return seconds_of(s.due_at); });
    each_user(out, view, "certificate_ready", "Whether a certificate that has not expired is in use.",
              [now](const auto& s) { return std::string(is_ready(s, now) ? "1" : "0"); });
    each_user(out, view, "deploy_pending", "Whether hooks have not succeeded yet.", [](const auto& s) {
        const bool pending =
            s.deploy == policy::deploy_state::pending || s.deploy == policy::deploy_state::failed;
        return std::string(pending ? "1" : "0");
    });
    out.family("retiring_users", "gauge", "Replaced or removed users that are still to be deleted.");
    for (const auto& s : view.users)
        out.sample({{"exposure", s.name.exposure}, {"user", s.name.user}}, std::to_string(s.retiring.size()));
}

void add_credentials(page& out, const status_view& view)
{
    out.family("credential_failing", "gauge",
               "Whether the last fetch of a configured credential, or a hook, failed.");
    for (const auto& c : view.credentials)
        out.sample({{"credential", c.name}}, c.last_error.empty() ? "0" : "1");
    out.family("credential_updated_timestamp_seconds", "gauge",
               "When the file of a configured credential was last written; 0 while there is none.");
    for (const auto& c : view.credentials)
        out.sample({{"credential", c.name}}, seconds_of(c.updated_at));
}

void add_login(page& out, const status_view& view)
{
    const bool required = view.login.state == platform::login_state::required;
    out.family("login_required", "gauge", "Whether a person has to log in.");
    out.sample({}, required ? "1" : "0");
    out.family("access_token_expiry_timestamp_seconds", "gauge",
               "When the access token expires; 0 when that is not known.");
    out.sample({}, seconds_of(view.login.access_token_expires_at));
    out.family("login_failing_since_timestamp_seconds", "gauge",
               "When refreshing the access token started to fail; 0 if it is not failing.");
    out.sample({}, seconds_of(view.login.failing_since));
    out.family("token_published_timestamp_seconds", "gauge",
               "When identity.publish last succeeded; 0 if never.");
    out.sample({}, seconds_of(view.login.published_at));
    out.family("token_publish_failures_total", "counter", "Failed runs of identity.publish.");
    out.sample({}, std::to_string(view.login.publish_failures));
}

void add_notify(page& out, const status_view& view)
{
    const auto notify = view.notify.value_or(policy::notify_memory{});
    out.family("notify_failing", "gauge", "Whether the last notification could not be sent.");
    out.sample({}, notify.failure ? "1" : "0");
    out.family("notifications_total", "counter", "Notifications, by result.");
    out.sample({{"result", "success"}}, std::to_string(notify.sent));
    out.sample({{"result", "failure"}}, std::to_string(notify.failed));
}

void add_durations(page& out, const std::string& exposure, const durations& d)
{
    std::uint64_t so_far = 0;
    for (std::size_t i = 0; i < d.bounds.size(); ++i) {
        so_far += d.at_most.at(i);
        out.sample({{"exposure", exposure}, {"le", bound_text(d.bounds.at(i))}}, std::to_string(so_far),
                   "_bucket");
    }
    out.sample({{"exposure", exposure}, {"le", "+Inf"}}, std::to_string(d.count), "_bucket");
    out.sample({{"exposure", exposure}}, decimal(d.seconds), "_sum");
    out.sample({{"exposure", exposure}}, std::to_string(d.count), "_count");
}

}  // namespace

void durations::add(std::chrono::duration<double> took)
{
    const auto bound = std::ranges::lower_bound(bounds, took.count());
    if (bound != bounds.end()) ++at_most.at(static_cast<std::size_t>(bound - bounds.begin()));
    ++count;
    seconds += took.count();
}

void counters::count_step(const policy::action& step, const policy::result<void>& outcome)
{
    using policy::action_kind;
    if (!outcome && outcome.error().code == policy::errc::stopping) return;
    switch (step.kind) {
        case action_kind::publish:
            // Repairing the files does not count as a rotation.
            if (step.why != policy::reason::not_published) return;
            if (outcome) {
                ++rotations_[step.name].success;
                return;
            }
            break;
        case action_kind::issue:
        case action_kind::submit:
        case action_kind::collect:
        case action_kind::verify:
            break;
        default:
            return;
    }
    if (!outcome) ++rotations_[step.name].failure;
}

void counters::count_request(std::string_view operation, std::string_view status)
{
    ++requests_[{std::string(operation), std::string(status)}];
}

void counters::count_pass(const std::string& exposure, std::chrono::duration<double> took)
{
    passes_[exposure].add(took);
}

void counters::keep_only(const status_view& view)
{
    std::set<policy::user_name> users;
    std::set<std::string> exposures;
    for (const auto& e : view.exposures)
        exposures.insert(e.name);
    for (const auto& s : view.users) {
        users.insert(s.name);
        exposures.insert(s.name.exposure);
    }
    std::erase_if(rotations_, [&](const auto& each) { return !users.contains(each.first); });
    std::erase_if(passes_, [&](const auto& each) { return !exposures.contains(each.first); });
}

std::string metrics_text(const status_view& view, const counters& counted, const std::string& version,
                         policy::instant now)
{
    page out;
    out.family("build_info", "gauge", "Always 1; the version is a label.");
    out.sample({{"version", version}}, "1");
    add_users(out, view, now);
    add_credentials(out, view);
    add_login(out, view);
    add_notify(out, view);

    // Export every user at 0 from its start: a counter that first appears above 0 shows no increase.
    auto rotations = counted.rotations_;
    for (const auto& s : view.users)
        if (is_wanted(s)) rotations.try_emplace(s.name);
    out.family("rotations_total", "counter", "Certificates put in use, and failed steps towards one.");
    for (const auto& [name, counts] : rotations) {
        const auto sample = [&out, &user = name](const char* result, std::uint64_t count) {
            out.sample({{"exposure", user.exposure}, {"user", user.user}, {"result", result}},
                       std::to_string(count));
        };
        sample("success", counts.success);
        sample("failure", counts.failure);
    }
    out.family("platform_requests_total", "counter",
               "Requests to the platform, by operation and HTTP status or the error name.");
    for (const auto& [key, count] : counted.requests_)
        out.sample({{"operation", key.first}, {"status", key.second}}, std::to_string(count));
    out.family("reconcile_duration_seconds", "histogram", "How long a pass over an exposure takes.");
    for (const auto& [exposure, d] : counted.passes_)
        add_durations(out, exposure, d);
    return out.take();
}

}  // namespace service
