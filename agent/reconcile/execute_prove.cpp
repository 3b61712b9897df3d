#include "agent/io/async.hpp"
#include "agent/reconcile/execute.hpp"
#include "policy/limits.hpp"

namespace reconcile {
namespace {

using deploy::proof_verdict;

// Reads the pair. Blocks: for the pool.
policy::result<deploy::proof_request> proof_of(disk::store& store, const policy::desired_exposure& exposure,
                                               const policy::generation& g, const std::string& user)
{
    const policy::user_name name{exposure.name, user};
    auto key = store.read_key(name, g.id);
    if (!key) return key.error();
    auto certificate = store.read_certificate(name, g.id);
    if (!certificate) return certificate.error();
    return deploy::proof_request{.exposure = exposure.name,
                                 .user = user,
                                 .broker = exposure.broker,
                                 .broker_ca_file = exposure.broker_ca_file,
                                 .topic = exposure.topic,
                                 .consumer_group = g.sent.consumer_group,
                                 .key_pem = std::move(*key),
                                 .certificate_pem = std::move(*certificate)};
}

// What the broker says of the pair in use, and what becomes of it: always that it stays.
std::string of_pair_in_use(const policy::generation* current,
                           const policy::result<deploy::proof_answer>& in_use)
{
    if (!current) return "; nothing is published before it does";
    if (!in_use || in_use->verdict == proof_verdict::unreachable) return "; the certificate in use stays";
    if (in_use->verdict == proof_verdict::accepted) return "; it accepts the certificate in use, which stays";
    return "; nor does it accept the certificate in use, which stays (" + in_use->evidence + ")";
}

// A refusal may only mean that access is still being granted: after the patience it needs a person.
policy::failure not_proven(const policy::user_name& name, const std::string& common_name,
                           const deploy::proof_answer& answer, const std::string& in_use, bool interactive)
{
    const bool unreachable = answer.verdict == proof_verdict::unreachable;
    std::string sentence = name.text() + ": the broker " +
                           (unreachable ? "did not say whether it accepts the new certificate ("
                                        : "does not accept the new certificate (") +
                           answer.evidence + ")" + in_use;
    if (unreachable)
        sentence += "; it is asked again, and `exposure-agent doctor` looks at the way to it";
    else if (interactive)
        sentence += "; access may still be on its way, so it is asked again";
    else
        sentence += "; ask the platform's operator why " + common_name +
                    " has no access; it is asked again every hour, at once by `exposure-agent reconcile`";
    return {.code = unreachable ? policy::errc::probe_unreachable : policy::errc::probe_refused,
            .context = sentence,
            .kind = unreachable || interactive ? policy::retry::later : policy::retry::after_change};
}

}  // namespace

// Tells "this pair is refused" from "the broker is down" by trying the pair in use as well.
io::task<void> executor::prove(const policy::action& a)
{
    const auto exposure = *world_.exposure(a.name.exposure);
    auto& outside = world_.outside();
    const auto g = generation(a);
    auto request =
        co_await io::offload(pool(), [&] { return proof_of(outside.store, exposure, g, a.name.user); });
    if (!request) co_return request.error();
    auto answer = co_await outside.proof.ask(std::move(*request));
    if (!answer) co_return answer.error();

    const auto* current = world_.user(a.name).find(world_.user(a.name).current);
    const bool in_use_expired = current && current->certificate && current->certificate->expiry() <= now();
    if (answer->verdict == proof_verdict::accepted ||
        (answer->verdict == proof_verdict::unreachable && in_use_expired)) {
        auto& record = generation(a);
        record.proven =
            answer->verdict == proof_verdict::accepted ? policy::proof::broker : policy::proof::local;
        record.proven_at = now();
        world_.user(a.name).failure.reset();
        co_return co_await world_.save(a.name);
    }

    policy::result<deploy::proof_answer> in_use = policy::failure{};
    if (current) {
        auto pair = co_await io::offload(
            pool(), [&] { return proof_of(outside.store, exposure, *current, a.name.user); });
        if (pair) in_use = co_await outside.proof.ask(std::move(*pair));
    }
    const bool interactive = g.collected_at && now() - *g.collected_at < policy::limits::probe_patience;
    co_return not_proven(a.name, g.sent.common_name, *answer, of_pair_in_use(current, in_use), interactive);
}

}  // namespace reconcile
