#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/disk/files.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/platform/catalog_client.hpp"
#include "config/values.hpp"
#include "policy/limits.hpp"
#include "policy/result.hpp"

#include <boost/json.hpp>

#include <iostream>
#include <iterator>

namespace cli {
namespace {

constexpr auto first_look = std::chrono::seconds(2);
constexpr auto rarest_look = std::chrono::seconds(60);
constexpr policy::duration default_patience = std::chrono::hours(2);  // default limit of --wait

// Runs `work` with a catalog client, if the configuration names the service.
int with_catalog(const globals& common,
                 std::function<io::awaitable<int>(service::application&, platform::catalog_client&)> work)
{
    return with_platform(common, [&](service::application& app) -> io::awaitable<int> {
        if (app.desired().catalog_url.empty())
            co_return report_failure(
                {.code = policy::errc::config, .context = "catalog.base_url is not set in " + common.config});
        platform::catalog_client catalog(app.channel(), app.desired().catalog_url);
        co_return co_await work(app, catalog);
    });
}

policy::result<std::string> read_data(const std::string& file)
{
    std::string data;
    if (file == "-") {
        data.assign(std::istreambuf_iterator<char>(std::cin), {});
    } else {
        auto text = disk::read_file(file, policy::limits::response_bytes);
        if (!text) return text.error();
        if (!*text) return policy::failure{.code = policy::errc::usage, .context = file + " does not exist"};
        data = std::move(**text);
    }
    // report a mistake in the file before contacting the service
    if (const auto form = platform::form_of(data); !form)
        return policy::with_context(file == "-" ? "standard input" : file, form.error());
    return data;
}

policy::result<policy::duration> patience_of(const std::string& text)
{
    if (text.empty()) return default_patience;
    const auto given = config::read_duration(text);
    if (!given)
        return policy::failure{.code = policy::errc::usage,
                               .context = "--timeout: not a valid duration; write 30m or 2h"};
    return *given;
}

int show_state(const globals& common, const platform::request_state& state, const std::string& id)
{
    if (common.json)
        std::cout << boost::json::serialize(boost::json::object{
                         {"schema", "exposure-agent.request/v1"},
                         {"id", state.id.empty() ? id : state.id},
                         {"state", state.text},
                         {"finished", state.finished},
                         {"succeeded", state.succeeded},
                         {"details", state.details.empty() ? boost::json::value(nullptr)
                                                           : boost::json::value(state.details)}})
                  << "\n";
    else
        std::cout << id << ": " << state.text << (state.details.empty() ? "" : " (" + state.details + ")")
                  << "\n";
    return state.finished && !state.succeeded ? policy::exit_code::failed : policy::exit_code::done;
}

// Waiting does not help if the platform does not know the request.
bool may_pass(const policy::failure& failed)
{
    return failed.kind == policy::retry::later && failed.code != policy::errc::not_found;
}

// Polls the request until it ends: infrequently, because provisioning takes minutes.
io::awaitable<int> follow(service::application& app, platform::catalog_client& catalog, const globals& common,
                          std::string id, policy::duration patience)
{
    const auto deadline = app.clock().steady() + patience;
    std::chrono::milliseconds pause = first_look;
    for (;;) {
        const auto state = co_await catalog.show(id);
        if (state && state->finished) co_return show_state(common, *state, id);
        if (!state && !may_pass(state.error())) co_return report_failure(state.error());
        if (is_terminal(stderr))
            std::cerr << "\r\033[K" << id << ": " << (state ? state->text : state.error().context) << " "
                      << std::flush;
        if (app.clock().steady() + pause > deadline) {
            std::cerr << "\nexposure-agent: request " << id
                      << " did not finish in time. Follow it with: exposure-agent catalog show " << id
                      << " --wait\n";
            co_return policy::exit_code::failed;
        }
        if (auto slept = co_await app.clock().sleep_for(pause); !slept) co_return policy::exit_code::failed;
        pause = std::min<std::chrono::milliseconds>(pause * 3 / 2, rarest_look);
    }
}

io::awaitable<int> submit(service::application& app, platform::catalog_client& catalog, const globals& common,
                          const catalog_options& options, std::string data, policy::duration patience)
{
    const auto copied = app.store().is_copied();
    if (!copied) co_return report_failure(copied.error());
    if (*copied)
        co_return report_failure(
            {.code = policy::errc::refused,
             .context =
                 "the state directory was copied from another machine, so nothing is sent. If that machine "
                 "is gone, run: exposure-agent takeover"});
    if (!options.set.empty()) {
        if (data.empty()) {
            auto form = co_await catalog.request_template(options.item, options.business_group);
            if (!form) co_return report_failure(form.error());
            data = std::move(*form);
        }
        auto laid = platform::overlay(data, options.set);
        if (!laid) co_return report_failure(laid.error());
        data = std::move(*laid);
    }
    const auto made = co_await catalog.submit(options.item, options.business_group, data);
    if (!made) {
        const int code = report_failure(made.error());
        co_return made.error().code == policy::errc::no_answer ? policy::exit_code::failed : code;
    }
    if (made->id.empty())
        std::cerr << "exposure-agent: the catalog service accepted the request without returning its id; "
                     "look for it "
                     "in the portal\n";
    if (made->id.empty() && options.wait) co_return policy::exit_code::failed;
    if (options.wait) co_return co_await follow(app, catalog, common, made->id, patience);
    if (common.json) {
        const auto or_null = [](const std::string& text, auto value) {
            return text.empty() ? boost::json::value(nullptr) : boost::json::value(value(text));
        };
        std::cout << boost::json::serialize(boost::json::object{
                         {"schema", "exposure-agent.request/v1"},
                         {"id",
                          or_null(made->id, [](const auto& text) { return boost::json::string(text); })},
                         {"answer",
                          or_null(made->answer, [](const auto& text) { return boost::json::parse(text); })}})
                  << "\n";
    } else if (!made->id.empty()) {
        std::cout << made->id << "\n";
    }
    co_return policy::exit_code::done;
}

}  // namespace

int catalog_template(const globals& common, const catalog_options& options)
{
    return with_catalog(
        common, [&](service::application&, platform::catalog_client& catalog) -> io::awaitable<int> {
            const auto form = co_await catalog.request_template(options.item, options.business_group);
            if (!form) co_return report_failure(form.error());
            std::cout << *form << "\n";
            co_return policy::exit_code::done;
        });
}

int catalog_request(const globals& common, const catalog_options& options)
{
    if (options.data.empty() && options.set.empty())
        return report_failure(
            {.code = policy::errc::usage,
             .context = "catalog request: give --data FILE, or --set KEY=VALUE over the item's template"});
    const auto patience = patience_of(options.timeout);
    if (!patience) return report_failure(patience.error());
    policy::result<std::string> data = std::string();
    if (!options.data.empty()) data = read_data(options.data);
    if (!data) return report_failure(data.error());
    return with_catalog(
        common, [&](service::application& app, platform::catalog_client& catalog) -> io::awaitable<int> {
            co_return co_await submit(app, catalog, common, options, *data, *patience);
        });
}

int catalog_show(const globals& common, const catalog_options& options)
{
    const auto patience = patience_of(options.timeout);
    if (!patience) return report_failure(patience.error());
    return with_catalog(
        common, [&](service::application& app, platform::catalog_client& catalog) -> io::awaitable<int> {
            if (options.wait) co_return co_await follow(app, catalog, common, options.request_id, *patience);
            const auto state = co_await catalog.show(options.request_id);
            if (!state) co_return report_failure(state.error());
            co_return show_state(common, *state, options.request_id);
        });
}

int action_form(const globals& common, const action_options& options)
{
    return with_catalog(common,
                        [&](service::application&, platform::catalog_client& catalog) -> io::awaitable<int> {
                            const auto form = co_await catalog.action_form(options.resource, options.action);
                            if (!form) co_return report_failure(form.error());
                            std::cout << *form << "\n";
                            co_return policy::exit_code::done;
                        });
}

// The only verb that prints secrets, because that is its purpose.
int action_values(const globals& common, const action_options& options)
{
    return with_catalog(
        common, [&](service::application&, platform::catalog_client& catalog) -> io::awaitable<int> {
            const auto found =
                co_await catalog.action_values(options.resource, options.action, options.elements);
            if (!found) co_return report_failure(found.error());
            boost::json::object values;
            boost::json::object types;
            boost::json::array missing;
            for (const auto& element : options.elements) {
                const auto value = found->values.find(element);
                if (value != found->values.end()) {
                    values[element] = value->second.view();
                    types[element] = found->types.at(element);
                    if (!common.json) std::cout << element << "=" << value->second.view() << "\n";
                } else {
                    missing.emplace_back(element);
                }
            }
            for (const auto& [element, why] : found->missing)
                std::cerr << "exposure-agent: " << why << "\n";
            if (common.json)
                std::cout << boost::json::serialize(
                                 boost::json::object{{"schema", "exposure-agent.values/v1"},
                                                     {"values", values},
                                                     {"types", types},
                                                     {"missing", missing}})
                          << "\n";
            co_return missing.empty() ? policy::exit_code::done : policy::exit_code::failed;
        });
}

}  // namespace cli
