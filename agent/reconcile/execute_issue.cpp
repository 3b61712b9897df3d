#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/log.hpp"
#include "agent/io/log_events.hpp"
#include "agent/reconcile/execute.hpp"
#include "agent/reconcile/look.hpp"
#include "crypto/certificate.hpp"
#include "crypto/csr.hpp"
#include "crypto/digest.hpp"
#include "crypto/key.hpp"
#include "policy/dates.hpp"
#include "policy/limits.hpp"

#include <algorithm>

namespace reconcile {
namespace {

struct fresh_key {
    std::string fingerprint;
    crypto::secret pem;
    std::string csr_pem;
    std::string common_name;
};

// Blocks for as long as a key takes: for the pool.
policy::result<fresh_key> make_key(const policy::desired_exposure& exposure, const policy::desired_user& user)
{
    auto key = crypto::private_key::generate(user.key);
    if (!key) return key.error();
    auto pem = key->to_pem();
    if (!pem) return pem.error();
    const auto name = policy::common_name(exposure.variant, exposure.tenant, user.name,
                                          policy::generation_id(key->fingerprint()));
    auto csr = crypto::make_csr(*key, name);
    if (!csr) return csr.error();
    return fresh_key{
        .fingerprint = key->fingerprint(), .pem = std::move(*pem), .csr_pem = csr->pem, .common_name = name};
}

policy::generation describe_generation(const fresh_key& key, const policy::desired_exposure& exposure,
                                       const policy::desired_user& user, const std::string& instance,
                                       const std::string& owner, policy::instant now)
{
    const policy::marker mark{
        .owner = owner, .name = {exposure.name, user.name}, .key = policy::marker_key(key.fingerprint)};
    return {.id = policy::generation_id(key.fingerprint),
            .fingerprint = key.fingerprint,
            .where = {exposure.base_url, exposure.variant, exposure.tenant, instance},
            .sent = {.common_name = key.common_name,
                     .description = policy::describe(user.description, mark),
                     .contact = user.contact,
                     .consumer_group = user.consumer_group,
                     .key = user.key,
                     .encoding = exposure.encoding},
            .created_at = now};
}

// Base64 of the PEM text or of the DER, as the configuration says (platform-api 2.4 leaves it open).
policy::result<std::string> encode_csr(const std::string& pem, policy::csr_encoding encoding)
{
    if (encoding == policy::csr_encoding::pem) return crypto::base64(pem);
    const auto first = pem.find('\n') + 1;
    const auto last = pem.find("-----END");
    const auto der =
        last == std::string::npos ? std::nullopt : crypto::base64_decode(pem.substr(first, last - first));
    if (!der)
        return policy::failure{.code = policy::errc::disk,
                               .context = "the stored signing request is damaged"};
    return crypto::base64(*der);
}

// True when this answer says that nothing was created. What the list shows is looked at first all the same.
bool refused_for_certain(policy::errc code)
{
    using policy::errc;
    return code == errc::refused || code == errc::forbidden || code == errc::not_found ||
           code == errc::throttled || code == errc::unauthorized || code == errc::login_required ||
           code == errc::client_refused || code == errc::token_source;
}

policy::certificate_facts facts_of(const crypto::certificate_facts& c, const policy::remote_user& user)
{
    return {.serial = c.serial_hex,
            .fingerprint = c.sha256,
            .not_before = c.not_before,
            .not_after = c.not_after,
            .expiration_date = user.expiration_date};
}

std::string quarantine_of(crypto::verdict verdict)
{
    switch (verdict) {
        case crypto::verdict::wrong_key:
            return "its public key is not ours";
        case crypto::verdict::expired:
            return "it has expired already";
        case crypto::verdict::wrong_usage:
            return "its extended key usage does not allow clientAuth";
        case crypto::verdict::usable:
        case crypto::verdict::not_yet_valid:
            return "";
    }
    return "";
}

void warn_about_dates(const policy::user_name& name, const policy::certificate_facts& c, bool unreadable)
{
    constexpr auto tolerated = std::chrono::hours(24);
    if (unreadable)
        io::log(io::severity::warning, io::events::issued, {name.exposure, name.user},
                "the platform's expirationDate is in no known format: notAfter of the certificate counts");
    if (c.expiration_date && std::chrono::abs(*c.expiration_date - c.not_after) > tolerated)
        io::log(io::severity::warning, io::events::issued, {name.exposure, name.user},
                "expirationDate " + policy::format_utc(*c.expiration_date) + " and notAfter " +
                    policy::format_utc(c.not_after) + " differ: the earlier counts");
}

}  // namespace

io::task<void> executor::issue(const policy::action& a)
{
    const auto exposure = *world_.exposure(a.name.exposure);
    const auto want = *world_.wanted(a.name);
    auto key = co_await io::offload(pool(), [&] { return make_key(exposure, want); });
    if (!key) co_return key.error();

    const auto instance = world_.exposure_record(exposure).where.instance_id;
    auto fresh = describe_generation(*key, exposure, want, instance, world_.stored().owner, now());
    auto& user = world_.user(a.name);
    user.generations.push_back(fresh);
    std::erase_if(user.creations,
                  [&](policy::instant at) { return now() - at >= policy::limits::creation_window; });
    user.creations.push_back(now());
    // --retire-now is about the certificate that was asked for, not about the next one that is due
    user.retire_now = user.retire_now && user.rotate_asked_at;
    user.rotate_asked_at.reset();
    user.held.clear();
    user.blocked.reset();
    user.deploy_reason = policy::word_of(a.why);
    disk::change what;
    what.keys.push_back({a.name, fresh.id, std::move(key->pem), key->csr_pem});
    if (auto saved = co_await world_.save(a.name, std::move(what)); !saved) {
        std::erase_if(world_.user(a.name).generations,
                      [&](const policy::generation& g) { return g.id == fresh.id; });
        co_return saved.error();
    }
    io::crash_point("issue.recorded");
    co_return co_await submit(a.name, fresh.id);
}

// Intent on disk, then the POST. Whatever comes back, the same key, CSR and description are sent again or
// found again.
io::task<void> executor::submit(const policy::user_name& name, const std::string& id)
{
    const auto exposure = *world_.exposure(name.exposure);
    auto csr = co_await io::offload(pool(), [&] { return world_.outside().store.read_csr(name, id); });
    if (!csr) co_return csr.error();
    auto body = encode_csr(*csr, world_.user(name).find(id)->sent.encoding);
    if (!body) co_return body.error();

    const auto before = *world_.user(name).find(id);
    auto* g = world_.user(name).find(id);
    g->submitted_at = now();
    g->answered = false;
    g->where.instance_id = world_.exposure_record(exposure).where.instance_id;
    if (auto saved = co_await world_.save(name); !saved) {
        *world_.user(name).find(id) = before;
        co_return saved.error();
    }
    io::crash_point("submit.intent-kept");

    const auto sent = *world_.user(name).find(id);
    const auto created = co_await world_.outside().api.create_user(
        address_of(exposure), sent.where.instance_id, sent.sent, group_for(exposure), *body);
    io::crash_point("submit.answered");
    g = world_.user(name).find(id);
    g->submitted_at = now();  // the settle time counts from here: the answer may have taken long
    if (created && !created->id.empty()) {
        g->remote_id = created->id;
        g->accepted_at = now();
        g->answered = true;
        world_.user(name).failure.reset();
    } else if (!created && policy::never_sent(created.error())) {
        g->submitted_at = before.submitted_at;
        g->answered = before.answered;
    } else if (!created) {
        g->answered = refused_for_certain(created.error().code);
    }
    if (auto saved = co_await world_.save(name); !saved) co_return saved.error();
    if (!created) co_return created.error();
    co_return co_await remember_fields(name.exposure, created->fields);
}

io::task<void> executor::adopt(const policy::action& a)
{
    auto& g = generation(a);
    g.remote_id = a.remote_id;
    g.accepted_at = now();
    world_.user(a.name).failure.reset();
    io::log(io::severity::info, io::events::adopted, {a.name.exposure, a.name.user, a.generation},
            a.sentence);
    co_return co_await world_.save(a.name);
}

io::task<void> executor::collect(const policy::action& a)
{
    const auto g = generation(a);
    auto detail = co_await world_.outside().api.read_user(address_of(a.name.exposure, g.where),
                                                          g.where.instance_id, g.remote_id);
    if (!detail) co_return detail.error();
    if (detail->certificate.empty())
        co_return policy::failure{.code = policy::errc::bad_answer,
                                  .context = a.name.text() + ": the platform says " +
                                             detail->user.status_text +
                                             " but shows no certificate yet; it is asked again"};
    auto read = crypto::read_chain(detail->certificate);
    if (!read) co_return policy::with_context(a.name.text(), read.error());
    auto chain = crypto::order_chain(std::move(*read), g.fingerprint);
    const auto verdict =
        chain ? crypto::judge(chain->leaf, g.fingerprint, now()) : crypto::verdict::wrong_key;
    if (const auto why = quarantine_of(verdict); !why.empty()) {
        generation(a).quarantine = why;
        auto saved = co_await world_.save(a.name);
        if (!saved) co_return saved;
        co_return policy::failure{.code = policy::errc::unusable_certificate,
                                  .context = a.name.text() + ": the certificate of user " + g.remote_id +
                                             " is never used: " + why +
                                             "; look at it on the platform, then say `rotate`",
                                  .kind = policy::retry::never};
    }

    std::string pem = chain->leaf.pem();
    for (const auto& issuer : chain->rest)
        pem += issuer.pem();
    disk::change what;
    what.certificates.push_back({a.name, g.id, std::move(pem)});
    auto& record = generation(a);
    record.certificate = facts_of(chain->leaf.facts, detail->user);
    record.collected_at = now();
    record.proven = policy::proof::local;
    warn_about_dates(a.name, *record.certificate, detail->user.expiration_unreadable);
    world_.user(a.name).failure.reset();
    io::log(io::severity::info, io::events::issued, {a.name.exposure, a.name.user, g.id},
            a.name.text() + ": certificate " + record.certificate->serial + " issued, valid until " +
                policy::format_utc(record.certificate->expiry()));
    co_return co_await world_.save(a.name, std::move(what));
}

}  // namespace reconcile
