#include "agent/reconcile/credentials.hpp"

#include "agent/disk/files.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/log.hpp"
#include "crypto/digest.hpp"
#include "policy/backoff.hpp"
#include "policy/fingerprint.hpp"

#include <algorithm>
#include <filesystem>

namespace reconcile {
namespace {

using disk::credential_record;
using policy::desired_credential;

std::vector<std::string> elements_of(const desired_credential& c)
{
    std::vector<std::string> ids;
    for (const auto& [name, element] : c.elements)
        if (std::ranges::find(ids, element) == ids.end()) ids.push_back(element);
    return ids;
}

policy::result<crypto::secret> content_of(const desired_credential& c, const platform::element_values& found)
{
    if (!found.missing.empty())
        return policy::failure{.code = policy::errc::bad_answer,
                               .context = "credential " + c.name + ": " + found.missing.begin()->second};
    std::map<std::string, std::string> values;
    for (const auto& [name, element] : c.elements)
        values[name] = found.values.at(element).view();
    auto text = policy::render_values(c.format, values);
    for (auto& [name, value] : values)
        crypto::wipe(value);
    if (!text) return policy::with_context("credential " + c.name, text.error());
    return crypto::secret(std::move(*text));
}

// True when it wrote the file: the file was missing or its content differed.
policy::result<bool> write_values(const desired_credential& c, const crypto::secret& content)
{
    const std::filesystem::path path(c.file);
    auto access = disk::access_for(c.access);
    if (!access) return access.error();
    auto directory = disk::directory::make_path(path.parent_path(), {.mode = 0755},
                                                {.uid = access->uid, .gid = access->gid});
    if (!directory) return directory.error();
    return disk::update_file(*directory, path.filename(), content.view(), *access);
}

io::task<void> fetch_one(credential_ports& ports, const desired_credential& c, credential_record& record)
{
    const auto found = co_await ports.catalog.action_values(c.resource, c.action, elements_of(c));
    if (!found) co_return policy::with_context("credential " + c.name, found.error());
    auto content = content_of(c, *found);
    if (!content) co_return content.error();
    const auto written = co_await io::offload(ports.pool, [&] { return write_values(c, *content); });
    if (!written) co_return policy::with_context("credential " + c.name, written.error());
    io::crash_point("credential.written");

    const auto digest = crypto::sha256_hex(content->view());
    record.hooks_pending =
        record.hooks_pending || (!c.hooks.empty() && (*written || digest != record.digest));
    record.digest = digest;
    record.wanted = policy::entry_fingerprint(c);
    record.fetched_at = ports.clock.now();
    if (*written || !record.updated_at) {
        record.updated_at = ports.clock.now();
        io::log(io::severity::info, io::events::credential_updated, {"", c.name},
                "credential " + c.name + ": " + c.file + " written");
    }
    co_return policy::result<void>();
}

io::task<void> run_hooks(credential_ports& ports, const desired_credential& c, credential_record& record)
{
    if (!record.hooks_pending) co_return policy::result<void>();
    const deploy::hook_run run{.name = {"", c.name},
                               .hooks = c.hooks,
                               .directory = std::filesystem::path(c.file).parent_path(),
                               .generation = "",
                               .not_after = std::nullopt,
                               .reason = "credential_changed"};
    auto passed = co_await ports.hooks.run(run);
    if (!passed) co_return passed.error();
    record.hooks_pending = false;
    co_return policy::result<void>();
}

void note(credential_record& record, const policy::result<void>& outcome, policy::instant now,
          std::string wanted)
{
    if (outcome) {
        record.failures = 0;
        record.last_error.clear();
        record.next_attempt.reset();
        return;
    }
    std::optional<policy::failure_memory> before;
    if (record.failures > 0) before = policy::failure_memory{.count = record.failures, .wanted = wanted};
    const auto memory = policy::remember(before, outcome.error(), wanted, std::nullopt, now);
    record.failures = memory.count;
    record.last_error = memory.sentence;
    record.next_attempt = memory.next_attempt;
    record.wanted = std::move(wanted);
}

io::task<void> save(credential_ports& ports, const std::string& name, const credential_record& record)
{
    disk::change what;
    what.credentials[name] = record;
    co_return co_await ports.store.commit(std::move(what));
}

io::awaitable<policy::result<void>> keep_one(credential_ports& ports, const desired_credential& c,
                                             bool fetch_now, credential_record& record)
{
    policy::result<void> outcome;
    if (fetch_now) outcome = co_await fetch_one(ports, c, record);
    // Store the change before the hooks run, so that they run again after a crash.
    if (outcome && record.hooks_pending) outcome = co_await save(ports, c.name, record);
    if (outcome) outcome = co_await run_hooks(ports, c, record);
    co_return outcome;
}

credential_status status_of(const desired_credential& c, const credential_record& record, policy::instant now)
{
    const auto facts = credential_facts_of(c, record);
    credential_status view{.name = c.name,
                           .reason = "fresh",
                           .sentence = c.file + " is up to date",
                           .due_at = std::max(policy::fetch_due_at(c, facts), now)};
    const auto say = [&](const char* reason, std::string sentence) {
        view.reason = reason;
        view.sentence = std::move(sentence);
        return view;
    };
    if (!facts.file_there || !facts.fetched_at) return say("absent", c.file + " does not exist yet");
    if (facts.wanted != policy::entry_fingerprint(c))
        return say("changed", "its entry in the configuration has changed");
    if (!record.last_error.empty()) return say("failing", record.last_error);
    if (record.hooks_pending) return say("due", "not all of its hooks have succeeded yet");
    if (view.due_at <= now) return say("due", "due for its next fetch");
    return view;
}

}  // namespace

std::vector<credential_status> credential_statuses_of(const policy::desired_state& desired,
                                                      const disk::paths& paths, policy::instant now)
{
    std::vector<credential_status> all;
    auto records = disk::state_database::load_credentials(paths);
    for (const auto& c : desired.credentials)
        all.push_back(status_of(c, records[c.name], now));
    return all;
}

policy::credential_facts credential_facts_of(const desired_credential& c, const credential_record& record)
{
    std::error_code unreadable;
    return {.file_there = std::filesystem::exists(c.file, unreadable),
            .wanted = record.wanted,
            .fetched_at = record.fetched_at,
            .next_attempt = record.next_attempt};
}

io::awaitable<credentials_outcome> keep_credentials(credential_ports ports, policy::desired_state desired,
                                                    fetch which)
{
    credentials_outcome outcome;
    auto records = disk::state_database::load_credentials(ports.paths);
    for (const auto& c : desired.credentials) {
        auto record = records[c.name];
        const auto before = record;
        auto facts = credential_facts_of(c, record);
        if (which == fetch::retry) facts.next_attempt.reset();
        const bool due = which == fetch::all || policy::fetch_due_at(c, facts) <= ports.clock.now();
        if (due || record.hooks_pending) {
            const auto kept = co_await keep_one(ports, c, due, record);
            if (!kept && kept.error().code == policy::errc::stopping) co_return outcome;
            note(record, kept, ports.clock.now(), policy::entry_fingerprint(c));
            if (!kept) outcome.failed.emplace(c.name, kept.error());
            // fetch::all reports failures in its outcome instead
            if (!kept && which != fetch::all && before.last_error != kept.error().context)
                io::log(io::severity::warning, io::events::credential_failed, {"", c.name},
                        kept.error().context);
            if (record != before) {
                auto saved = co_await save(ports, c.name, record);
                if (!saved) outcome.failed.emplace(c.name, saved.error());
            }
        }
        if (!outcome.failed.contains(c.name)) ++outcome.kept;
        const auto next = policy::fetch_due_at(c, credential_facts_of(c, record));
        outcome.wake_at = std::min(outcome.wake_at.value_or(next), next);
    }
    co_return outcome;
}

}  // namespace reconcile
