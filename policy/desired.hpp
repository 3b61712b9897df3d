#pragma once

#include "policy/dates.hpp"
#include "policy/words.hpp"

#include <boost/describe.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

// The desired state: contract section 2 as values, with all defaults filled in and every name expanded.
// Immutable once read.

namespace policy {

enum class key_type { rsa_2048, rsa_3072, rsa_4096, ecdsa_p256, ecdsa_p384, ed25519 };
BOOST_DESCRIBE_ENUM(key_type, rsa_2048, rsa_3072, rsa_4096, ecdsa_p256, ecdsa_p384, ed25519)
template <>
inline constexpr char word_separator<key_type> = '-';

enum class variant { log, health, lifecycle };
BOOST_DESCRIBE_ENUM(variant, log, health, lifecycle)

enum class strategy { overlap, replace };
BOOST_DESCRIBE_ENUM(strategy, overlap, replace)

enum class file_format { pem, bundle, pkcs12, java, librdkafka };
BOOST_DESCRIBE_ENUM(file_format, pem, bundle, pkcs12, java, librdkafka)

enum class csr_encoding { pem, der };
BOOST_DESCRIBE_ENUM(csr_encoding, pem, der)

enum class values_format { env, json, yaml };
BOOST_DESCRIBE_ENUM(values_format, env, json, yaml)

// Which request fields name the business group (contract section 3); auto_: those that the instance shows.
enum class group_fields { auto_, business_group, space };
BOOST_DESCRIBE_ENUM(group_fields, auto_, business_group, space)

// Where a secret comes from; the secret itself is never part of the configuration.
struct secret_source {
    enum class origin { file, environment, credential, command };
    BOOST_DESCRIBE_NESTED_ENUM(origin, file, environment, credential, command)
    origin from = origin::file;
    std::string name;               // path, variable or credential name
    std::vector<std::string> argv;  // for origin::command

    bool operator==(const secret_source&) const = default;
};

// identity: an OAuth client (auth_url, client_id, ...) or an external access token, never both.
struct identity_settings {
    std::string auth_url;  // no trailing slash
    std::string client_id;
    std::optional<secret_source> client_secret;
    std::string redirect_url = "http://localhost";
    duration refresh_every = std::chrono::hours(24);
    std::optional<secret_source> access_token = std::nullopt;  // set: external
    std::string scope = {};                                    // of the authorize URL; empty: none is sent
    std::vector<std::string> publish_command = {};             // gets every new access token; empty: none

    bool operator==(const identity_settings&) const = default;
};

// HTTP Basic authentication at the proxy.
struct proxy_credentials {
    std::string username;
    secret_source password;

    bool operator==(const proxy_credentials&) const = default;
};

struct network_settings {
    std::optional<std::string> ca_file;  // unset: the system's trust store
    std::optional<std::string> crl_file;
    duration timeout = std::chrono::seconds(30);
    int connections = 8;               // per host
    std::optional<std::string> proxy;  // unset: $HTTPS_PROXY minus $NO_PROXY
    std::optional<proxy_credentials> proxy_auth = std::nullopt;

    bool operator==(const network_settings&) const = default;
};

struct reconcile_settings {
    duration interval = std::chrono::minutes(15);
    bool prune = true;
    int max_deletes = 10;
    int max_creates_per_user = 3;
    duration settle = std::chrono::seconds(15);

    bool operator==(const reconcile_settings&) const = default;
};

// Whom to notify when a person is needed: a program or a webhook, never both.
struct notify_settings {
    std::vector<std::string> command;                   // receives the JSON on standard input; empty: none
    std::string url;                                    // receives the JSON as a POST; empty: none
    duration expiry_warning = std::chrono::hours(336);  // warn when a certificate has less left
    duration repeat = std::chrono::hours(24);           // repeat an unchanged notification after this

    bool enabled() const { return !command.empty() || !url.empty(); }
    bool operator==(const notify_settings&) const = default;
};

struct metrics_settings {
    std::string listen;    // "127.0.0.1:9464" or "unix:/path"; empty: no listener
    std::string textfile;  // empty: none

    bool operator==(const metrics_settings&) const = default;
};

// renew_before: a share of the lifetime or a duration, both counted back from expiry
struct percent {
    int value = 33;
    bool operator==(const percent&) const = default;
};
using lead = std::variant<percent, duration>;

struct rotation_rule {
    lead renew_before = percent{};
    duration retire_after = std::chrono::hours(24);
    policy::strategy strategy = policy::strategy::overlap;
    bool paused = false;

    bool operator==(const rotation_rule&) const = default;
};

// Ownership and mode of a file that we write; unset: the user that runs the agent.
struct file_access {
    std::optional<std::string> owner;
    std::optional<std::string> group;
    unsigned mode = 0600;  // for files that hold a secret

    bool operator==(const file_access&) const = default;
};

struct output_rule {
    std::string directory;  // absolute, always filled in
    std::set<file_format> formats = {file_format::pem};
    file_access access;
    std::optional<std::string> password_file;  // of the PKCS#12 file

    bool operator==(const output_rule&) const = default;
};

struct hook {
    enum class kind { command, restart, reload };
    BOOST_DESCRIBE_NESTED_ENUM(kind, command, restart, reload)
    kind what = kind::command;
    std::vector<std::string> argv;  // for kind::command
    std::string unit;               // for restart and reload
    duration timeout = std::chrono::seconds(60);

    bool operator==(const hook&) const = default;
};

struct business_group {
    std::string id;
    std::string name;
    bool operator==(const business_group&) const = default;
};

struct desired_user {
    std::string name;
    std::string consumer_group;
    std::string contact;
    std::string description;
    key_type key = key_type::rsa_3072;
    rotation_rule rotation;
    output_rule output;
    std::vector<hook> hooks;
    bool verify = false;  // ask the broker to accept the certificate before switching to it

    bool operator==(const desired_user&) const = default;
};

struct desired_exposure {
    std::string name;
    policy::variant variant = policy::variant::log;
    std::string base_url;  // no trailing slash, without /api/v1
    std::string tenant;
    std::optional<business_group> group;  // unset: taken from the instance
    bool create_instance = true;
    csr_encoding encoding = csr_encoding::pem;
    std::string broker;  // empty: not configured
    std::optional<std::string> broker_ca_file;
    std::string topic;  // always filled in
    std::vector<desired_user> users;
    policy::group_fields group_fields = policy::group_fields::auto_;

    bool operator==(const desired_exposure&) const = default;
};

struct desired_credential {
    std::string name;
    std::string resource;
    std::string action;
    std::map<std::string, std::string> elements;  // name in our file -> element id of the form
    duration interval = std::chrono::hours(12);
    std::string file;
    values_format format = values_format::env;
    file_access access;
    std::vector<hook> hooks;

    bool operator==(const desired_credential&) const = default;
};

struct desired_state {
    std::optional<std::string> owner;  // unset: the short host name stored at the first start
    std::string state_dir = "/var/lib/exposure-agent";
    identity_settings identity;
    network_settings network;
    reconcile_settings reconcile;
    notify_settings notify;
    metrics_settings metrics;
    std::string catalog_url;  // empty: none
    std::vector<desired_exposure> exposures;
    std::vector<desired_credential> credentials;

    bool operator==(const desired_state&) const = default;
};

BOOST_DESCRIBE_STRUCT(secret_source, (), (from, name, argv))
BOOST_DESCRIBE_STRUCT(identity_settings, (),
                      (auth_url, client_id, client_secret, redirect_url, refresh_every, access_token, scope,
                       publish_command))
BOOST_DESCRIBE_STRUCT(proxy_credentials, (), (username, password))
BOOST_DESCRIBE_STRUCT(network_settings, (), (ca_file, crl_file, timeout, connections, proxy, proxy_auth))
BOOST_DESCRIBE_STRUCT(reconcile_settings, (), (interval, prune, max_deletes, max_creates_per_user, settle))
BOOST_DESCRIBE_STRUCT(notify_settings, (), (command, url, expiry_warning, repeat))
BOOST_DESCRIBE_STRUCT(metrics_settings, (), (listen, textfile))
BOOST_DESCRIBE_STRUCT(percent, (), (value))
BOOST_DESCRIBE_STRUCT(rotation_rule, (), (renew_before, retire_after, strategy, paused))
BOOST_DESCRIBE_STRUCT(file_access, (), (owner, group, mode))
BOOST_DESCRIBE_STRUCT(output_rule, (), (directory, formats, access, password_file))
BOOST_DESCRIBE_STRUCT(hook, (), (what, argv, unit, timeout))
BOOST_DESCRIBE_STRUCT(business_group, (), (id, name))
BOOST_DESCRIBE_STRUCT(desired_user, (),
                      (name, consumer_group, contact, description, key, rotation, output, hooks, verify))
BOOST_DESCRIBE_STRUCT(desired_exposure, (),
                      (name, variant, base_url, tenant, group, create_instance, encoding, broker,
                       broker_ca_file, topic, users, group_fields))
BOOST_DESCRIBE_STRUCT(desired_credential, (),
                      (name, resource, action, elements, interval, file, format, access, hooks))
BOOST_DESCRIBE_STRUCT(desired_state, (),
                      (owner, state_dir, identity, network, reconcile, notify, metrics, catalog_url,
                       exposures, credentials))

}  // namespace policy
