#include "config/keys.hpp"

#include <array>

namespace config {
namespace {

using form = field::form;

// Where secrets come from

constexpr field file_source = {
    .name = "file", .about = "Absolute path of the file that holds it.", .value = &formats::path};
constexpr field env_source = {
    .name = "env", .about = "Environment variable that holds it.", .value = &formats::variable};
constexpr field credential_source = {.name = "credential",
                                     .about = "Name of the systemd credential that holds it.",
                                     .value = &formats::credential};

constexpr std::array secret_fields = {file_source, env_source, credential_source};
constexpr section secret = {"secret", "the source of a secret", secret_fields, secret_fields.size(), true};

constexpr std::array token_fields = {file_source, env_source, credential_source,
                                     field{.name = "command",
                                           .about = "Command (without a shell) that prints it.",
                                           .value = &formats::argument,
                                           .shape = form::list}};
constexpr section token = {"access_token", "the source of an access token", token_fields, token_fields.size(),
                           true};

constexpr std::array password_fields = {file_source};
constexpr section password = {"password", "the source of a password", password_fields, password_fields.size(),
                              true};

// The agent

constexpr std::array publish_fields = {
    field{.name = "command",
          .about = "Command (without a shell) that stores the access token.",
          .value = &formats::argument,
          .shape = form::list}};
constexpr section publish = {"publish", "the publication of tokens", publish_fields, 1};

constexpr std::array identity_fields = {
    field{.name = "auth_url",
          .about = "Address of the authorization server, tenant included.",
          .value = &formats::https_url},
    field{.name = "client_id", .about = "The OAuth client.", .value = &formats::text},
    field{.name = "client_secret", .about = "Where the client's secret is found.", .inner = &secret},
    field{.name = "redirect_url",
          .about = "Redirect address as registered for the client.",
          .value = &formats::https_url,
          .fallback = R"("http://localhost")"},
    field{.name = "refresh_every",
          .about = "Refresh the tokens this often, also when no call needs it.",
          .value = &formats::refresh_interval,
          .fallback = R"("24h")"},
    field{.name = "access_token",
          .about = "Instead of an OAuth client: an access token that something else keeps fresh.",
          .inner = &token},
    field{.name = "scope",
          .about = "Scopes to ask for at login, separated by spaces. Default: none.",
          .value = &formats::scope},
    field{.name = "publish",
          .about = "Runs with every new access token on its standard input.",
          .inner = &publish}};
constexpr section identity = {"identity", "the login", identity_fields};

constexpr std::array proxy_auth_fields = {
    field{.name = "username",
          .about = "User name at the proxy.",
          .value = &formats::username,
          .required = true},
    field{.name = "password", .about = "Where the password is found.", .inner = &secret, .required = true}};
constexpr section proxy_auth = {"proxy_auth", "the login at the proxy", proxy_auth_fields};

constexpr std::array network_fields = {
    field{.name = "ca_file",
          .about = "Trusted certificate authorities (PEM). Default: the system's.",
          .value = &formats::path},
    field{.name = "crl_file", .about = "Certificate revocation list (PEM).", .value = &formats::path},
    field{.name = "timeout",
          .about = "Limit of one request, connecting included.",
          .value = &formats::duration,
          .fallback = R"("30s")"},
    field{.name = "connections",
          .about = "At most this many connections per host.",
          .value = &formats::connections,
          .fallback = "8"},
    field{.name = "proxy",
          .about = "HTTP proxy. Default: $HTTPS_PROXY, minus $NO_PROXY.",
          .value = &formats::proxy_url},
    field{.name = "proxy_auth", .about = "Basic authentication at the proxy.", .inner = &proxy_auth}};
constexpr section network = {"network", "the network", network_fields};

constexpr std::array reconcile_fields = {
    field{.name = "interval",
          .about = "How often platform and disk are compared with this file.",
          .value = &formats::duration,
          .fallback = R"("15m")"},
    field{.name = "prune",
          .about = "Remove users of this owner that this file no longer names.",
          .value = &formats::boolean,
          .fallback = "true"},
    field{.name = "max_deletes",
          .about = "A pass that would delete more users than this deletes none.",
          .value = &formats::deletes,
          .fallback = "10"},
    field{.name = "max_creates_per_user",
          .about = "Creations per user in 24 h before it is blocked.",
          .value = &formats::creates,
          .fallback = "3"},
    field{.name = "settle",
          .about = "How long a POST without an answer is looked for before it is sent again.",
          .value = &formats::duration,
          .fallback = R"("15s")"}};
constexpr section reconcile = {"reconcile", "the reconciliation", reconcile_fields};

constexpr std::array notify_fields = {
    field{.name = "command",
          .about = "Command (without a shell) that gets one JSON object on its standard input.",
          .value = &formats::argument,
          .shape = form::list},
    field{
        .name = "url", .about = "Webhook that gets the same JSON as a POST.", .value = &formats::webhook_url},
    field{.name = "expiry_warning",
          .about = "A certificate in use with less than this left is reported.",
          .value = &formats::duration,
          .fallback = R"("14d")"},
    field{.name = "repeat",
          .about = "An unchanged case is reported again after this.",
          .value = &formats::duration,
          .fallback = R"("24h")"}};
constexpr section notify = {"notify", "the notification", notify_fields, 2};

constexpr std::array metrics_fields = {
    field{.name = "listen", .about = "127.0.0.1:PORT or unix:/PATH.", .value = &formats::listen},
    field{.name = "textfile",
          .about = "File for the textfile collector of node_exporter.",
          .value = &formats::path}};
constexpr section metrics = {"metrics", "the metrics", metrics_fields};

constexpr std::array catalog_fields = {field{.name = "base_url",
                                             .about = "Address of the catalog service.",
                                             .value = &formats::https_url,
                                             .required = true}};
constexpr section catalog = {"catalog", "the catalog service", catalog_fields};

// A user

constexpr std::array hook_fields = {
    field{.name = "restart", .about = "systemd unit to restart.", .value = &formats::unit},
    field{.name = "reload", .about = "systemd unit to reload.", .value = &formats::unit},
    field{.name = "command",
          .about = "Command, without a shell; its program is an absolute path.",
          .value = &formats::argument,
          .shape = form::list},
    field{.name = "timeout",
          .about = "The hook is ended after this.",
          .value = &formats::duration,
          .fallback = R"("60s")"}};
constexpr section hook = {"hook", "a hook", hook_fields, 3};

constexpr field hooks_field = {.name = "hooks",
                               .about = "What runs after new files are in place, in this order.",
                               .inner = &hook,
                               .shape = form::list,
                               .fallback = "[]"};

constexpr std::array rotation_fields = {
    field{.name = "renew_before",
          .about = "Renewed this long before expiry: a share of the lifetime or a duration.",
          .value = &formats::lead,
          .fallback = R"("33%")"},
    field{.name = "retire_after",
          .about = "The replaced user is deleted this long after its successor is in use.",
          .value = &formats::duration_or_none,
          .fallback = R"("24h")"},
    field{.name = "strategy",
          .about = "overlap: create, switch, delete; replace: delete, create, switch.",
          .value = &formats::strategy,
          .fallback = R"("overlap")"},
    field{.name = "paused",
          .about = "No rotation of this user for now.",
          .value = &formats::boolean,
          .fallback = "false"}};
constexpr section rotation = {"rotation", "a rotation", rotation_fields};

constexpr field owner_field = {.name = "owner",
                               .about = "Owner of the files. Default: whoever runs the agent.",
                               .value = &formats::account};
constexpr field group_field = {.name = "group",
                               .about = "Group of the files. Default: whoever runs the agent.",
                               .value = &formats::account};
constexpr field mode_field = {.name = "mode",
                              .about = "Mode of every file that holds a secret, in octal digits.",
                              .value = &formats::mode,
                              .fallback = R"("0600")"};

constexpr std::array output_fields = {
    field{.name = "directory",
          .about = "Where `current` is kept. Default: {state_dir}/live/{exposure}/{user}.",
          .value = &formats::directory},
    field{.name = "formats",
          .about = "Which files are written.",
          .value = &formats::file_format,
          .shape = form::list,
          .fallback = R"(["pem"])"},
    owner_field,
    group_field,
    mode_field,
    field{
        .name = "password", .about = "Where the password of the PKCS#12 file is found.", .inner = &password}};
constexpr section output = {"output", "an output", output_fields};

constexpr std::array user_fields = {
    field{.name = "name",
          .about = "Name of the user, unique in its exposure.",
          .value = &formats::name,
          .required = true},
    field{.name = "consumer_group",
          .about = "Kafka consumer group. Required, here or in defaults.",
          .value = &formats::text},
    field{.name = "contact",
          .about = "E-mail address. Required, here or in defaults.",
          .value = &formats::email},
    field{.name = "description", .about = "What the user is for.", .value = &formats::note},
    field{.name = "key",
          .about = "Type of the private key.",
          .value = &formats::key_type,
          .fallback = R"("rsa-3072")"},
    field{.name = "rotation", .about = "When the certificate is replaced, and how.", .inner = &rotation},
    field{.name = "output", .about = "Which files are written, where, for whom.", .inner = &output},
    hooks_field,
    field{.name = "verify",
          .about = "Prove a new certificate at the broker before the switch. "
                   "Default: true where a broker is named.",
          .value = &formats::boolean}};
constexpr section user = {"user", "a user", user_fields};
constexpr section defaults = {"defaults", "the defaults of users",
                              std::span<const field>(user_fields).subspan(1)};

constexpr field defaults_field = {.name = "defaults",
                                  .about = "Any key of a user but its name; the nearer one counts.",
                                  .inner = &defaults};

// An exposure

constexpr std::array group_fields = {
    field{.name = "id", .about = "Id of the business group.", .value = &formats::text},
    field{.name = "name",
          .about = "Name of the business group. Default: the tenant's.",
          .value = &formats::text}};
constexpr section business_group = {"business_group", "a business group", group_fields};

constexpr std::array exposure_fields = {
    field{.name = "name",
          .about = "Name of the exposure, unique in this file.",
          .value = &formats::name,
          .required = true},
    field{.name = "variant", .about = "What is exposed.", .value = &formats::variant, .required = true},
    field{.name = "base_url",
          .about = "Address of the exposure service; /api/v1 is appended.",
          .value = &formats::api_url,
          .required = true},
    field{.name = "tenant", .about = "The tenant.", .value = &formats::tenant, .required = true},
    field{.name = "business_group",
          .about = "Default: what the instance shows, else the tenant's name and no id.",
          .inner = &business_group},
    field{.name = "create_instance",
          .about = "Onboard the tenant when it has no instance.",
          .value = &formats::boolean,
          .fallback = "true"},
    field{.name = "csr_encoding",
          .about = "pem: base64 of the PEM text; der: base64 of the DER.",
          .value = &formats::csr_encoding,
          .fallback = R"("pem")"},
    field{.name = "broker",
          .about = "HOST:PORT of the broker, for `verify` and the Kafka files.",
          .value = &formats::brokers},
    field{.name = "broker_ca_file",
          .about = "CA of the broker (PEM), never the one that issues the users' certificates.",
          .value = &formats::path},
    field{.name = "group_fields",
          .about = "Request fields of the group: businessGroupId/businessGroupName or spaceID/spaceName. "
                   "auto: as the instance shows them, else the variant's own.",
          .value = &formats::group_fields,
          .fallback = R"("auto")"},
    field{.name = "topic", .about = "Default: <prefix>-<tenant>.", .value = &formats::topic},
    defaults_field,
    field{.name = "users",
          .about = "The users, each with a certificate of its own.",
          .inner = &user,
          .shape = form::list,
          .required = true}};
constexpr section exposure = {"exposure", "an exposure", exposure_fields};

// A credential

constexpr std::array values_fields = {field{.name = "file",
                                            .about = "Absolute path of the file.",
                                            .value = &formats::directory,
                                            .required = true},
                                      field{.name = "format",
                                            .about = "env is quoted for sh.",
                                            .value = &formats::values_format,
                                            .fallback = R"("env")"},
                                      owner_field, group_field, mode_field};
constexpr section values_output = {"credential_output", "the file of a credential", values_fields};

constexpr std::array credential_fields = {
    field{.name = "name",
          .about = "Name of the credential, unique in this file.",
          .value = &formats::name,
          .required = true},
    field{.name = "resource",
          .about = "Id of the catalog resource.",
          .value = &formats::text,
          .required = true},
    field{.name = "action", .about = "Id of its day-2 action.", .value = &formats::text, .required = true},
    field{.name = "elements",
          .about = "Names in the file, each with the id of the form's element.",
          .value = &formats::text,
          .shape = form::names,
          .required = true},
    field{.name = "interval",
          .about = "How often the values are fetched.",
          .value = &formats::duration,
          .fallback = R"("12h")"},
    field{.name = "output",
          .about = "The file that holds the values.",
          .inner = &values_output,
          .required = true},
    hooks_field};
constexpr section credential = {"credential", "a credential", credential_fields};

// The file

constexpr std::array root_fields = {
    field{.name = "version", .about = "Version of this format.", .value = &formats::version, .fallback = "1"},
    field{.name = "owner",
          .about = "Marks the users that this agent created. Default: the short host name, "
                   "remembered from the first start on.",
          .value = &formats::owner},
    field{.name = "state_dir",
          .about = "Where the agent keeps its state. Default: $STATE_DIRECTORY, "
                   "else /var/lib/exposure-agent.",
          .value = &formats::directory},
    field{.name = "identity", .about = "How the agent logs in.", .inner = &identity, .required = true},
    field{.name = "network", .about = "How the platform is reached.", .inner = &network},
    field{.name = "reconcile", .about = "How often and how boldly the agent acts.", .inner = &reconcile},
    field{.name = "notify", .about = "Who is told when a person is needed.", .inner = &notify},
    field{.name = "metrics", .about = "Metrics and health.", .inner = &metrics},
    field{.name = "catalog", .about = "The catalog service; needed for credentials.", .inner = &catalog},
    defaults_field,
    field{.name = "exposures",
          .about = "The exposures. May be missing when there are credentials, or when the host only "
                   "publishes tokens.",
          .inner = &exposure,
          .shape = form::list},
    field{.name = "credentials",
          .about = "Values of day-2 actions that are kept on disk.",
          .inner = &credential,
          .shape = form::list}};
constexpr section root = {"configuration", "the configuration of exposure-agent", root_fields};

}  // namespace

const section& root_section()
{
    return root;
}

}  // namespace config
