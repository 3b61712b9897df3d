#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/io/async.hpp"
#include "agent/reconcile/look.hpp"
#include "policy/about.hpp"
#include "policy/dates.hpp"
#include "policy/exit_code.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <iostream>

// The platform's own lists: users, users delete, instances.

namespace cli {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

struct listed_user {
    std::string exposure;
    policy::remote_user user;
    std::string managed;  // this, other, none
    std::optional<std::string> owner;
    std::optional<policy::user_name> ours;
};

value text_or_null(const std::optional<std::string>& text)
{
    return text ? value(*text) : value(nullptr);
}

// Ours by its marker; by its id when somebody has changed the text.
listed_user classify(const policy::stored_state& stored, const std::string& exposure,
                     policy::remote_user user)
{
    listed_user row{.exposure = exposure, .managed = "none"};
    if (user.mark) {
        row.owner = user.mark->owner;
        row.managed = user.mark->owner == stored.owner ? "this" : "other";
        row.ours = user.mark->name;
    }
    for (const auto& [name, have] : stored.users)
        for (const auto& g : have.generations)
            if (!user.mark && g.remote_id == user.id) {
                row.managed = "this";
                row.owner = stored.owner;
                row.ours = name;
            }
    row.user = std::move(user);
    return row;
}

object to_json(const listed_user& row)
{
    return {
        {"exposure", row.exposure},
        {"remote_id", row.user.id},
        {"name", row.user.name},
        {"status", row.user.status_text},
        {"managed", row.managed},
        {"owner", text_or_null(row.owner)},
        {"user", row.ours ? value(row.ours->text()) : value(nullptr)},
        {"consumer_group", row.user.consumer_group},
        {"contact", row.user.contact},
        {"expiration_date",
         row.user.expiration_date ? value(policy::format_utc(*row.user.expiration_date)) : value(nullptr)},
        {"description", row.user.description}};
}

// The users of one exposure's instance; failures are printed and counted by the worst exit code.
io::awaitable<int> list_users(service::application& app, policy::desired_exposure exposure,
                              std::vector<listed_user>& into)
{
    const auto seen = co_await reconcile::look(app.api(), exposure, {}, app.clock().now());
    if (seen.error) co_return report_failure(*seen.error);
    if (seen.instances.empty())
        std::cerr << "exposure " << exposure.name << ": the tenant has no service instance\n";
    for (const auto& user : seen.users)
        into.push_back(classify(app.world().stored(), exposure.name, user));
    co_return policy::exit_code::done;
}

// The worst of several exposures' codes; 69 is for a platform of which nothing could be reached.
int overall(const std::vector<int>& codes)
{
    namespace code = policy::exit_code;
    const int worst = codes.empty() ? code::done : std::ranges::max(codes);
    return worst == code::unreachable && std::ranges::count(codes, code::done) > 0 ? code::failed : worst;
}

void print(const std::vector<listed_user>& rows)
{
    table users({"EXPOSURE", "ID", "NAME", "STATUS", "MANAGED", "USER", "GROUP", "EXPIRES"});
    for (const auto& row : rows)
        users.add({{row.exposure},
                   {row.user.id},
                   {row.user.name},
                   {row.user.status_text},
                   {row.managed == "other" ? "other (" + row.owner.value_or("") + ")" : row.managed,
                    row.managed == "this" ? colour::green : colour::none},
                   {row.ours ? row.ours->text() : "-"},
                   {row.user.consumer_group},
                   {row.user.expiration_date ? policy::format_utc(*row.user.expiration_date) : "-"}});
    std::cout << (users.empty() ? "The platform has no users.\n" : users.text());
}

io::awaitable<int> delete_one(service::application& app, platform::exposure_address address,
                              std::string instance, std::string id)
{
    if (auto deleted = co_await app.api().delete_user(address, instance, id); !deleted)
        co_return report_failure(deleted.error());
    const auto left = co_await app.api().read_user(address, instance, id);
    if (left || left.error().code != policy::errc::not_found) {
        std::cerr << "exposure-agent: exposure " << address.name << ": user " << id
                  << " is still there after its deletion\n";
        co_return policy::exit_code::failed;
    }
    std::cout << "deleted " << id << "\n";
    co_return policy::exit_code::done;
}

io::awaitable<int> delete_users(service::application& app, const globals& common,
                                const users_delete_options& options)
{
    const auto found = find_exposure(options.exposure, app.desired());
    if (!found) co_return report_failure(found.error());
    const auto exposure = *found;
    if (auto loaded = co_await app.world().load(); !loaded) co_return report_failure(loaded.error());
    if (app.world().stored().cloned)
        co_return report_failure({.code = policy::errc::refused,
                                  .context = "this state directory was copied from another machine; nothing "
                                             "is deleted until you run: exposure-agent takeover"});
    const auto seen = co_await reconcile::look(app.api(), exposure, {}, app.clock().now());
    if (seen.error) co_return report_failure(*seen.error);

    std::vector<listed_user> rows;
    for (const auto& id : options.ids) {
        const auto user = std::ranges::find(seen.users, id, &policy::remote_user::id);
        if (user == seen.users.end())
            co_return report_failure({.code = policy::errc::not_found,
                                      .context = options.exposure + ": no user has the id " + id +
                                                 "; nothing was deleted. Run: exposure-agent users " +
                                                 options.exposure});
        rows.push_back(classify(app.world().stored(), exposure.name, *user));
    }
    if (!options.yes) {
        print(rows);
        if (!confirmed("Delete " + policy::count(rows.size(), "user") + " on the platform?", common.no_input))
            co_return report_failure(
                {.code = policy::errc::usage,
                 .context = "not confirmed, nothing was deleted; add --yes to delete without a question"});
    }
    int worst = policy::exit_code::done;
    for (const auto& row : rows)
        worst = std::max(worst, co_await delete_one(app, reconcile::address_of(exposure),
                                                    seen.instances.front().id, row.user.id));
    co_return worst;
}

}  // namespace

int users(const globals& common, const std::string& only)
{
    return look(common, [&](service::application& app) -> io::awaitable<int> {
        if (!only.empty())
            if (auto known = find_exposure(only, app.desired()); !known)
                co_return report_failure(known.error());
        if (auto loaded = co_await app.world().load(); !loaded) co_return report_failure(loaded.error());
        std::vector<listed_user> rows;
        std::vector<int> codes;
        for (const auto& exposure : app.desired().exposures)
            if (only.empty() || only == exposure.name)
                codes.push_back(co_await list_users(app, exposure, rows));
        const int code = overall(codes);
        if (common.json) {
            array list;
            for (const auto& row : rows)
                list.push_back(to_json(row));
            std::cout << boost::json::serialize(
                             object{{"schema", "exposure-agent.users/v1"}, {"users", std::move(list)}})
                      << "\n";
        } else if (code == policy::exit_code::done || !rows.empty()) {
            print(rows);
        }
        co_return code;
    });
}

int users_delete(const globals& common, const users_delete_options& options)
{
    return look(common, [&](service::application& app) -> io::awaitable<int> {
        co_return co_await delete_users(app, common, options);
    });
}

int instances(const globals& common)
{
    return look(common, [&](service::application& app) -> io::awaitable<int> {
        array list;
        table shown({"EXPOSURE", "ID", "NAME", "STATUS"});
        std::vector<int> codes;
        for (const auto& exposure : app.desired().exposures) {
            auto found = co_await app.api().list_instances(reconcile::address_of(exposure));
            codes.push_back(found ? policy::exit_code::done : report_failure(found.error()));
            if (!found) continue;
            for (const auto& instance : *found) {
                list.push_back(object{{"exposure", exposure.name},
                                      {"id", instance.id},
                                      {"name", instance.name},
                                      {"status", instance.status_text}});
                shown.add({{exposure.name}, {instance.id}, {instance.name}, {instance.status_text}});
            }
        }
        const int code = overall(codes);
        if (common.json)
            std::cout << boost::json::serialize(object{{"schema", "exposure-agent.instances/v1"},
                                                       {"instances", std::move(list)}})
                      << "\n";
        else
            std::cout << (shown.empty() && code == policy::exit_code::done
                              ? "No exposure has an instance yet.\n"
                              : shown.text());
        co_return code;
    });
}

}  // namespace cli
