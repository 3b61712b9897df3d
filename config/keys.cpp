#include "config/keys.hpp"

#include "config/reader.hpp"
#include "config/values.hpp"
#include "policy/desired.hpp"

#include <array>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <vector>

namespace config {
namespace {

using namespace policy;
using origin = secret_source::origin;

// --- How each member type is read and printed

template <class T>
std::optional<T> convert(const node& from, const format& how)
{
    if constexpr (std::is_same_v<T, bool>)
        return read_boolean(from.text);
    else if constexpr (std::is_same_v<T, int>)
        return read_integer(from.text);
    else if constexpr (std::is_same_v<T, unsigned>)
        return read_mode(from.text);
    else if constexpr (std::is_same_v<T, policy::duration>)
        return read_duration(from.text);
    else if constexpr (std::is_same_v<T, lead>)
        return read_lead(from.text);
    else if constexpr (std::is_enum_v<T>)
        return from_word<T>(from.text);
    else
        return how.canonical ? how.canonical(from.text) : from.text;
}

template <class T>
void read(T& member, const layers& from, const key& self)
{
    if (const auto* value = from.find(self.name))
        if (auto converted = convert<T>(*value, *self.value)) member = std::move(*converted);
}

void read(std::optional<std::string>& member, const layers& from, const key& self)
{
    if (from.find(self.name)) read(member.emplace(), from, self);
}

void read(std::vector<std::string>& member, const layers& from, const key& self)
{
    for (const auto* item : from.list(self.name))
        member.push_back(item->text);
}

template <class E>
void read(std::set<E>& member, const layers& from, const key& self)
{
    if (!from.find(self.name)) return;
    member.clear();
    for (const auto* item : from.list(self.name))
        if (const auto value = from_word<E>(item->text)) member.insert(*value);
}

void read(std::map<std::string, std::string>& member, const layers& from, const key& self)
{
    const auto* map = from.find(self.name);
    for (std::size_t i = 0; map && i < map->keys.size(); ++i)
        member.emplace(map->keys[i].text, map->items[i].text);
}

std::string json(bool value)
{
    return value ? "true" : "false";
}
std::string json(int value)
{
    return std::to_string(value);
}
std::string json(const std::string& text)
{
    return text.empty() ? "" : "\"" + text + "\"";
}
std::string json(unsigned mode)
{
    std::string digits;
    for (int shift = 9; shift >= 0; shift -= 3)
        digits += static_cast<char>('0' + (mode >> shift & 7));
    return json(digits);
}
std::string json(policy::duration value)
{
    return json(write_duration(value));
}
std::string json(const lead& value)
{
    const auto* share = std::get_if<percent>(&value);
    return share ? json(std::to_string(share->value) + "%") : json(std::get<policy::duration>(value));
}
template <class E>
requires std::is_enum_v<E> std::string json(E value)
{
    return json(std::string(word_of(value)));
}
template <class E>
std::string json(const std::set<E>& values)
{
    std::string list;
    for (const auto value : values)
        list += (list.empty() ? "" : ",") + json(value);
    return "[" + list + "]";
}
template <class T>
std::string json(const std::optional<T>&)
{
    return {};
}
template <class... T>
std::string json(const std::vector<T...>&)
{
    return {};
}
template <class... T>
std::string json(const std::map<T...>&)
{
    return {};
}

// --- Table entries

template <auto First, auto... Rest>
auto& member_of(auto& object)
{
    if constexpr (sizeof...(Rest) == 0)
        return object.*First;
    else
        return member_of<Rest...>(object.*First);
}

template <auto...>
struct path;
template <class Owner, class T, T Owner::*First, auto... Rest>
struct path<First, Rest...> {
    using owner = Owner;
};
template <auto... Path>
using owner_of = typename path<Path...>::owner;

template <auto... Path>
using type_of = std::remove_cvref_t<decltype(member_of<Path...>(std::declval<owner_of<Path...>&>()))>;

template <class T>
constexpr key::form form_of = key::form::one;
template <class T>
constexpr key::form form_of<std::vector<T>> = key::form::list;
template <class T>
constexpr key::form form_of<std::set<T>> = key::form::list;
template <class K, class T>
constexpr key::form form_of<std::map<K, T>> = key::form::names;

constexpr bool required = true;

// A value stored in the member at the end of the path.
template <auto... Path>
constexpr key entry(const char* name, const char* about, const format& value, bool is_required = false)
{
    return {.name = name,
            .about = about,
            .value = &value,
            .shape = form_of<type_of<Path...>>,
            .required = is_required,
            .fill =
                [](void* object, const layers& from, const key& self) {
                    read(member_of<Path...>(*static_cast<owner_of<Path...>*>(object)), from, self);
                },
            .fallback =
                [] {
                    owner_of<Path...> fresh;
                    return json(member_of<Path...>(fresh));
                }};
}

template <class T>
constexpr const format& format_of = formats::word<T>;
template <class E>
constexpr const format& format_of<std::set<E>> = formats::word<E>;
template <>
constexpr const format& format_of<bool> = formats::boolean;
template <>
constexpr const format& format_of<unsigned> = formats::mode;
template <>
constexpr const format& format_of<policy::duration> = formats::duration;
template <>
constexpr const format& format_of<lead> = formats::lead;

// The same, with the format implied by the member's type.
template <auto... Path>
constexpr key entry(const char* name, const char* about, bool is_required = false)
{
    return entry<Path...>(name, about, format_of<type_of<Path...>>, is_required);
}

// The default depends on other keys.
constexpr key computed(key one)
{
    one.fallback = nullptr;
    return one;
}

// One of several alternatives; also records which one was chosen.
template <auto Kind, auto chosen, auto Member>
constexpr key choice(const char* name, const char* about, const format& value)
{
    auto one = computed(entry<Member>(name, about, value));
    one.fill = [](void* object, const layers& from, const key& self) {
        if (!from.find(self.name)) return;
        auto& of = *static_cast<owner_of<Kind>*>(object);
        of.*Kind = chosen;
        read(of.*Member, from, self);
    };
    return one;
}

// A section whose keys fill the same object.
constexpr key part(const char* name, const char* about, const section& inner, bool is_required = false)
{
    return {.name = name,
            .about = about,
            .inner = &inner,
            .required = is_required,
            .fill = [](void* object, const layers& from, const key& self) {
                fill(*self.inner, object, from.in(self.name));
            }};
}

// A section whose keys fill a member.
template <auto Member>
constexpr key part(const char* name, const char* about, const section& inner, bool is_required = false)
{
    auto one = part(name, about, inner, is_required);
    one.fill = [](void* object, const layers& from, const key& self) {
        auto& member = static_cast<owner_of<Member>*>(object)->*Member;
        if constexpr (requires { member.emplace(); }) {
            if (from.find(self.name)) fill(*self.inner, &member.emplace(), from.in(self.name));
        } else {
            fill(*self.inner, &member, from.in(self.name));
        }
    };
    return one;
}

// A list of sections.
template <auto Member>
constexpr key each(const char* name, const char* about, const section& inner)
{
    return {.name = name,
            .about = about,
            .inner = &inner,
            .shape = key::form::list,
            .fill = [](void* object, const layers& from, const key& self) {
                auto& member = static_cast<owner_of<Member>*>(object)->*Member;
                for (const auto* item : from.list(self.name))
                    fill(*self.inner, &member.emplace_back(), layers(item));
            }};
}

// A list of sections that the reader fills itself, because its entries inherit defaults.
constexpr key layered(const char* name, const char* about, const section& inner, bool is_required = false)
{
    return {.name = name, .about = about, .inner = &inner, .shape = key::form::list, .required = is_required};
}

// --- Sources of secrets

constexpr std::array token_keys = {
    choice<&secret_source::from, origin::file, &secret_source::name>(
        "file", "Absolute path of the file that holds it.", formats::path),
    choice<&secret_source::from, origin::environment, &secret_source::name>(
        "env", "Environment variable that holds it.", formats::variable),
    choice<&secret_source::from, origin::credential, &secret_source::name>(
        "credential", "Name of the systemd credential that holds it.", formats::credential),
    choice<&secret_source::from, origin::command, &secret_source::argv>(
        "command", "Command (without a shell) that prints it.", formats::argument)};
constexpr section token = {"access_token", "the source of an access token", token_keys, token_keys.size(),
                           true};

constexpr auto secret_keys = std::span<const key>(token_keys).first(3);
constexpr section secret = {"secret", "the source of a secret", secret_keys, secret_keys.size(), true};

constexpr std::array password_keys = {
    entry<&output_rule::password_file>("file", "Absolute path of the file that holds it.", formats::path)};
constexpr section password = {"password", "the source of a password", password_keys, password_keys.size(),
                              true};

// --- Agent

constexpr std::array publish_keys = {entry<&identity_settings::publish_command>(
    "command", "Command (without a shell) that stores the access token.", formats::argument)};
constexpr section publish = {"publish", "the publication of tokens", publish_keys, 1};

constexpr std::array identity_keys = {
    entry<&identity_settings::auth_url>("auth_url", "Address of the authorization server, tenant included.",
                                        formats::https_url),
    entry<&identity_settings::client_id>("client_id", "The OAuth client.", formats::text),
    part<&identity_settings::client_secret>("client_secret", "Source of the client's secret.", secret),
    entry<&identity_settings::redirect_url>("redirect_url", "Redirect address as registered for the client.",
                                            formats::redirect_url),
    entry<&identity_settings::refresh_every>(
        "refresh_every", "How often the tokens are refreshed, even if no call needs them.",
        formats::refresh_interval),
    part<&identity_settings::access_token>(
        "access_token", "Instead of an OAuth client: an access token that another program refreshes.", token),
    entry<&identity_settings::scope>(
        "scope", "Scopes to ask for at login, separated by spaces. Default: none.", formats::scope),
    part("publish", "Runs with every new access token on its standard input.", publish)};
constexpr section identity = {"identity", "the login", identity_keys};

constexpr std::array proxy_auth_keys = {
    entry<&proxy_credentials::username>("username", "User name at the proxy.", formats::username, required),
    part<&proxy_credentials::password>("password", "Source of the password.", secret, required)};
constexpr section proxy_auth = {"proxy_auth", "the login at the proxy", proxy_auth_keys};

constexpr std::array network_keys = {
    entry<&network_settings::ca_file>(
        "ca_file", "Trusted certificate authorities (PEM). Default: the system's.", formats::path),
    entry<&network_settings::crl_file>("crl_file", "Certificate revocation list (PEM).", formats::path),
    entry<&network_settings::timeout>("timeout", "Limit of one request, connecting included."),
    entry<&network_settings::connections>("connections", "At most this many connections per host.",
                                          formats::connections),
    entry<&network_settings::proxy>("proxy", "HTTP proxy. Default: $HTTPS_PROXY, minus $NO_PROXY.",
                                    formats::proxy_url),
    part<&network_settings::proxy_auth>("proxy_auth", "Basic authentication at the proxy.", proxy_auth)};
constexpr section network = {"network", "the network", network_keys};

constexpr std::array reconcile_keys = {
    entry<&reconcile_settings::interval>("interval",
                                         "How often platform and disk are compared with this file."),
    entry<&reconcile_settings::prune>("prune", "Remove users of this owner that are no longer in this file."),
    entry<&reconcile_settings::max_deletes>(
        "max_deletes", "A pass that would delete more users than this deletes nothing.", formats::deletes),
    entry<&reconcile_settings::max_creates_per_user>(
        "max_creates_per_user", "Creations per user in 24 h before it is blocked.", formats::creates),
    entry<&reconcile_settings::settle>(
        "settle", "How long to look for the result of an unanswered POST before it is sent again.")};
constexpr section reconcile = {"reconcile", "the reconciliation", reconcile_keys};

constexpr std::array notify_keys = {
    entry<&notify_settings::command>(
        "command", "Command (without a shell) that gets one JSON object on its standard input.",
        formats::argument),
    entry<&notify_settings::url>("url", "Webhook that gets the same JSON as a POST.", formats::webhook_url),
    entry<&notify_settings::expiry_warning>("expiry_warning",
                                            "A certificate in use with less than this left is reported."),
    entry<&notify_settings::repeat>("repeat", "An unchanged case is reported again after this.")};
constexpr section notify = {"notify", "the notification", notify_keys, 2};

constexpr std::array metrics_keys = {
    entry<&metrics_settings::listen>("listen", "127.0.0.1:PORT or unix:/PATH.", formats::listen),
    entry<&metrics_settings::textfile>("textfile", "File for the textfile collector of node_exporter.",
                                       formats::path)};
constexpr section metrics = {"metrics", "the metrics", metrics_keys};

constexpr std::array catalog_keys = {entry<&desired_state::catalog_url>(
    "base_url", "Address of the catalog service.", formats::https_url, required)};
constexpr section catalog = {"catalog", "the catalog service", catalog_keys};

// --- Users

constexpr std::array hook_keys = {
    choice<&hook::what, hook::kind::restart, &hook::unit>("restart", "systemd unit to restart.",
                                                          formats::unit),
    choice<&hook::what, hook::kind::reload, &hook::unit>("reload", "systemd unit to reload.", formats::unit),
    choice<&hook::what, hook::kind::command, &hook::argv>(
        "command", "Command, without a shell; its program is an absolute path.", formats::argument),
    entry<&hook::timeout>("timeout", "Time limit of the hook.")};
constexpr section hook_section = {"hook", "a hook", hook_keys, 3};

constexpr const char* about_hooks = "What runs after new files are in place, in this order.";

constexpr std::array rotation_keys = {
    entry<&rotation_rule::renew_before>(
        "renew_before", "Renewed this long before expiry: a share of the lifetime or a duration."),
    entry<&rotation_rule::retire_after>(
        "retire_after", "The replaced user is deleted this long after its successor is in use.",
        formats::duration_or_none),
    entry<&rotation_rule::strategy>("strategy",
                                    "overlap: create, switch, delete; replace: delete, create, switch."),
    entry<&rotation_rule::paused>("paused", "Suspend the rotation of this user.")};
constexpr section rotation = {"rotation", "a rotation", rotation_keys};

template <auto Access>
constexpr key owner_key = entry<Access, &file_access::owner>(
    "owner", "Owner of the files. Default: the account that runs the agent.", formats::account);
template <auto Access>
constexpr key group_key = entry<Access, &file_access::group>(
    "group", "Group of the files. Default: the account that runs the agent.", formats::account);
template <auto Access>
constexpr key mode_key =
    entry<Access, &file_access::mode>("mode", "Mode of every file that holds a secret, in octal digits.");

constexpr std::array output_keys = {
    entry<&output_rule::directory>(
        "directory", "Directory that contains `current`. Default: {state_dir}/live/{exposure}/{user}.",
        formats::directory),
    entry<&output_rule::formats>("formats", "Which files are written."),
    owner_key<&output_rule::access>,
    group_key<&output_rule::access>,
    mode_key<&output_rule::access>,
    part("password", "Source of the password of the PKCS#12 file.", password)};
constexpr section output = {"output", "an output", output_keys};

constexpr std::array user_keys = {
    entry<&desired_user::name>("name", "Name of the user, unique in its exposure.", formats::name, required),
    entry<&desired_user::consumer_group>(
        "consumer_group", "Kafka consumer group. Required, here or in defaults.", formats::text),
    entry<&desired_user::contact>("contact", "E-mail address. Required, here or in defaults.",
                                  formats::email),
    entry<&desired_user::description>("description", "What the user is for.", formats::note),
    entry<&desired_user::key>("key", "Type of the private key."),
    part<&desired_user::rotation>("rotation", "When the certificate is replaced, and how.", rotation),
    part<&desired_user::output>("output", "Which files are written, where, for whom.", output),
    each<&desired_user::hooks>("hooks", about_hooks, hook_section),
    computed(entry<&desired_user::verify>("verify",
                                          "Verify a new certificate at the broker before the switch. "
                                          "Default: true if a broker is configured."))};
constexpr section user = {"user", "a user", user_keys};
constexpr section defaults = {"defaults", "the defaults of users",
                              std::span<const key>(user_keys).subspan(1)};

constexpr key defaults_key = {.name = "defaults",
                              .about = "Any key of a user except its name; the most specific value wins.",
                              .inner = &defaults};

// --- Exposures

constexpr std::array group_keys = {
    entry<&business_group::id>("id", "Id of the business group.", formats::text),
    entry<&business_group::name>("name", "Name of the business group. Default: the tenant's.",
                                 formats::text)};
constexpr section group = {"business_group", "a business group", group_keys};

constexpr std::array exposure_keys = {
    entry<&desired_exposure::name>("name", "Name of the exposure, unique in this file.", formats::name,
                                   required),
    computed(entry<&desired_exposure::variant>("variant", "What is exposed.", required)),
    entry<&desired_exposure::base_url>("base_url", "Address of the exposure service; /api/v1 is appended.",
                                       formats::api_url, required),
    entry<&desired_exposure::tenant>("tenant", "The tenant.", formats::tenant, required),
    part<&desired_exposure::group>(
        "business_group", "Default: what the instance shows, else the tenant's name and no id.", group),
    entry<&desired_exposure::create_instance>("create_instance",
                                              "Onboard the tenant when it has no instance."),
    entry<&desired_exposure::encoding>("csr_encoding",
                                       "pem: base64 of the PEM text; der: base64 of the DER."),
    entry<&desired_exposure::broker>("broker", "HOST:PORT of the broker, for `verify` and the Kafka files.",
                                     formats::brokers),
    entry<&desired_exposure::broker_ca_file>(
        "broker_ca_file", "CA of the broker (PEM), never the one that issues the users' certificates.",
        formats::path),
    entry<&desired_exposure::group_fields>(
        "group_fields",
        "Request fields of the group: businessGroupId/businessGroupName or spaceID/spaceName. "
        "auto: as the instance shows them, else the variant's own."),
    entry<&desired_exposure::topic>("topic", "Default: <prefix>-<tenant>.", formats::topic),
    defaults_key,
    layered("users", "The users, each with a certificate of its own.", user, required)};
constexpr section exposure = {"exposure", "an exposure", exposure_keys};

// --- Credentials

constexpr std::array values_keys = {
    entry<&desired_credential::file>("file", "Absolute path of the file.", formats::directory, required),
    entry<&desired_credential::format>("format", "env is quoted for sh."),
    owner_key<&desired_credential::access>, group_key<&desired_credential::access>,
    mode_key<&desired_credential::access>};
constexpr section values_output = {"credential_output", "the file of a credential", values_keys};

constexpr std::array credential_keys = {
    entry<&desired_credential::name>("name", "Name of the credential, unique in this file.", formats::name,
                                     required),
    entry<&desired_credential::resource>("resource", "Id of the catalog resource.", formats::text, required),
    entry<&desired_credential::action>("action", "Id of its day-2 action.", formats::text, required),
    entry<&desired_credential::elements>(
        "elements", "Names in the file, each with the id of the form's element.", formats::text, required),
    entry<&desired_credential::interval>("interval", "How often the values are fetched."),
    part("output", "The file that holds the values.", values_output, required),
    each<&desired_credential::hooks>("hooks", about_hooks, hook_section)};
constexpr section credential = {"credential", "a credential", credential_keys};

// --- The whole file

constexpr key version_key = {
    .name = "version", .about = "Version of this format.", .value = &formats::version, .fallback = [] {
        return json(1);
    }};

constexpr std::array root_keys = {
    version_key,
    entry<&desired_state::owner>("owner",
                                 "Marks the users that this agent created. Default: the short host name, "
                                 "stored at the first start.",
                                 formats::owner),
    entry<&desired_state::state_dir>("state_dir",
                                     "Where the agent keeps its state. Default: $STATE_DIRECTORY, "
                                     "else /var/lib/exposure-agent.",
                                     formats::directory),
    part<&desired_state::identity>("identity", "How the agent logs in.", identity, required),
    part<&desired_state::network>("network", "How the platform is reached.", network),
    part<&desired_state::reconcile>("reconcile", "How often the agent acts, and its limits.", reconcile),
    part<&desired_state::notify>("notify", "Notifications when a person is needed.", notify),
    part<&desired_state::metrics>("metrics", "Metrics and health.", metrics),
    part("catalog", "The catalog service; needed for credentials.", catalog),
    defaults_key,
    layered("exposures",
            "The exposures. May be omitted if there are credentials, or if the host only publishes tokens.",
            exposure),
    each<&desired_state::credentials>("credentials", "Values of day-2 actions, stored on disk.", credential)};
constexpr section root = {"configuration", "the configuration of exposure-agent", root_keys};

}  // namespace

const section& root_section()
{
    return root;
}

const section& exposure_section()
{
    return exposure;
}

const section& user_section()
{
    return user;
}

}  // namespace config
