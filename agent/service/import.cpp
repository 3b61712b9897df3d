#include "agent/service/import.hpp"

#include "agent/disk/files.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "agent/reconcile/execute.hpp"
#include "agent/reconcile/observe.hpp"
#include "crypto/certificate.hpp"
#include "crypto/digest.hpp"
#include "crypto/key.hpp"
#include "policy/dates.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

namespace service {
namespace {

constexpr std::size_t most_reads = 500;  // of users that are not named like the certificate
constexpr std::size_t parallel_reads = 8;
constexpr std::size_t file_bytes = 1 << 20;

policy::failure refuse(const policy::user_name& name, std::string why)
{
    return {.code = policy::errc::refused,
            .context = name.text() + ": " + std::move(why),
            .kind = policy::retry::never};
}

struct pair {
    std::string fingerprint;  // of the public key
    policy::key_type type = policy::key_type::rsa_3072;
    crypto::secret key_pem;  // PKCS#8
    crypto::certificate_chain chain;
};

policy::result<pair> read_pair(const policy::user_name& name, const verb::import& asked, policy::instant now)
{
    auto key = crypto::private_key::from_pem(asked.key.view());
    if (!key) return policy::with_context(name.text(), key.error());
    auto read = crypto::read_chain(asked.certificate);
    if (!read) return policy::with_context(name.text(), read.error());
    auto chain = crypto::order_chain(std::move(*read), key->fingerprint());
    if (!chain)
        return refuse(name, "the certificate does not match this private key; specify a matching pair");
    switch (crypto::judge(chain->leaf, key->fingerprint(), now)) {
        case crypto::verdict::expired:
            return refuse(name,
                          "the certificate expired at " + policy::format_utc(chain->leaf.facts.not_after) +
                              "; remove the old files and let the agent issue a new one: exposure-agent "
                              "reconcile " +
                              name.text());
        case crypto::verdict::not_yet_valid:
            return refuse(name, "the certificate is not valid before " +
                                    policy::format_utc(chain->leaf.facts.not_before));
        case crypto::verdict::wrong_usage:
            return refuse(name, "the certificate is not a client certificate (extended key usage)");
        case crypto::verdict::wrong_key:
            return refuse(name, "the certificate does not match this private key");
        case crypto::verdict::usable:
            break;
    }
    auto pem = key->to_pem();
    if (!pem) return pem.error();
    return pair{key->fingerprint(), key->type(), std::move(*pem), std::move(*chain)};
}

bool shows(const platform::user_detail& detail, const crypto::certificate& leaf)
{
    const auto chain = crypto::read_chain(detail.certificate);
    return chain && std::ranges::any_of(*chain, [&](const crypto::certificate& c) {
               return c.facts.sha256 == leaf.facts.sha256;
           });
}

// The users that have this certificate. Reads each of them: the list does not show certificates.
io::task<std::vector<policy::remote_user>> with_certificate(platform::exposure_api& api,
                                                            platform::exposure_address address,
                                                            std::string instance,
                                                            std::vector<policy::remote_user> users,
                                                            crypto::certificate leaf)
{
    std::vector<policy::remote_user> found;
    std::optional<policy::failure> failed;
    co_await io::for_each_parallel(parallel_reads, users.size(), [&](std::size_t i) -> io::awaitable<void> {
        if (failed) co_return;
        const auto detail = co_await api.read_user(address, instance, users[i].id);
        if (detail && shows(*detail, leaf)) found.push_back(detail->user);
        if (!detail && detail.error().code != policy::errc::not_found) failed = detail.error();
    });
    if (failed) co_return *failed;
    co_return found;
}

io::task<policy::remote_user> user_with_id(application& app, policy::user_name name,
                                           platform::exposure_address address, std::string instance,
                                           std::string id, crypto::certificate leaf)
{
    const auto detail = co_await app.api().read_user(address, instance, id);
    if (!detail && detail.error().code == policy::errc::not_found)
        co_return refuse(name,
                         "the platform has no user " + id + "; run: exposure-agent users " + name.exposure);
    if (!detail) co_return detail.error();
    if (!detail->certificate.empty() && !shows(*detail, leaf))
        co_return refuse(name, "user " + id + " has another certificate on the platform");
    co_return detail->user;
}

io::task<policy::remote_user> find_user(application& app, policy::user_name name,
                                        platform::exposure_address address, std::string instance,
                                        std::string remote_id, crypto::certificate leaf)
{
    if (!remote_id.empty()) co_return co_await user_with_id(app, name, address, instance, remote_id, leaf);
    std::vector<policy::remote_user> named;
    std::vector<policy::remote_user> others;
    std::size_t count = 0;
    platform::exposure_api::user_handler keep = [&](policy::remote_user user) {
        ++count;
        if (user.name == leaf.facts.subject_cn)
            named.push_back(std::move(user));
        else if (others.size() <= most_reads)
            others.push_back(std::move(user));
    };
    const auto listed = co_await app.api().list_users(address, instance, std::move(keep));
    if (!listed) co_return listed.error();
    auto found = co_await with_certificate(app.api(), address, instance, std::move(named), leaf);
    if (!found) co_return found.error();
    if (found->empty() && others.size() <= most_reads)
        found = co_await with_certificate(app.api(), address, instance, std::move(others), leaf);
    if (!found) co_return found.error();
    if (found->size() == 1) co_return found->front();
    if (found->empty())
        co_return refuse(name,
                         "no user on the platform has this certificate" +
                             std::string(others.size() > most_reads
                                             ? " and its name; specify the user with --remote-id ID"
                                             : "; was it deleted, or does it belong to another exposure?"));
    std::string ids;
    for (const auto& user : *found)
        ids += (ids.empty() ? "" : ", ") + user.id;
    co_return refuse(name, policy::count(found->size(), "user") + " on the platform have this certificate (" +
                               ids + "); choose one with --remote-id ID");
}

policy::result<void> may_be_imported(const policy::user_name& name, const policy::remote_user& user,
                                     const policy::stored_state& stored)
{
    if (user.mark && user.mark->owner != stored.owner)
        return refuse(name, "user " + user.id + " belongs to exposure-agent of owner " + user.mark->owner);
    if (user.mark && user.mark->name != name)
        return refuse(name, "user " + user.id + " belongs to " + user.mark->name.text() + " on this host");
    if (user.status != policy::remote_status::ready)
        return refuse(name, "user " + user.id + " is " + user.status_text + ", not READY");
    for (const auto& [other, record] : stored.users)
        for (const auto& g : record.generations)
            if (g.remote_id == user.id && !g.missing_since)
                return refuse(name, "user " + user.id + " is already managed as " + other.text());
    return {};
}

policy::generation generation_of(const policy::desired_exposure& exposure, const std::string& instance,
                                 const pair& p, const policy::remote_user& user, bool retire,
                                 policy::instant now)
{
    const auto& leaf = p.chain.leaf.facts;
    return {.id = policy::generation_id(p.fingerprint),
            .fingerprint = p.fingerprint,
            .where = {.base_url = exposure.base_url,
                      .variant = exposure.variant,
                      .tenant = exposure.tenant,
                      .instance_id = instance},
            .sent = {.common_name = user.name,
                     .description = user.description,
                     .contact = user.contact,
                     .consumer_group = user.consumer_group,
                     .key = p.type,
                     .encoding = exposure.encoding},
            .created_at = now,
            .submitted_at = now,
            .answered = true,
            .remote_id = user.id,
            .accepted_at = now,
            .certificate = policy::certificate_facts{.serial = leaf.serial_hex,
                                                     .fingerprint = leaf.sha256,
                                                     .not_before = leaf.not_before,
                                                     .not_after = leaf.not_after,
                                                     .expiration_date = user.expiration_date},
            .collected_at = now,
            .verified = policy::verification::local,
            .verified_at = now,
            .imported = !user.mark,
            .kept = !user.mark && !retire};
}

// What the first rotation will change.
void add_difference(std::vector<std::string>& said, const policy::user_name& name, const char* what,
                    const std::string& is, const std::string& will)
{
    if (is == will) return;
    const auto shown = [](const std::string& text) {
        return text.empty() ? std::string("none") : "'" + text + "'";
    };
    said.push_back(name.text() + ": " + what + " stays " + shown(is) + " until the first rotation, then " +
                   shown(will));
}

std::vector<std::string> report(const policy::user_name& name, const policy::desired_user& want,
                                const policy::generation& g)
{
    std::vector<std::string> said = {name.text() + ": imported user " + g.remote_id +
                                     ", certificate valid until " +
                                     policy::format_utc(g.certificate->expiry())};
    add_difference(said, name, "consumer group", g.sent.consumer_group, want.consumer_group);
    add_difference(said, name, "contact", g.sent.contact, want.contact);
    if (g.imported) add_difference(said, name, "description", g.sent.description, want.description);
    add_difference(said, name, "key type", policy::word_of(g.sent.key), policy::word_of(want.key));
    if (g.kept)
        said.push_back(name.text() + ": user " + g.remote_id +
                       " will not be deleted after its rotation; to delete it, use --retire");
    return said;
}

// SHA-256 digests of the files in `current`, by name. Blocks: run it on the pool.
std::map<std::string, std::string> files_in(const std::string& directory)
{
    std::map<std::string, std::string> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(std::filesystem::path(directory) / "current", error), end;
         !error && entry != end; entry.increment(error)) {
        const auto text = disk::read_file(entry->path(), file_bytes);
        if (text && *text) found[entry->path().filename().string()] = crypto::sha256_hex(**text);
    }
    return found;
}

}  // namespace

io::task<std::vector<std::string>> import_pair(application& app, const reconcile::state::hold& held,
                                               verb::import asked)
{
    const auto name = *asked.names.begin();
    const auto from = asked.from();
    auto& state = app.state();
    const auto* configured = state.wanted(name);
    if (!configured)
        co_return policy::failure{
            .code = policy::errc::usage,
            .context =
                name.text() + " is not in the configuration; add it first, with its current consumer group",
            .kind = policy::retry::never};
    const auto want = *configured;
    const auto exposure = *state.exposure(name.exposure);
    if (const auto known = state.stored().users.find(name);
        known != state.stored().users.end() && !known->second.current.empty())
        co_return refuse(
            name, "it already has a certificate; for a new one, run: exposure-agent rotate " + name.text());
    auto read = co_await io::offload(app.pool(), [&] { return read_pair(name, asked, app.clock().now()); });
    if (!read) co_return read.error();

    const auto address = reconcile::address_of(exposure);
    const auto instances = co_await app.api().list_instances(address);
    if (!instances) co_return instances.error();
    if (instances->size() != 1)
        co_return refuse(
            name, "the tenant " + exposure.tenant + " has no service instance at " + exposure.base_url);
    const auto instance = instances->front().id;
    const auto user = co_await find_user(app, name, address, instance, asked.remote_id, read->chain.leaf);
    if (!user) co_return user.error();
    if (auto allowed = may_be_imported(name, *user, state.stored()); !allowed) co_return allowed.error();

    const auto g = generation_of(exposure, instance, *read, *user, asked.retire, app.clock().now());
    std::string fullchain = read->chain.leaf.pem();
    for (const auto& issuer : read->chain.rest)
        fullchain += issuer.pem();
    disk::change with;
    with.keys.push_back({name, g.id, std::move(read->key_pem), std::string()});
    with.certificates.push_back({name, g.id, std::move(fullchain)});
    policy::user_event imported = policy::event::imported{g};
    if (auto saved = co_await state.record(held, name, std::move(imported), from, std::move(with)); !saved)
        co_return saved.error();
    io::log(io::severity::info, io::events::imported, {name.exposure, name.user, g.id},
            name.text() + ": user " + g.remote_id + " was imported");

    const auto directory = want.output.directory;
    const auto before = co_await io::offload(app.outputs(), [&] { return files_in(directory); });
    reconcile::executor executor(state, held, from);
    policy::action publish{.kind = policy::action_kind::publish,
                           .name = name,
                           .why = policy::reason::not_published,
                           .sentence = "it was imported",
                           .generation = g.id};
    if (auto published = co_await executor.perform(std::move(publish)); !published)
        co_return published.error();
    const auto after = co_await io::offload(app.outputs(), [&] { return files_in(directory); });
    const bool same = !after.empty() && std::ranges::all_of(after, [&](const auto& file) {
        const auto was = before.find(file.first);
        return was != before.end() && was->second == file.second;
    });
    if (same) {
        policy::user_event served = policy::event::deployed{g.id, false};
        if (auto saved = co_await state.record(held, name, std::move(served), from); !saved)
            co_return saved.error();
    }
    co_return report(name, want, g);
}

}  // namespace service
