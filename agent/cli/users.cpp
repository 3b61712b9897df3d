#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "agent/reconcile/observe.hpp"
#include "crypto/certificate.hpp"
#include "policy/dates.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"
#include "policy/status.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <iostream>

// What exists on the platform: users, users show, users delete, instances.

namespace cli {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

struct listed_user {
    std::string exposure;
    policy::remote_user user;
    std::string managed;  // this, other, none
    std::string role;     // in_use, pending, retiring, orphan; empty: not ours
    std::string owner;
    std::string name;  // EXPOSURE/USER, for ours and those of other owners
};

// The role of the users in this host's records, by remote id.
struct known_user {
    policy::user_name name;
    std::string role;
};

std::map<std::string, known_user> known_users(const policy::desired_state& desired,
                                              const policy::stored_state& stored, policy::instant now)
{
    std::map<std::string, known_user> known;
    for (const auto& s : policy::statuses(desired, stored, now)) {
        const auto found = stored.users.find(s.name);
        if (found == stored.users.end()) continue;
        for (const auto& g : found->second.generations)
            if (!g.remote_id.empty() && !g.kept)
                known[g.remote_id] = {s.name, &g == s.pending ? "pending" : "retiring"};
        const bool removing = s.state == policy::user_state::removing;
        if (s.current && !s.current->remote_id.empty())
            known[s.current->remote_id] = {s.name, removing ? "retiring" : "in_use"};
    }
    return known;
}

// The marker alone proves nothing: somebody may have copied it to a user with another key.
io::awaitable<bool> has_the_marked_key(service::application& app, platform::exposure_address address,
                                       std::string instance, policy::remote_user user)
{
    const auto detail = co_await app.api().read_user(address, instance, user.id);
    if (!detail || detail->certificate.empty()) co_return true;
    const auto chain = crypto::read_chain(detail->certificate);
    if (!chain) co_return true;
    co_return std::ranges::any_of(*chain, [&](const crypto::certificate& c) {
        return policy::marker_key(c.facts.public_key_fingerprint) == user.mark->key;
    });
}

// Ours by its id in our records, else by its marker and key.
io::awaitable<listed_user> classify(service::application& app, platform::exposure_address address,
                                    std::string instance, policy::remote_user user)
{
    const auto& stored = app.state().stored();
    const auto known = known_users(app.state().desired(), stored, app.clock().now());
    listed_user row{.exposure = address.name, .user = std::move(user), .managed = "none"};
    if (const auto record = known.find(row.user.id); record != known.end()) {
        row.managed = "this";
        row.owner = stored.owner;
        row.name = record->second.name.text();
        row.role = record->second.role;
        co_return row;
    }
    if (!row.user.mark) co_return row;
    row.owner = row.user.mark->owner;
    row.name = row.user.mark->name.text();
    row.managed = row.owner == stored.owner ? "this" : "other";
    if (row.managed == "other") co_return row;
    const bool marked = co_await has_the_marked_key(app, address, instance, row.user);
    row.managed = marked ? "this" : "none";
    row.role = marked ? "orphan" : "";
    co_return row;
}

value to_json(const std::optional<policy::business_group>& group)
{
    if (!group) return nullptr;
    return object{{"id", text_or_null(group->id)}, {"name", text_or_null(group->name)}};
}

object to_json(const listed_user& row)
{
    return {{"exposure", row.exposure},
            {"remote_id", row.user.id},
            {"name", row.user.name},
            {"status", row.user.status_text},
            {"managed", row.managed},
            {"role", text_or_null(row.role)},
            {"owner", text_or_null(row.owner)},
            {"user", text_or_null(row.name)},
            {"consumer_group", row.user.consumer_group},
            {"contact", row.user.contact},
            {"created_by", text_or_null(row.user.created_by)},
            {"creation_date", time_or_null(row.user.creation_date)},
            {"expiration_date", time_or_null(row.user.expiration_date)},
            {"business_group", to_json(row.user.group)},
            {"description", row.user.description}};
}

std::string group_text(const std::optional<policy::business_group>& group)
{
    if (!group) return "-";
    return text_or_dash(group->name) + (group->id.empty() ? "" : " (" + group->id + ")");
}

// One exposure as it is on the platform now: its instance and all of its users.
struct listing {
    policy::desired_exposure exposure;
    std::string instance;  // empty: none
    std::vector<listed_user> users;
};

io::task<listing> list_users(service::application& app, policy::desired_exposure exposure)
{
    listing found{.exposure = exposure};
    const policy::inquiry everybody{.others = true};
    const std::string any_owner;
    const auto seen =
        co_await reconcile::observe(app.api(), exposure, everybody, any_owner, app.clock().now());
    if (seen.error) co_return *seen.error;
    if (seen.instances.empty()) co_return found;
    found.instance = seen.instances.front().id;
    const auto address = reconcile::address_of(exposure);
    for (const auto& user : seen.users)
        found.users.push_back(co_await classify(app, address, found.instance, user));
    co_return found;
}

// The worst exit code of several exposures; 69 only if nothing on the platform could be reached.
int overall(const std::vector<int>& codes)
{
    namespace code = policy::exit_code;
    const int worst = codes.empty() ? code::done : std::ranges::max(codes);
    return worst == code::unreachable && std::ranges::count(codes, code::done) > 0 ? code::failed : worst;
}

// The named exposure, or all of them.
policy::result<std::vector<policy::desired_exposure>> chosen(const policy::desired_state& desired,
                                                             const std::string& name)
{
    if (name.empty()) return desired.exposures;
    const auto one = find_exposure(name, desired);
    if (!one) return one.error();
    return std::vector{*one};
}

std::string owner_text(const listed_user& row)
{
    return row.managed == "other" ? "other (" + row.owner + ")" : row.managed;
}

void print(const std::vector<listed_user>& rows)
{
    table users({"EXPOSURE", "NAME", "STATUS", "MANAGED", "ROLE", "USER", "EXPIRES", "BUSINESS GROUP", "ID"});
    for (const auto& row : rows)
        users.add(
            {{row.exposure},
             {row.user.name},
             {row.user.status_text},
             {owner_text(row), row.managed == "this" ? colour::green : colour::none},
             {text_or_dash(row.role), row.role == "orphan" ? colour::yellow : colour::none},
             {text_or_dash(row.name)},
             {row.user.expiration_date ? policy::format_utc(*row.user.expiration_date).substr(0, 10) : "-"},
             {group_text(row.user.group)},
             {row.user.id}});
    std::cout << (users.empty() ? "The platform has no users.\n" : users.text());
}

// users show

void print_one(const listed_user& row)
{
    const auto line = [](const char* name, const std::string& text) {
        std::cout << name << std::string(16 - std::string_view(name).size(), ' ')
                  << io::printable(text_or_dash(text)) << "\n";
    };
    line("id", row.user.id);
    line("name", row.user.name);
    line("exposure", row.exposure);
    line("status", row.user.status_text);
    line("managed", owner_text(row));
    line("role", row.role);
    line("user", row.name);
    line("consumer group", row.user.consumer_group);
    line("contact", row.user.contact);
    line("description", row.user.description);
    line("business group", group_text(row.user.group));
    line("created by", row.user.created_by);
    line("created", time_or_dash(row.user.creation_date));
    line("expires", time_or_dash(row.user.expiration_date));
}

std::string pem_of(const std::string& sent)
{
    const auto chain = crypto::read_chain(sent);
    if (!chain) return sent;
    std::string pem;
    for (const auto& certificate : *chain)
        pem += certificate.pem();
    return pem;
}

io::awaitable<int> show_user(service::application& app, const globals& common,
                             const users_show_options& options)
{
    const auto exposure = find_exposure(options.exposure, app.desired());
    if (!exposure) co_return report_failure(exposure.error());
    if (auto loaded = co_await app.state().load(); !loaded) co_return report_failure(loaded.error());
    const auto address = reconcile::address_of(*exposure);
    const auto instances = co_await app.api().list_instances(address);
    if (!instances) co_return report_failure(instances.error());
    const auto instance = instances->empty() ? std::string() : instances->front().id;
    policy::result<platform::user_detail> detail = policy::failure{.code = policy::errc::not_found};
    if (!instance.empty()) detail = co_await app.api().read_user(address, instance, options.id);
    if (!detail && detail.error().code == policy::errc::not_found)
        co_return report_failure({.code = policy::errc::not_found,
                                  .context = exposure->name + ": no user has the id " + options.id +
                                             ". Run: exposure-agent users " + exposure->name});
    if (!detail) co_return report_failure(detail.error());
    const auto row = co_await classify(app, address, instance, detail->user);
    const auto pem = options.certificate ? pem_of(detail->certificate) : std::string();
    if (common.json) {
        auto shown = to_json(row);
        if (options.certificate) shown["certificate"] = text_or_null(pem);
        print_json({{"schema", "exposure-agent.user/v1"}, {"user", std::move(shown)}});
    } else {
        print_one(row);
        if (options.certificate) std::cout << "\n" << (pem.empty() ? "no certificate yet\n" : pem);
    }
    co_return policy::exit_code::done;
}

// users delete

struct deletion {
    platform::exposure_address address;
    std::string instance;
    listed_user user;
};

io::task<void> delete_one(service::application& app, deletion what)
{
    const auto id = what.user.user.id;
    const auto deleted = co_await app.api().delete_user(what.address, what.instance, id);
    if (!deleted && policy::never_sent(deleted.error())) co_return deleted.error();
    // the response may be lost, and success may be reported too early: only a later read is conclusive
    const auto left = co_await app.api().read_user(what.address, what.instance, id);
    if (!left && left.error().code == policy::errc::not_found) co_return policy::result<void>();
    if (!deleted) co_return deleted.error();
    if (!left) co_return left.error();
    co_return policy::failure{.code = policy::errc::refused,
                              .context = what.address.name + ": user " + id +
                                         " still exists after the platform confirmed its deletion"};
}

// Prints the outcome of each; the worst exit code.
int report(const globals& common, const std::vector<deletion>& tried,
           const std::vector<policy::result<void>>& outcomes)
{
    int worst = policy::exit_code::done;
    array list;
    for (std::size_t i = 0; i < tried.size(); ++i) {
        const auto& id = tried[i].user.user.id;
        const auto& outcome = outcomes[i];
        if (!outcome)
            worst = std::max(worst, report_failure(outcome.error()));
        else if (!common.json)
            std::cout << "deleted " << id << "\n";
        list.push_back(object{{"exposure", tried[i].user.exposure},
                              {"remote_id", id},
                              {"deleted", outcome.has_value()},
                              {"error", outcome ? value(nullptr) : value(outcome.error().context)}});
    }
    if (common.json)
        print_json({{"schema", "exposure-agent.users-delete/v1"}, {"users", std::move(list)}});
    else if (tried.empty())
        std::cout << "No orphans. Every user of this agent is in use, pending or retiring.\n";
    return worst;
}

policy::failure not_deleted(policy::errc code, std::string why)
{
    return {.code = code, .context = std::move(why), .kind = policy::retry::never};
}

// The users that were named, or all orphans.
policy::result<std::vector<deletion>> select(const std::vector<listing>& listings,
                                             const users_delete_options& options)
{
    std::vector<deletion> chosen;
    auto missing = options.ids;
    for (const auto& listing : listings)
        for (const auto& row : listing.users) {
            const bool named = std::erase(missing, row.user.id) > 0;
            if (options.orphans ? row.role != "orphan" : !named) continue;
            if (row.role == "in_use" && !options.force)
                return not_deleted(policy::errc::refused,
                                   row.exposure + ": user " + row.user.id + " is in use by " + row.name +
                                       "; nothing was deleted. To delete it anyway, add --force");
            chosen.push_back({reconcile::address_of(listing.exposure), listing.instance, row});
        }
    if (!missing.empty())
        return not_deleted(policy::errc::not_found,
                           options.exposure + ": no user has the id " + missing.front() +
                               "; nothing was deleted. Run: exposure-agent users " + options.exposure);
    return chosen;
}

io::awaitable<int> delete_users(service::application& app, const globals& common,
                                const users_delete_options& options, service::verb::users_deleted& gone)
{
    const auto exposures = chosen(app.desired(), options.exposure);
    if (!exposures) co_return report_failure(exposures.error());
    if (auto loaded = co_await app.state().load(); !loaded) co_return report_failure(loaded.error());
    if (app.state().stored().cloned)
        co_return report_failure(not_deleted(policy::errc::refused,
                                             "this state directory was copied from another machine; nothing "
                                             "is deleted until you run: exposure-agent takeover"));
    std::vector<listing> listings;
    for (const auto& exposure : *exposures) {
        auto listed = co_await list_users(app, exposure);
        if (!listed) co_return report_failure(listed.error());
        listings.push_back(std::move(*listed));
    }
    const auto selected = select(listings, options);
    if (!selected) co_return report_failure(selected.error());
    if (!options.yes && !selected->empty()) {
        std::vector<listed_user> rows;
        for (const auto& one : *selected)
            rows.push_back(one.user);
        if (!common.json) print(rows);
        if (!confirmed("Delete " + policy::count(rows.size(), "user") + " on the platform?", common.no_input))
            co_return report_failure(not_deleted(policy::errc::usage,
                                                 "not confirmed, nothing was deleted; add --yes to delete "
                                                 "without confirmation"));
    }
    std::vector<policy::result<void>> outcomes;
    for (const auto& one : *selected)
        outcomes.push_back(co_await delete_one(app, one));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
        const auto& row = (*selected)[i].user;
        const auto name = policy::parse_user_name(row.name);
        if (!outcomes[i] || row.role != "retiring" || !name) continue;
        gone.names.insert(*name);
        gone.ids.insert(row.user.id);
    }
    co_return report(common, *selected, outcomes);
}

// instances

struct listed_instance {
    policy::desired_exposure exposure;
    policy::remote_instance instance;
};

// By its id where one exposure is asked for and its instance is known.
io::task<std::vector<policy::remote_instance>> read_instances(service::application& app,
                                                              policy::desired_exposure exposure, bool all)
{
    const auto address = reconcile::address_of(exposure);
    const auto& known = app.state().stored().exposures;
    const auto kept = known.find(exposure.name);
    const bool here = kept != known.end() && kept->second.where.base_url == exposure.base_url &&
                      kept->second.where.tenant == exposure.tenant;
    if (!all && here && !kept->second.where.instance_id.empty()) {
        auto one = co_await app.api().read_instance(address, kept->second.where.instance_id);
        if (one) co_return std::vector{std::move(*one)};
        if (one.error().code != policy::errc::not_found) co_return one.error();
    }
    co_return co_await app.api().list_instances(address);
}

object to_json(const listed_instance& row)
{
    return {{"exposure", row.exposure.name},
            {"id", row.instance.id},
            {"name", row.instance.name},
            {"status", row.instance.status_text},
            {"business_group", to_json(row.instance.group)},
            {"topic", row.exposure.topic}};
}

}  // namespace

int users(const globals& common, const std::string& only)
{
    return with_platform(common, [&](service::application& app) -> io::awaitable<int> {
        const auto exposures = chosen(app.desired(), only);
        if (!exposures) co_return report_failure(exposures.error());
        if (auto loaded = co_await app.state().load(); !loaded) co_return report_failure(loaded.error());
        std::vector<listed_user> rows;
        std::vector<int> codes;
        for (const auto& exposure : *exposures) {
            const auto listed = co_await list_users(app, exposure);
            codes.push_back(listed ? policy::exit_code::done : report_failure(listed.error()));
            if (!listed) continue;
            if (listed->instance.empty())
                std::cerr << exposure.name << ": the tenant has no service instance\n";
            rows.insert(rows.end(), listed->users.begin(), listed->users.end());
        }
        const int code = overall(codes);
        if (common.json) {
            array list;
            for (const auto& row : rows)
                list.push_back(to_json(row));
            print_json({{"schema", "exposure-agent.users/v1"}, {"users", std::move(list)}});
        } else if (code == policy::exit_code::done || !rows.empty()) {
            print(rows);
        }
        co_return code;
    });
}

int users_show(const globals& common, const users_show_options& options)
{
    return with_platform(common, [&](service::application& app) -> io::awaitable<int> {
        co_return co_await show_user(app, common, options);
    });
}

int users_delete(const globals& common, const users_delete_options& options)
{
    if (options.orphans != options.ids.empty())
        return report_failure(
            not_deleted(policy::errc::usage, options.orphans ? "users delete: give ids or --orphans, not both"
                                                             : "users delete: ID is missing. To delete all "
                                                               "orphans, add --orphans"));
    service::verb::users_deleted gone;
    const int code = with_platform(common, [&](service::application& app) -> io::awaitable<int> {
        co_return co_await delete_users(app, common, options, gone);
    });
    if (gone.names.empty()) return code;
    auto quiet = common;
    quiet.json = false;  // the deletions are printed already
    return std::max(code, perform(quiet, std::move(gone)));
}

int instances(const globals& common, const std::string& only)
{
    return with_platform(common, [&](service::application& app) -> io::awaitable<int> {
        const auto exposures = chosen(app.desired(), only);
        if (!exposures) co_return report_failure(exposures.error());
        if (auto loaded = co_await app.state().load(); !loaded) co_return report_failure(loaded.error());
        std::vector<listed_instance> rows;
        std::vector<int> codes;
        for (const auto& exposure : *exposures) {
            const auto found = co_await read_instances(app, exposure, only.empty());
            codes.push_back(found ? policy::exit_code::done : report_failure(found.error()));
            if (!found) continue;
            for (const auto& instance : *found)
                rows.push_back({exposure, instance});
        }
        const int code = overall(codes);
        array list;
        table shown({"EXPOSURE", "NAME", "STATUS", "TOPIC", "BUSINESS GROUP", "ID"});
        for (const auto& row : rows) {
            list.push_back(to_json(row));
            shown.add({{row.exposure.name},
                       {row.instance.name},
                       {row.instance.status_text},
                       {row.exposure.topic},
                       {group_text(row.instance.group)},
                       {row.instance.id}});
        }
        if (common.json)
            print_json({{"schema", "exposure-agent.instances/v1"}, {"instances", std::move(list)}});
        else
            std::cout << (shown.empty() && code == policy::exit_code::done
                              ? "No exposure has a service instance yet.\n"
                              : shown.text());
        co_return code;
    });
}

}  // namespace cli
