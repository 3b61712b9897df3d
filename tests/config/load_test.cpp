#include "config/parse.hpp"
#include "sample.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace sample;
using namespace std::chrono_literals;

namespace {

const char* const every_key = R"(
version: 1
owner: ${hostname}-${env:TEAM}
state_dir: /srv/agent/
identity:
  auth_url: https://login.example.com/SAAS/t/orion-123/
  client_id: exposure-automation
  client_secret: {credential: client-secret}
  redirect_url: http://localhost:8080/
  refresh_every: 12h
  scope: openid offline_access
  publish: {command: [etcdctl, put, exposure/token]}
network:
  ca_file: /etc/ssl//ca.pem
  crl_file: /etc/ssl/crl.pem
  timeout: 10s
  connections: 4
  proxy: http://proxy.example.com:3128/
  proxy_auth: {username: agent, password: {env: PROXY_PASSWORD}}
reconcile:
  interval: 1h30m
  prune: false
  max_deletes: 0
  max_creates_per_user: 5
  settle: 1m
notify: {command: [/usr/local/bin/page-me, --all], expiry_warning: 7d, repeat: 12h}
metrics: {listen: "unix:/run/metrics.sock", textfile: /var/lib/node/agent.prom}
catalog: {base_url: https://catalog.example.com/}
exposures:
  - name: health
    variant: health
    base_url: https://hes.example.com/x/
    tenant: orion-123
    business_group: {id: G1, name: group}
    create_instance: false
    csr_encoding: der
    group_fields: business_group
    broker: broker.example.com:9093
    broker_ca_file: /etc/broker.pem
    topic: my.topic
    users:
      - name: siem
        consumer_group: siem group
        contact: soc@example.com
        description: "SIEM ${env:TEAM}, costs $${x} and $5"
        key: ecdsa-p384
        rotation: {renew_before: 90d, retire_after: 0s, strategy: replace, paused: true}
        output:
          directory: /etc/siem//tls/
          formats: [bundle, pkcs12, java, librdkafka, pem]
          owner: root
          group: siem
          mode: 0640
          password: {file: /etc/siem/p12}
        hooks:
          - restart: vector
            timeout: 90s
          - reload: nginx.service
          - command: [/usr/local/bin/after, "", "two words", "$${HOME}"]
        verify: false
credentials:
  - name: bucket
    resource: R1
    action: A1
    elements: {access_key: provider-accessKeyID, secret_key: provider-secretAccessKey}
    interval: 6h
    output: {file: /etc/backup/s3.json, format: json, owner: backup, group: backup, mode: 440}
    hooks: [{restart: backup.service}]
)";

policy::desired_state every_value()
{
    using origin = policy::secret_source::origin;
    using kind = policy::hook::kind;

    policy::desired_user siem;
    siem.name = "siem";
    siem.consumer_group = "siem group";
    siem.contact = "soc@example.com";
    siem.description = "SIEM blue, costs ${x} and $5";
    siem.key = policy::key_type::ecdsa_p384;
    siem.rotation = {policy::duration(90 * 24h), 0s, policy::strategy::replace, true};
    siem.output = {"/etc/siem/tls",
                   {policy::file_format::pem, policy::file_format::bundle, policy::file_format::pkcs12,
                    policy::file_format::java, policy::file_format::librdkafka},
                   {"root", "siem", 0640},
                   "/etc/siem/p12"};
    siem.hooks = {{kind::restart, {}, "vector.service", 90s},
                  {kind::reload, {}, "nginx.service", 60s},
                  {kind::command, {"/usr/local/bin/after", "", "two words", "${HOME}"}, "", 60s}};
    siem.verify = false;

    policy::desired_exposure health;
    health.name = "health";
    health.variant = policy::variant::health;
    health.base_url = "https://hes.example.com/x";
    health.tenant = "orion-123";
    health.group = policy::business_group{"G1", "group"};
    health.create_instance = false;
    health.encoding = policy::csr_encoding::der;
    health.group_fields = policy::group_fields::business_group;
    health.broker = "broker.example.com:9093";
    health.broker_ca_file = "/etc/broker.pem";
    health.topic = "my.topic";
    health.users = {siem};

    policy::desired_credential bucket;
    bucket.name = "bucket";
    bucket.resource = "R1";
    bucket.action = "A1";
    bucket.elements = {{"access_key", "provider-accessKeyID"}, {"secret_key", "provider-secretAccessKey"}};
    bucket.interval = 6h;
    bucket.file = "/etc/backup/s3.json";
    bucket.format = policy::values_format::json;
    bucket.access = {"backup", "backup", 0440};
    bucket.hooks = {{kind::restart, {}, "backup.service", 60s}};

    policy::desired_state state;
    state.owner = "web-01-blue";
    state.state_dir = "/srv/agent";
    state.identity = {"https://login.example.com/SAAS/t/orion-123",
                      "exposure-automation",
                      policy::secret_source{origin::credential, "client-secret", {}},
                      "http://localhost:8080/",
                      12h,
                      {},
                      "openid offline_access",
                      {"etcdctl", "put", "exposure/token"}};
    state.network = {"/etc/ssl/ca.pem",
                     "/etc/ssl/crl.pem",
                     10s,
                     4,
                     "http://proxy.example.com:3128",
                     policy::proxy_credentials{"agent", {origin::environment, "PROXY_PASSWORD", {}}}};
    state.reconcile = {90min, false, 0, 5, 1min};
    state.notify = {{"/usr/local/bin/page-me", "--all"}, "", 7 * 24h, 12h};
    state.metrics = {"unix:/run/metrics.sock", "/var/lib/node/agent.prom"};
    state.catalog_url = "https://catalog.example.com";
    state.exposures = {health};
    state.credentials = {bucket};
    return state;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(load)

BOOST_AUTO_TEST_CASE(every_key_arrives)
{
    const auto read = state_of(every_key, machine({{"TEAM", "blue"}}));
    const auto wanted = every_value();
    BOOST_TEST((read.identity == wanted.identity));
    BOOST_TEST((read.network == wanted.network));
    BOOST_TEST((read.reconcile == wanted.reconcile));
    BOOST_TEST((read.notify == wanted.notify));
    BOOST_TEST((read.metrics == wanted.metrics));
    BOOST_TEST((read.exposures == wanted.exposures));
    BOOST_TEST((read.credentials == wanted.credentials));
    BOOST_TEST((read == wanted));
}

BOOST_AUTO_TEST_CASE(what_is_not_said_has_the_defaults_of_the_contract)
{
    const auto state = state_of(user(""));
    BOOST_TEST(!state.owner);
    BOOST_TEST(state.state_dir == "/var/lib/exposure-agent");
    BOOST_TEST(state.identity.redirect_url == "http://localhost");
    BOOST_TEST((state.identity.refresh_every == 24h));
    BOOST_TEST((state.network == policy::network_settings{}));
    BOOST_TEST((state.network.timeout == 30s));
    BOOST_TEST(state.network.connections == 8);
    BOOST_TEST((state.reconcile.interval == 15min));
    BOOST_TEST(state.reconcile.prune);
    BOOST_TEST(state.reconcile.max_deletes == 10);
    BOOST_TEST(state.reconcile.max_creates_per_user == 3);
    BOOST_TEST((state.reconcile.settle == 15s));
    BOOST_TEST((state.metrics == policy::metrics_settings{}));
    BOOST_TEST(state.identity.scope.empty());
    BOOST_TEST(state.identity.publish_command.empty());
    BOOST_TEST(!state.notify.enabled());
    BOOST_TEST((state.notify.expiry_warning == 14 * 24h));
    BOOST_TEST((state.notify.repeat == 24h));
    BOOST_TEST(state.catalog_url.empty());

    const auto& exposure = state.exposures.at(0);
    BOOST_TEST(!exposure.group);
    BOOST_TEST(exposure.create_instance);
    BOOST_TEST((exposure.encoding == policy::csr_encoding::pem));
    BOOST_TEST((exposure.group_fields == policy::group_fields::auto_));
    BOOST_TEST(exposure.topic == "logs-t");

    const auto& one = exposure.users.at(0);
    BOOST_TEST(one.description.empty());
    BOOST_TEST((one.key == policy::key_type::rsa_3072));
    BOOST_TEST((one.rotation.renew_before == policy::lead(policy::percent{33})));
    BOOST_TEST((one.rotation.retire_after == 24h));
    BOOST_TEST((one.rotation.strategy == policy::strategy::overlap));
    BOOST_TEST(!one.rotation.paused);
    BOOST_TEST(one.output.directory == "/var/lib/exposure-agent/live/e/u");
    BOOST_TEST((one.output.formats == std::set{policy::file_format::pem}));
    BOOST_TEST(one.output.access.mode == 0600u);
    BOOST_TEST(!one.output.access.owner);
    BOOST_TEST(one.hooks.empty());
    BOOST_TEST(one.verify);  // a broker is set
}

BOOST_AUTO_TEST_CASE(the_state_directory_comes_from_systemd)
{
    const auto under = [](const std::string& directory) { return machine({{"STATE_DIRECTORY", directory}}); };
    BOOST_TEST(state_of(top(""), under("/var/lib/a:/var/lib/b")).state_dir == "/var/lib/a");
    BOOST_TEST(state_of(top(""), under("")).state_dir == "/var/lib/exposure-agent");
    BOOST_TEST(state_of(top("state_dir: /srv/x\n"), under("/var/lib/a")).state_dir == "/srv/x");
    BOOST_TEST(!config::parse(top(""), "f", under("relative")).state);
}

BOOST_AUTO_TEST_CASE(the_state_directory_of_a_wrong_file)
{
    const auto systemd = machine({{"STATE_DIRECTORY", "/var/lib/private/exposure-agent"}});
    const auto of = [&](const std::string& text) { return config::parse(text, "f", systemd).state_dir; };
    BOOST_TEST(of(top("state_dir: /srv/agent\nunknown: 1\n")) == "/srv/agent");
    BOOST_TEST(of(top("state_dir: /srv/${hostname}/\nopen: [\n")) == "/srv/web-01");
    BOOST_TEST(of("{\n  \"state_dir\": \"/srv/agent\",\n  \"open\": [\n") == "/srv/agent");
    for (const std::string text : {"", "open: [", "state_dir: [\n", "state_dir: relative\nopen: ["})
        BOOST_TEST(of(text) == "/var/lib/private/exposure-agent");
}

BOOST_AUTO_TEST_CASE(nearer_defaults_override_key_by_key)
{
    const auto state = state_of(login + R"(
defaults:
  contact: file@example.com
  consumer_group: all
  key: rsa-4096
  rotation: {renew_before: 50%, retire_after: 1h}
  output: {mode: 0640, group: file}
  hooks: [{restart: file.service}]
exposures:
  - name: logs
    variant: log
    base_url: https://les.example.com
    tenant: t
    defaults:
      contact: exposure@example.com
      rotation: {retire_after: 2h}
      output: {group: exposure, formats: [pem, bundle]}
    users:
      - name: plain
      - name: own
        contact: user@example.com
        rotation: {paused: true}
        output: {formats: [pem]}
        hooks: []
)");
    const auto& plain = state.exposures.at(0).users.at(0);
    BOOST_TEST(plain.contact == "exposure@example.com");
    BOOST_TEST(plain.consumer_group == "all");
    BOOST_TEST((plain.key == policy::key_type::rsa_4096));
    BOOST_TEST((plain.rotation.renew_before == policy::lead(policy::percent{50})));
    BOOST_TEST((plain.rotation.retire_after == 2h));
    BOOST_TEST(plain.output.access.mode == 0640u);
    BOOST_TEST((plain.output.access.group == "exposure"));
    BOOST_TEST(plain.output.formats.size() == 2u);
    BOOST_TEST(plain.hooks.size() == 1u);
    BOOST_TEST(!plain.verify);

    const auto& own = state.exposures.at(0).users.at(1);
    BOOST_TEST(own.contact == "user@example.com");
    BOOST_TEST(own.rotation.paused);
    BOOST_TEST((own.rotation.retire_after == 2h));
    BOOST_TEST((own.output.access.group == "exposure"));
    BOOST_TEST(own.output.formats.size() == 1u);
    BOOST_TEST(own.hooks.empty());
}

BOOST_AUTO_TEST_CASE(credentials_may_stand_alone)
{
    const auto state = state_of(credential(""));
    BOOST_TEST(state.exposures.empty());
    BOOST_REQUIRE(state.credentials.size() == 1u);
    BOOST_TEST((state.credentials[0].interval == 12h));
    BOOST_TEST((state.credentials[0].format == policy::values_format::env));
    BOOST_TEST(state.credentials[0].access.mode == 0600u);
}

BOOST_AUTO_TEST_CASE(a_host_may_only_publish_tokens)
{
    const auto state = state_of(
        "identity:\n  auth_url: https://login.example.com/t\n  client_id: c\n  client_secret: {env: S}\n"
        "  publish: {command: [etcdctl, put, exposure/token]}\n");
    BOOST_TEST(state.exposures.empty());
    BOOST_TEST(state.identity.publish_command.size() == 3u);
}

BOOST_AUTO_TEST_CASE(the_login_address_may_stay_beside_an_access_token)
{
    const auto state =
        state_of(identity("  auth_url: https://login.example.com/t\n  access_token: {env: T}\n"));
    BOOST_TEST(state.identity.access_token.has_value());
    BOOST_TEST(state.identity.auth_url == "https://login.example.com/t");
}

BOOST_AUTO_TEST_CASE(a_webhook_may_have_a_query)
{
    const auto state = state_of(top("notify: {url: 'https://hooks.example.com/x?key=a&b=c'}\n"));
    BOOST_TEST(state.notify.url == "https://hooks.example.com/x?key=a&b=c");
    BOOST_TEST(state.notify.enabled());
}

BOOST_AUTO_TEST_CASE(every_source_of_a_token)
{
    using origin = policy::secret_source::origin;
    const auto token = [](const std::string& source) {
        return state_of(identity("  access_token: " + source + "\n")).identity.access_token.value();
    };
    BOOST_TEST((token("{file: /run//t}") == policy::secret_source{origin::file, "/run/t", {}}));
    BOOST_TEST((token("{env: TOKEN}") == policy::secret_source{origin::environment, "TOKEN", {}}));
    BOOST_TEST((token("{credential: token}") == policy::secret_source{origin::credential, "token", {}}));
    BOOST_TEST((token("{command: [vault, kv, get]}") ==
                policy::secret_source{origin::command, "", {"vault", "kv", "get"}}));
}

BOOST_AUTO_TEST_CASE(variables_fill_in_numbers_and_quotes)
{
    const auto from = machine({{"N", "5"}, {"P", "false"}});
    const auto state =
        state_of(top("network: {connections: '${env:N}'}\nreconcile:\n  prune: ${env:P}\n"), from);
    BOOST_TEST(state.network.connections == 5);
    BOOST_TEST(!state.reconcile.prune);
}

BOOST_AUTO_TEST_CASE(warnings_do_not_stop)
{
    const auto result =
        parsed(user("    output: {mode: 0644}\n") + "metrics: {textfile: /var/lib/node/agent}\n");
    BOOST_TEST(result.state.has_value());
    BOOST_REQUIRE(result.warnings.size() == 2u);
    BOOST_TEST(to_string(result.warnings[0]).starts_with("agent.yaml:12:20: `mode` lets everyone"));
    BOOST_TEST(result.warnings[1].line == 13);
}

BOOST_AUTO_TEST_CASE(another_tenant_than_the_logins_is_a_warning)
{
    const auto file = [](const std::string& tenant) {
        return "exposures: [{name: e, variant: log, base_url: 'https://les.example.com', tenant: orion-123, "
               "users: "
               "[]}]\nidentity: {auth_url: https://login.example.com/SAAS/t/" +
               tenant + ", client_id: c, client_secret: {env: S}}\n";
    };
    BOOST_TEST(parsed(file("orion-123")).warnings.empty());
    const auto result = parsed(file("orion-124"));
    BOOST_TEST(result.state.has_value());
    BOOST_REQUIRE(result.warnings.size() == 1u);
    BOOST_TEST((result.warnings[0].text.find("is not the tenant of identity.auth_url (orion-124)") !=
                std::string::npos));
}

BOOST_AUTO_TEST_CASE(users_are_found_in_the_file)
{
    const auto result = parsed(user(""));
    BOOST_REQUIRE(result.places.contains("e/u"));
    BOOST_TEST(result.places.at("e/u").line == 9);
    BOOST_TEST(result.places.at("e/u").column == 11);
    BOOST_TEST(result.places.at("identity.access_token").line == 1);
}

BOOST_AUTO_TEST_CASE(an_owner_localhost_is_a_warning)
{
    const auto told = [](const std::string& text, const std::string& hostname) {
        auto here = machine();
        here.hostname = hostname;
        return config::parse(text, "f", here).warnings.size();
    };
    BOOST_TEST(told(top("owner: localhost\n"), "web-01") == 1u);
    BOOST_TEST(told(top(""), "localhost") == 1u);
    BOOST_TEST(told(top("owner: web-01\n"), "localhost") == 0u);
}

BOOST_AUTO_TEST_CASE(a_byte_order_mark_and_windows_lines_are_text)
{
    state_of("\xef\xbb\xbf" + top(""));
    std::string lines;
    for (const char c : user(""))
        lines += c == '\n' ? std::string("\r\n") : std::string(1, c);
    BOOST_TEST((state_of(lines) == state_of(user(""))));
}

BOOST_AUTO_TEST_CASE(deep_nesting_is_a_mistake)
{
    const auto result = parsed("a: " + std::string(20000, '['));
    BOOST_REQUIRE(result.errors.size() == 1u);
    BOOST_TEST((result.errors[0].text.find("nested deeper") != std::string::npos));
    BOOST_TEST(result.errors[0].line == 1);
    BOOST_TEST(result.errors[0].column < 40);  // found before the text reaches the library
}

BOOST_AUTO_TEST_CASE(a_file_of_too_many_values_is_a_mistake)
{
    std::string many = "a: [";
    for (int i = 0; i < 300000; ++i)
        many += "b,";
    const auto result = parsed(many + "]\n");
    BOOST_REQUIRE(result.errors.size() == 1u);
    BOOST_TEST((result.errors[0].text.find("too many values") != std::string::npos));
}

BOOST_AUTO_TEST_SUITE_END()
