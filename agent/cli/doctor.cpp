#include "agent/cli/doctor.hpp"

#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/deploy/broker_probe.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/disk/state_directory.hpp"
#include "agent/io/url.hpp"
#include "agent/reconcile/observe.hpp"
#include "policy/dates.hpp"
#include "policy/facts.hpp"
#include "policy/limits.hpp"
#include "policy/result.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <iostream>
#include <map>

namespace cli {
namespace {

const char* word_of(verdict v)
{
    return v == verdict::ok ? "ok" : v == verdict::warning ? "warning" : "failed";
}

colour paint_of(verdict v)
{
    return v == verdict::ok ? colour::green : v == verdict::warning ? colour::yellow : colour::red;
}

void show_json(const diagnoses& found)
{
    boost::json::array checks;
    for (const auto& d : found)
        checks.push_back(boost::json::object{{"name", d.name},
                                             {"verdict", word_of(d.verdict)},
                                             {"evidence", d.evidence},
                                             {"remedy", d.remedy}});
    print_json({{"schema", "exposure-agent.doctor/v1"}, {"checks", std::move(checks)}});
}

void show_text(const diagnoses& found)
{
    table shown({"CHECK", "VERDICT", "EVIDENCE"});
    for (const auto& d : found)
        shown.add({{d.name}, {word_of(d.verdict), paint_of(d.verdict)}, {d.evidence}});
    std::cout << shown.text();
    bool first = true;
    for (const auto& d : found) {
        if (d.remedy.empty()) continue;
        std::cout << (first ? "\n" : "") << d.name << ": " << d.remedy << "\n";
        first = false;
    }
}

// One URL per host, keyed by origin.
std::map<std::string, std::string> addresses_of(const policy::desired_state& desired)
{
    std::vector<std::string> urls{desired.identity.auth_url, desired.catalog_url};
    for (const auto& exposure : desired.exposures)
        urls.push_back(exposure.base_url);
    std::erase(urls, "");
    std::map<std::string, std::string> hosts;
    for (const auto& url : urls) {
        const auto address = io::parse_http_address(url);
        hosts.emplace(address ? io::origin(*address) : url, url);
    }
    return hosts;
}

// The proxy for an address; empty for a direct connection.
std::string proxy_to(const io::http_address& address, const policy::desired_state& desired)
{
    const auto proxy = io::proxy_for(address, desired.network.proxy, io::read_proxy_environment());
    if (!proxy || !*proxy) return "";
    return io::host_and_port((*proxy)->host, (*proxy)->port);
}

std::string trust_remedy(const policy::failure& failed, const policy::desired_state& desired)
{
    if (failed.context.find("expired") != std::string::npos)
        return "the server's certificate has expired; its operator must renew it";
    if (failed.context.find("name") != std::string::npos)
        return "the certificate is for another host; correct the host name in the configuration";
    return "set network.ca_file to the CA that issued the server's certificate" +
           (desired.network.ca_file ? " (now: " + *desired.network.ca_file + ")" : std::string());
}

std::string connection_remedy(const policy::failure& failed, const io::http_address& address,
                              const policy::desired_state& desired)
{
    using policy::errc;
    const auto proxy = proxy_to(address, desired);
    const auto way = proxy.empty() ? std::string("the firewall, or set network.proxy")
                                   : "the proxy " + proxy + " (network.proxy or HTTPS_PROXY)";
    switch (failed.code) {
        case errc::not_resolved:
            return proxy.empty() ? "check the host name and DNS. Run: getent hosts " + address.host
                                 : "check network.proxy and DNS";
        case errc::untrusted:
            return trust_remedy(failed, desired);
        case errc::not_connected:
            if (failed.context.find("refused") != std::string::npos)
                return "nothing listens at " +
                       (proxy.empty() ? io::host_and_port(address.host, address.port) : proxy) +
                       ": check host and port";
            return "check " + way;
        case errc::no_answer:
            return "the server closed the connection: check that the address and port speak https";
        default:
            return "check the address and " + way;
    }
}

// Any complete response will do: this checks DNS, proxy, TLS and the certificate. No token is sent.
io::awaitable<void> check_address(service::application& app, std::string url, diagnoses& into)
{
    const auto address = io::parse_http_address(url);
    if (!address) {
        into.push_back(
            {url, verdict::failed, address.error().context, "correct the address in the configuration"});
        co_return;
    }
    const auto name = io::origin(*address);
    io::http_request request{.method = "GET", .url = url, .idempotent = true};
    request.headers["Accept"] = "application/json";
    const auto answer = co_await app.http().exchange(std::move(request));
    const auto proxy = proxy_to(*address, app.desired());
    if (answer)
        into.push_back({name, verdict::ok,
                        "answers " + (proxy.empty() ? "directly" : "through the proxy " + proxy) +
                            "; its certificate is trusted",
                        ""});
    else
        into.push_back({name, verdict::failed, answer.error().context,
                        connection_remedy(answer.error(), *address, app.desired())});
}

std::string login_remedy(service::application& app, policy::errc code)
{
    const auto& desired = app.desired();
    if (app.state().stored().cloned) return "if the other machine is gone, run: exposure-agent takeover";
    if (desired.identity.access_token)
        return "check identity.access_token: its source returns no valid token";
    if (code == policy::errc::client_refused)
        return "check identity.client_id and identity.client_secret with the operator of the login server; "
               "the OAuth client must allow authorization_code, refresh_token and redirect_url";
    return "run: exposure-agent login";
}

io::awaitable<bool> check_login(service::application& app, diagnoses& into)
{
    const auto status = co_await app.login_status();
    if (!status) {
        into.push_back({"login", verdict::failed, status.error().context, ""});
        co_return false;
    }
    if (policy::is_decommissioned(app.state().stored())) {
        into.push_back({"login", verdict::ok, "not needed: this host is decommissioned", ""});
        co_return false;
    }
    const auto expires = status->access_token_expires_at;
    const std::string until = expires ? "the access token expires at " + policy::format_utc(*expires)
                                      : "the expiry of the access token is unknown";
    if (status->state == platform::login_state::required) {
        into.push_back({"login", verdict::failed,
                        status->sentence.empty() ? "not logged in" : status->sentence,
                        login_remedy(app, policy::errc::login_required)});
        co_return false;
    }
    if (!status->sentence.empty())
        into.push_back({"login", verdict::warning, status->sentence + "; " + until, ""});
    else
        into.push_back(
            {"login", verdict::ok, std::string(policy::word_of(status->state)) + "; " + until, ""});
    co_return true;
}

// The stored tokens asked valid but the platform refused them: its word counts.
void correct_login(service::application& app, const policy::failure& failed, diagnoses& into)
{
    if (policy::exit_code::of(failed.code) != policy::exit_code::login) return;
    const auto login = std::ranges::find(into, "login", &diagnosis::name);
    if (login == into.end() || login->verdict == verdict::failed) return;
    *login = {"login", verdict::failed, failed.context, login_remedy(app, failed.code)};
}

std::string exposure_remedy(service::application& app, const policy::desired_exposure& exposure,
                            const policy::failure& failed)
{
    using policy::errc;
    switch (failed.code) {
        case errc::forbidden:
            return "give the service user the role that administers the exposure service, check tenant (" +
                   exposure.tenant + "), then log in again: a new role takes effect at the next login";
        case errc::not_found:
            return "check base_url (" + exposure.base_url + ") and tenant; the API is described at " +
                   exposure.base_url + "/swagger/index.html";
        case errc::unavailable:
        case errc::throttled:
            return "nothing to change here: the platform, or a proxy in front of it, is failing; the agent "
                   "retries";
        case errc::bad_answer:
            return "check base_url (" + exposure.base_url + "): the response does not come from the API";
        case errc::refused:
            return "check tenant (" + exposure.tenant + ")";
        default:
            break;
    }
    if (policy::exit_code::of(failed.code) == policy::exit_code::login) return login_remedy(app, failed.code);
    const auto address = io::parse_http_address(exposure.base_url);
    return address ? connection_remedy(failed, *address, app.desired()) : "check base_url";
}

// createdBy of our own users names the service user that the login should belong to.
io::awaitable<void> check_creator(service::application& app, policy::desired_exposure exposure,
                                  std::string instance, diagnoses& into)
{
    const auto status = co_await app.login_status();
    if (!status || status->subject.empty()) co_return;
    for (const auto& [name, user] : app.state().stored().users) {
        const auto* current = user.find(user.current);
        if (name.exposure != exposure.name || !current || current->remote_id.empty()) continue;
        const auto address = reconcile::address_of(exposure);
        const auto detail = co_await app.api().read_user(address, instance, current->remote_id);
        if (detail && !detail->user.created_by.empty() && detail->user.created_by != status->subject)
            into.push_back(
                {name.text() + ": login", verdict::warning,
                 "was created by " + detail->user.created_by + ", but the login is " + status->subject,
                 "log in as the service user that created it, unless the change is intentional"});
        co_return;
    }
}

io::awaitable<void> check_exposure(service::application& app, policy::desired_exposure exposure,
                                   diagnoses& into)
{
    const auto name = "exposure " + exposure.name;
    const auto instances = co_await app.api().list_instances(reconcile::address_of(exposure));
    if (!instances) {
        correct_login(app, instances.error(), into);
        into.push_back({name, verdict::failed, instances.error().context,
                        exposure_remedy(app, exposure, instances.error())});
        co_return;
    }
    if (instances->empty()) {
        into.push_back({name, exposure.create_instance ? verdict::ok : verdict::failed,
                        "the tenant has no service instance yet",
                        exposure.create_instance
                            ? ""
                            : "set create_instance: true, or onboard the tenant in the portal"});
        co_return;
    }
    const auto& instance = instances->front();
    into.push_back({name, verdict::ok, "instance " + instance.id + " is " + instance.status_text, ""});
    co_await check_creator(app, exposure, instance.id, into);
}

void check_clock(service::application& app, const policy::desired_exposure& exposure, diagnoses& into)
{
    const auto ahead = app.api().clock_ahead(reconcile::address_of(exposure));
    if (!ahead) return;
    const auto skew = std::chrono::abs(*ahead);
    const auto evidence = policy::format_duration(skew) +
                          (*ahead < policy::duration(0) ? " behind" : " ahead of") + " the platform of " +
                          exposure.name;
    if (skew > policy::limits::clock_skew)
        into.push_back({"clock", verdict::failed, evidence,
                        "set the time (chrony, systemd-timesyncd); the agent changes nothing until then"});
    else
        into.push_back({"clock", verdict::ok, evidence, ""});
}

// Uses the key and certificate in use, if there are any.
io::awaitable<void> check_broker(service::application& app, policy::desired_exposure exposure,
                                 diagnoses& into)
{
    deploy::broker_probe probe(app.process());
    for (const auto& want : exposure.users) {
        const policy::user_name name{exposure.name, want.name};
        const auto user = app.state().stored().users.find(name);
        if (user == app.state().stored().users.end() || user->second.current.empty()) continue;
        auto key = app.store().read_key(name, user->second.current);
        auto certificate = app.store().read_certificate(name, user->second.current);
        if (!key || !certificate) {
            into.push_back({name.text() + ": broker", verdict::failed,
                            key ? certificate.error().context : key.error().context, ""});
            continue;
        }
        deploy::verify_request request{.exposure = exposure.name,
                                       .user = want.name,
                                       .broker = exposure.broker,
                                       .broker_ca_file = exposure.broker_ca_file,
                                       .topic = exposure.topic,
                                       .consumer_group = want.consumer_group,
                                       .key_pem = std::move(*key),
                                       .certificate_pem = std::move(*certificate)};
        const auto answer = co_await probe.ask(std::move(request));
        if (answer && answer->verdict == deploy::verify_verdict::accepted)
            into.push_back({name.text() + ": broker", verdict::ok, answer->evidence, ""});
        else
            into.push_back({name.text() + ": broker", verdict::failed,
                            answer ? answer->evidence : answer.error().context,
                            "check broker, broker_ca_file and topic (" + exposure.topic +
                                "); if the broker refuses the certificate, run: exposure-agent rotate " +
                                name.text()});
    }
}

// Damage to the private store, by a power cut or by hand.
void check_store(const policy::stored_state& stored, diagnoses& into)
{
    if (stored.cloned)
        into.push_back({"machine", verdict::failed, "the state directory was copied from another machine",
                        "if that machine is gone, run: exposure-agent takeover"});
    if (stored.owner == "localhost")
        into.push_back({"owner", verdict::warning, "the owner is localhost because this host has no name",
                        "give the host a name, or set owner in the configuration"});
    for (const auto& name : stored.damaged)
        into.push_back({name.text() + ": private store", verdict::failed,
                        "its record in the state database is damaged; it is treated as a new user",
                        "the next pass issues a new certificate. To do it now, run: exposure-agent "
                        "reconcile"});
    for (const auto& [name, user] : stored.users) {
        if (!user.unreadable.empty())
            into.push_back({name.text() + ": private store", verdict::failed, user.unreadable, ""});
        const auto* current = user.find(user.current);
        if (current && !current->key_on_disk)
            into.push_back({name.text() + ": private store", verdict::failed, policy::lost_pair(*current),
                            "the next pass issues a new certificate. To do it now, run: "
                            "exposure-agent reconcile"});
    }
}

}  // namespace

io::awaitable<void> check_platform(service::application& app, diagnoses& into)
{
    if (auto loaded = co_await app.state().load(); !loaded)
        into.push_back({"private store", verdict::failed, loaded.error().context, ""});
    else
        check_store(app.state().stored(), into);
    for (const auto& [origin, url] : addresses_of(app.desired()))
        co_await check_address(app, url, into);
    const bool logged_in = co_await check_login(app, into);
    for (const auto& exposure : app.desired().exposures) {
        if (logged_in) co_await check_exposure(app, exposure, into);
        if (!exposure.broker.empty()) co_await check_broker(app, exposure, into);
    }
    for (const auto& exposure : app.desired().exposures)
        check_clock(app, exposure, into);
}

int doctor(const globals& common)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    diagnoses found;
    const bool daemon = daemon_runs(*desired);
    service::application host(desired);
    host.run([](service::application& a, bool runs, diagnoses& into) -> io::awaitable<void> {
        co_await check_host(a, runs, into);
    }(host, daemon, found));
    const int asked = with_platform(desired, [&](service::application& app) -> io::awaitable<int> {
        co_await check_platform(app, found);
        co_return policy::exit_code::done;
    });
    if (asked == policy::exit_code::busy)
        found.push_back({"state directory", verdict::failed, "another exposure-agent uses it",
                         "wait until it finishes, or stop it"});
    else if (asked != policy::exit_code::done) {
        const bool hangs = disk::state_lock::is_daemons(disk::paths(desired->state_dir));
        found.push_back(
            {"platform", verdict::failed,
             hangs ? "not checked: the running daemon does not answer"
                   : "not checked: the state directory cannot be used",
             hangs ? "run: systemctl restart exposure-agent" : "see the error on standard error"});
    }
    for (auto& d : found)  // drop the name from the start of the message: it is shown already
        if (d.evidence.starts_with(d.name + ": ")) d.evidence.erase(0, d.name.size() + 2);
    if (common.json)
        show_json(found);
    else
        show_text(found);
    const bool bad = std::ranges::any_of(found, [](const auto& d) { return d.verdict == verdict::failed; });
    return bad ? policy::exit_code::failed : policy::exit_code::done;
}

}  // namespace cli
