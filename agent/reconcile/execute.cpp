#include "agent/reconcile/execute.hpp"

#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/log.hpp"
#include "agent/reconcile/observe.hpp"
#include "crypto/certificate.hpp"
#include "crypto/digest.hpp"
#include "crypto/key.hpp"
#include "policy/dates.hpp"
#include "policy/facts.hpp"
#include "policy/limits.hpp"

#include <algorithm>

namespace reconcile {
namespace {

struct fresh_key {
    std::string fingerprint;
    crypto::secret pem;
    std::string csr_pem;
};

// Blocks while it generates the key: run it on the pool.
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
    return fresh_key{.fingerprint = key->fingerprint(), .pem = std::move(*pem), .csr_pem = csr->pem};
}

// Base64 of the PEM text or of the DER, as configured (platform-api 2.4 leaves it open).
policy::result<std::string> encode_csr(const std::string& pem, policy::csr_encoding encoding)
{
    if (encoding == policy::csr_encoding::pem) return crypto::base64(pem);
    const auto first = pem.find('\n') + 1;
    const auto last = pem.find("-----END");
    const auto der =
        last == std::string::npos ? std::nullopt : crypto::base64_decode(pem.substr(first, last - first));
    if (!der)
        return policy::failure{.code = policy::errc::disk,
                               .context = "the stored certificate signing request is corrupt"};
    return crypto::base64(*der);
}

// True when this answer means that nothing was created. The list is still checked first.
bool refused_for_certain(policy::errc code)
{
    using policy::errc;
    return code == errc::refused || code == errc::forbidden || code == errc::not_found ||
           code == errc::throttled || code == errc::unauthorized || code == errc::login_required ||
           code == errc::client_refused || code == errc::token_source;
}

// The event for the answer to a POST, or for the lack of one.
policy::user_event answer_to(const policy::generation& before,
                             const policy::result<platform::created>& created)
{
    if (created && !created->id.empty()) return policy::event::accepted{before.id, created->id};
    if (created) return policy::event::unanswered{before.id};
    const auto failed = created.error();
    if (policy::never_sent(failed))
        return policy::event::not_sent{before.id, before.submitted_at, before.answered};
    if (refused_for_certain(failed.code)) return policy::event::refused{before.id, failed.context};
    return policy::event::unanswered{before.id};
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
            return "its public key does not match our private key";
        case crypto::verdict::expired:
            return "it has already expired";
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
                "the platform's expirationDate has an unknown format; using the certificate's notAfter");
    if (c.expiration_date && std::chrono::abs(*c.expiration_date - c.not_after) > tolerated)
        io::log(io::severity::warning, io::events::issued, {name.exposure, name.user},
                "expirationDate " + policy::format_utc(*c.expiration_date) + " and notAfter " +
                    policy::format_utc(c.not_after) + " differ; using the earlier one");
}

// The plan predates the decommissioning. errc::stopping: not recorded as a failure.
policy::failure leaves(const policy::action& a)
{
    return {.code = policy::errc::stopping,
            .context = a.name.text() +
                       ": not created, this host is being decommissioned. To stop that, run: exposure-agent "
                       "decommission --undo",
            .kind = policy::retry::later};
}

}  // namespace

// Sends nothing to the platform unless the disk has room to store the answer.
io::task<void> executor::perform(policy::action a)
{
    using policy::action_kind;
    if (policy::changes_platform(a.kind)) {
        auto room = co_await state_.outside().store.make_room();
        const auto whose = a.name.user.empty() ? a.name.exposure : a.name.text();
        if (!room) co_return policy::with_context(whose + ": nothing was sent", room.error());
    }
    const bool creates =
        a.kind == action_kind::onboard || a.kind == action_kind::issue || a.kind == action_kind::submit;
    if (creates && state_.stored().leaving) co_return leaves(a);
    switch (a.kind) {
        case action_kind::onboard:
            co_return co_await onboard(a);
        case action_kind::remember_instance:
            co_return co_await remember_instance(a);
        case action_kind::forget_instance:
            co_return co_await forget_instance(a);
        case action_kind::issue:
            co_return co_await issue(a);
        case action_kind::submit:
            co_return co_await submit(a);
        case action_kind::adopt:
            co_return co_await adopt(a);
        case action_kind::disown:
            co_return co_await disown(a, a.remote_id, a.sentence);
        case action_kind::collect:
            co_return co_await collect(a);
        case action_kind::verify:
            co_return co_await verify(a);
        case action_kind::publish:
            co_return co_await publish(a);
        case action_kind::deploy:
            break;
        case action_kind::delete_before_replace:
            co_return co_await delete_before_replace(a);
        case action_kind::retire:
        case action_kind::retire_surplus:
            co_return co_await retire(a);
        case action_kind::remove:
            co_return co_await remove(a);
        case action_kind::forget:
            co_return co_await forget(a);
        case action_kind::discard:
        case action_kind::abandon:
        case action_kind::mark_missing:
        case action_kind::mark_unwanted:
        case action_kind::mark_wanted:
            co_return co_await note(a);
    }
    co_return policy::failure{.code = policy::errc::internal, .context = "not an action of the executor"};
}

// Actions that only record a fact that the observation found, and when.
io::task<void> executor::note(const policy::action& a)
{
    using policy::action_kind;
    policy::user_event what = policy::event::wanted_again{};
    if (a.kind == action_kind::abandon) what = policy::event::abandoned{a.generation, a.sentence};
    if (a.kind == action_kind::mark_missing) what = policy::event::missing{a.generation, a.sentence};
    if (a.kind == action_kind::mark_unwanted) what = policy::event::unwanted{};
    if (a.kind == action_kind::discard) what = policy::event::discarded{a.generation};
    io::log(io::severity::info, io::events::noted, {a.name.exposure, a.name.user, a.generation}, a.sentence);
    auto saved = co_await record(a, std::move(what));
    // what the platform failed to do backs off like any other failure
    if (saved && a.why == policy::reason::issue_failed)
        co_return policy::failure{.code = policy::errc::unavailable,
                                  .context = a.name.text() + ": " + a.sentence};
    co_return saved;
}

policy::result<policy::generation> executor::generation(const policy::action& a)
{
    const auto user = state_.stored().users.find(a.name);
    const auto* known = user == state_.stored().users.end() ? nullptr : user->second.find(a.generation);
    if (known) return *known;
    return policy::failure{.code = policy::errc::internal,
                           .context = a.name.text() + ": generation " + a.generation + " no longer exists"};
}

platform::group_choice executor::group_for(const policy::desired_exposure& exposure)
{
    const auto& observed = state_.observed().exposures;
    const auto seen = observed.find(exposure.name);
    const auto* instance =
        seen != observed.end() && !seen->second.instances.empty() ? &seen->second.instances.front() : nullptr;
    platform::group_choice choice{.group = {.id = "", .name = exposure.tenant},
                                  .fields = exposure.group_fields};
    if (exposure.group)
        choice.group = *exposure.group;
    else if (instance && instance->group)
        choice.group = *instance->group;
    if (choice.fields == policy::group_fields::auto_ && instance) choice.fields = instance->fields;
    choice.fixed = choice.fields != policy::group_fields::auto_;
    if (!choice.fixed)  // what the last POST was accepted with; another may need the other names
        choice.fields = state_.exposure_record(held_, exposure).group_fields;
    return choice;
}

// From now on, the field names that the platform accepted are tried first.
io::task<void> executor::remember_fields(const policy::desired_exposure& exposure,
                                         policy::group_fields fields)
{
    if (state_.exposure_record(held_, exposure).group_fields == fields) co_return policy::result<void>();
    policy::exposure_event accepted = policy::event::group_fields_accepted{fields};
    co_return co_await state_.record(held_, exposure, std::move(accepted));
}

// ---- exposures

// At most one instance per tenant: the platform decides about a second request, and a list shows which won.
io::task<void> executor::onboard(const policy::action& a)
{
    const auto exposure = *state_.exposure(a.name.exposure);
    policy::exposure_event intent = policy::event::onboarding{};
    if (auto saved = co_await state_.record(held_, exposure, std::move(intent)); !saved)
        co_return saved.error();

    const auto created =
        co_await state_.outside().api.create_instance(address_of(exposure), group_for(exposure));
    if (created) {
        io::log(io::severity::info, io::events::onboarded, {exposure.name},
                "tenant " + exposure.tenant + " onboarded");
        co_return co_await remember_fields(exposure, created->fields);
    }
    if (policy::never_sent(created.error())) {
        policy::exposure_event never = policy::event::onboarding_not_sent{};
        if (auto saved = co_await state_.record(held_, exposure, std::move(never)); !saved)
            co_return saved.error();
    }
    co_return created.error();
}

io::task<void> executor::remember_instance(const policy::action& a)
{
    policy::exposure_event found = policy::event::instance_found{a.remote_id};
    co_return co_await state_.record(held_, *state_.exposure(a.name.exposure), std::move(found));
}

// --accept-loss: the users of the vanished instance are lost with it. Records the users first: if killed in
// between, the instance is still known and the loss has to be accepted again.
io::task<void> executor::forget_instance(const policy::action& a)
{
    std::map<policy::user_name, std::vector<policy::user_event>> lost;
    for (const auto& [name, user] : state_.stored().users)
        for (const auto& g : user.generations)
            if (name.exposure == a.name.exposure && g.where.instance_id == a.remote_id && !g.missing_since)
                lost[name].push_back(policy::event::missing{g.id, a.sentence});
    for (auto& [name, events] : lost)
        if (auto saved = co_await state_.record(held_, name, std::move(events), origin_); !saved)
            co_return saved.error();
    policy::exposure_event forgotten = policy::event::instance_forgotten{};
    co_return co_await state_.record(held_, *state_.exposure(a.name.exposure), std::move(forgotten));
}

// ---- issuing a generation

io::task<void> executor::issue(const policy::action& a)
{
    const auto exposure = *state_.exposure(a.name.exposure);
    const auto want = *state_.wanted(a.name);
    auto key = co_await io::offload(pool(), [&] { return make_key(exposure, want); });
    if (!key) co_return key.error();
    if (state_.stored().leaving) co_return leaves(a);

    const auto instance = state_.exposure_record(held_, exposure).where.instance_id;
    auto fresh =
        policy::describe_generation(key->fingerprint, exposure, want, instance, state_.stored().owner, now());
    disk::change with;
    with.keys.push_back({a.name, fresh.id, std::move(key->pem), key->csr_pem});
    policy::user_event created = policy::event::created{fresh, a.why};
    if (auto saved = co_await record(a, std::move(created), std::move(with)); !saved) co_return saved.error();
    io::crash_point("issue.recorded");
    auto first = a;
    first.generation = fresh.id;
    co_return co_await submit(first);
}

// Stores the intent, then sends the POST. Whatever the answer, a retry sends or finds the same key, CSR and
// description.
io::task<void> executor::submit(const policy::action& a)
{
    const auto exposure = *state_.exposure(a.name.exposure);
    const auto found = generation(a);
    if (!found) co_return found.error();
    const auto before = *found;
    auto csr =
        co_await io::offload(pool(), [&] { return state_.outside().store.read_csr(a.name, before.id); });
    if (!csr) co_return csr.error();
    auto body = encode_csr(*csr, before.sent.encoding);
    if (!body) co_return body.error();

    policy::user_event intent = policy::event::submitting{
        .generation = before.id, .instance_id = state_.exposure_record(held_, exposure).where.instance_id};
    if (auto saved = co_await record(a, std::move(intent)); !saved) co_return saved.error();
    io::crash_point("submit.intent-kept");

    const auto recorded = generation(a);
    if (!recorded) co_return recorded.error();
    const auto sent = *recorded;
    const auto created = co_await state_.outside().api.create_user(
        address_of(exposure), sent.where.instance_id, sent.sent, group_for(exposure), *body);
    io::crash_point("submit.answered");
    auto answered = answer_to(before, created);
    if (auto saved = co_await record(a, std::move(answered)); !saved) co_return saved.error();
    if (!created) co_return created.error();
    co_return co_await remember_fields(exposure, created->fields);
}

io::task<void> executor::adopt(const policy::action& a)
{
    io::log(io::severity::info, io::events::adopted, {a.name.exposure, a.name.user, a.generation},
            a.sentence);
    policy::user_event adopted = policy::event::adopted{a.generation, a.remote_id};
    co_return co_await record(a, std::move(adopted));
}

// The id stored for this generation belongs to another user. Still a failure: the platform's answer was
// wrong, and the next attempt has to back off.
io::task<void> executor::disown(policy::action a, std::string id, std::string why)
{
    policy::user_event misnamed = policy::event::misnamed{a.generation, id};
    if (auto saved = co_await record(a, std::move(misnamed)); !saved) co_return saved;
    co_return policy::failure{.code = policy::errc::bad_answer, .context = a.name.text() + ": " + why};
}

// A certificate with another key means another user, or a wrong certificate issued for ours: tells which.
bool executor::is_another_user(const policy::user_name& name, const policy::generation& g,
                               const policy::remote_user& user) const
{
    return !policy::carries_marker(user, state_.stored().owner, name, g) ||
           std::ranges::any_of(users_with_key(name, g),
                               [&](const policy::remote_user& other) { return other.id != user.id; });
}

io::task<void> executor::collect(const policy::action& a)
{
    const auto found = generation(a);
    if (!found) co_return found.error();
    const auto g = *found;
    auto detail = co_await state_.outside().api.read_user(address_of(a.name.exposure, g.where),
                                                          g.where.instance_id, g.remote_id);
    if (!detail) co_return detail.error();
    if (detail->certificate.empty())
        co_return policy::failure{.code = policy::errc::bad_answer,
                                  .context = a.name.text() + ": the platform reports " +
                                             detail->user.status_text +
                                             " but returns no certificate yet; retrying"};
    auto read = crypto::read_chain(detail->certificate);
    if (!read) co_return policy::with_context(a.name.text(), read.error());
    auto chain = crypto::order_chain(std::move(*read), g.fingerprint);
    const auto verdict =
        chain ? crypto::judge(chain->leaf, g.fingerprint, now()) : crypto::verdict::wrong_key;
    if (verdict == crypto::verdict::wrong_key && is_another_user(a.name, g, detail->user))
        co_return co_await disown(
            a, g.remote_id,
            "user " + g.remote_id +
                ", returned by the platform, has a different key and is not ours; left unchanged");
    if (const auto why = quarantine_of(verdict); !why.empty()) {
        policy::user_event quarantined = policy::event::quarantined{g.id, why};
        if (auto saved = co_await record(a, std::move(quarantined)); !saved) co_return saved;
        co_return policy::failure{
            .code = policy::errc::unusable_certificate,
            .context = a.name.text() + ": cannot use the certificate of user " + g.remote_id + ": " + why +
                       "; check that user on the platform, then run: exposure-agent rotate " + a.name.text(),
            .kind = policy::retry::never};
    }

    std::string pem = chain->leaf.pem();
    for (const auto& issuer : chain->rest)
        pem += issuer.pem();
    disk::change with;
    with.certificates.push_back({a.name, g.id, std::move(pem)});
    const auto certificate = facts_of(chain->leaf.facts, detail->user);
    warn_about_dates(a.name, certificate, detail->user.expiration_unreadable);
    io::log(io::severity::info, io::events::issued, {a.name.exposure, a.name.user, g.id},
            a.name.text() + ": certificate " + certificate.serial + " issued, valid until " +
                policy::format_utc(certificate.expiry()));
    policy::user_event issued = policy::event::issued{g.id, certificate};
    co_return co_await record(a, std::move(issued), std::move(with));
}

}  // namespace reconcile
