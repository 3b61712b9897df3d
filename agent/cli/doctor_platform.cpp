#include "agent/cli/doctor_checks.hpp"
#include "agent/deploy/broker_probe.hpp"
#include "agent/disk/file_store.hpp"
#include "agent/io/http_address.hpp"
#include "agent/io/proxy.hpp"
#include "agent/reconcile/look.hpp"
#include "policy/dates.hpp"
#include "policy/limits.hpp"

#include <map>

namespace cli {
namespace {

// One address of every host: origin and address.
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

std::string way_to(const io::http_address& address, const policy::desired_state& desired)
{
    const auto proxy = io::proxy_for(address, desired.network.proxy, io::read_proxy_environment());
    if (!proxy || !*proxy) return "directly";
    return "through the proxy " + io::host_and_port((*proxy)->host, (*proxy)->port);
}

// Any complete answer will do: DNS, proxy, TLS and the certificate are what is asked about. No token is sent.
io::awaitable<void> check_address(service::application& app, std::string url, std::vector<finding>& into)
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
    if (answer)
        into.push_back({name, verdict::ok,
                        "answers " + way_to(*address, app.desired()) + ", its certificate is trusted", ""});
    else
        into.push_back({name, verdict::failed, answer.error().context,
                        "reached " + way_to(*address, app.desired()) +
                            ": check DNS, network.proxy, network.ca_file and the firewall"});
}

io::awaitable<bool> check_login(service::application& app, std::vector<finding>& into)
{
    const auto status = co_await app.login_status();
    if (!status) {
        into.push_back({"login", verdict::failed, status.error().context, "see the file named"});
        co_return false;
    }
    const auto expires = status->access_token_expires_at;
    const std::string until = expires ? "the access token expires at " + policy::format_utc(*expires)
                                      : "the access token's expiry is unknown";
    if (status->state == platform::login_state::required) {
        into.push_back({"login", verdict::failed,
                        status->sentence.empty() ? "not logged in" : status->sentence,
                        "run: exposure-agent login"});
        co_return false;
    }
    if (!status->sentence.empty())
        into.push_back({"login", verdict::warning, status->sentence, until});
    else
        into.push_back(
            {"login", verdict::ok, std::string(platform::name_of(status->state)) + ", " + until, ""});
    co_return true;
}

io::awaitable<void> check_exposure(service::application& app, policy::desired_exposure exposure,
                                   std::vector<finding>& into)
{
    const auto name = "exposure " + exposure.name;
    const auto instances = co_await app.api().list_instances(reconcile::address_of(exposure));
    if (!instances)
        into.push_back({name, verdict::failed, instances.error().context,
                        "check base_url, tenant and the role of the API user"});
    else if (instances->empty())
        into.push_back(
            {name, exposure.create_instance ? verdict::ok : verdict::failed, "the tenant has no instance yet",
             exposure.create_instance ? ""
                                      : "set create_instance: true, or onboard the tenant in the portal"});
    else
        into.push_back({name, verdict::ok,
                        "instance " + instances->front().id + " is " + instances->front().status_text, ""});
}

void check_clock(service::application& app, std::vector<finding>& into)
{
    const auto ahead = app.api().clock_ahead();
    if (!ahead) return;
    const auto skew = std::chrono::abs(*ahead);
    const auto evidence = policy::format_duration(skew) +
                          (*ahead < policy::duration(0) ? " behind" : " ahead of") + " the platform";
    if (skew > policy::limits::clock_skew)
        into.push_back({"clock", verdict::failed, evidence,
                        "set the time (chrony, systemd-timesyncd): nothing is changed while it is wrong"});
    else
        into.push_back({"clock", verdict::ok, evidence, ""});
}

// With the pair in use, when there is one.
io::awaitable<void> check_broker(service::application& app, policy::desired_exposure exposure,
                                 std::vector<finding>& into)
{
    deploy::broker_probe probe(app.process());
    for (const auto& want : exposure.users) {
        const policy::user_name name{exposure.name, want.name};
        const auto user = app.world().stored().users.find(name);
        if (user == app.world().stored().users.end() || user->second.current.empty()) continue;
        const auto directory = app.store().generation_directory(name, user->second.current);
        const deploy::proof_request request{.exposure = exposure.name,
                                            .user = want.name,
                                            .broker = exposure.broker,
                                            .broker_ca_file = exposure.broker_ca_file,
                                            .topic = exposure.topic,
                                            .consumer_group = want.consumer_group,
                                            .key_file = directory / "key.pem",
                                            .certificate_file = directory / "certificate.pem"};
        const auto answer = co_await probe.ask(request);
        if (answer && answer->verdict == deploy::proof_verdict::accepted)
            into.push_back({name.text() + ": broker", verdict::ok, answer->evidence, ""});
        else
            into.push_back({name.text() + ": broker", verdict::failed,
                            answer ? answer->evidence : answer.error().context,
                            "check broker, broker_ca_file and topic; if the broker refuses the certificate, "
                            "run: exposure-agent rotate " +
                                name.text()});
    }
}

}  // namespace

io::awaitable<void> check_platform(service::application& app, std::vector<finding>& into)
{
    if (auto loaded = co_await app.world().load(); !loaded)
        into.push_back({"private store", verdict::failed, loaded.error().context, ""});
    if (app.world().stored().cloned)
        into.push_back({"machine", verdict::failed, "the state directory was copied from another machine",
                        "if that machine is gone, run: exposure-agent takeover"});
    for (const auto& [origin, url] : addresses_of(app.desired()))
        co_await check_address(app, url, into);
    const bool logged_in = co_await check_login(app, into);
    for (const auto& exposure : app.desired().exposures) {
        if (logged_in) co_await check_exposure(app, exposure, into);
        if (!exposure.broker.empty()) co_await check_broker(app, exposure, into);
    }
    check_clock(app, into);
}

}  // namespace cli
