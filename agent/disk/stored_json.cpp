#include "agent/disk/stored_json.hpp"

#include "agent/disk/json_fields.hpp"

#include <algorithm>
#include <array>

namespace disk {
namespace json {

template <>
struct words<policy::variant> {
    static const char* of(policy::variant v) { return policy::word_of(v); }
    static auto from(const std::string& word) { return policy::from_word<policy::variant>(word); }
};

template <>
struct words<policy::key_type> {
    static const char* of(policy::key_type v) { return policy::word_of(v); }
    static auto from(const std::string& word) { return policy::from_word<policy::key_type>(word); }
};

// Enumerations whose words are nobody's business but these files'. Indexed by value.
template <class E, std::size_t N>
struct indexed_words {
    std::array<const char*, N> all;

    const char* of(E v) const { return all.at(static_cast<std::size_t>(v)); }
    std::optional<E> from(const std::string& word) const
    {
        const auto found = std::find(all.begin(), all.end(), word);
        if (found == all.end()) return std::nullopt;
        return static_cast<E>(found - all.begin());
    }
};

constexpr indexed_words<policy::csr_encoding, 2> encodings{{"pem", "der"}};
constexpr indexed_words<policy::proof, 3> proofs{{"none", "local", "broker"}};
constexpr indexed_words<policy::retry, 3> retries{{"later", "after_change", "never"}};
constexpr indexed_words<policy::hook::kind, 3> hook_kinds{{"command", "restart", "reload"}};

template <>
struct words<policy::csr_encoding> {
    static const char* of(policy::csr_encoding v) { return encodings.of(v); }
    static auto from(const std::string& word) { return encodings.from(word); }
};

template <>
struct words<policy::proof> {
    static const char* of(policy::proof v) { return proofs.of(v); }
    static auto from(const std::string& word) { return proofs.from(word); }
};

template <>
struct words<policy::retry> {
    static const char* of(policy::retry v) { return retries.of(v); }
    static auto from(const std::string& word) { return retries.from(word); }
};

template <>
struct words<policy::hook::kind> {
    static const char* of(policy::hook::kind v) { return hook_kinds.of(v); }
    static auto from(const std::string& word) { return hook_kinds.from(word); }
};

template <>
struct words<policy::errc> {
    static const char* of(policy::errc v) { return policy::name_of(v); }
    // A code that is not known here says no more than that something failed.
    static std::optional<policy::errc> from(const std::string& word)
    {
        for (int code = 0; code < static_cast<int>(policy::errc::internal); ++code)
            if (word == policy::name_of(static_cast<policy::errc>(code)))
                return static_cast<policy::errc>(code);
        return policy::errc::internal;
    }
};

// The fields of each record.

template <class T, class U>
concept is = std::same_as<std::remove_const_t<T>, U>;

template <class Codec, is<policy::place> T>
void fields_of(Codec& field, T& v)
{
    field("base_url", v.base_url);
    field("variant", v.variant);
    field("tenant", v.tenant);
    field("instance_id", v.instance_id);
}

template <class Codec, is<policy::submission> T>
void fields_of(Codec& field, T& v)
{
    field("common_name", v.common_name);
    field("description", v.description);
    field("contact", v.contact);
    field("consumer_group", v.consumer_group);
    field("key", v.key);
    field("encoding", v.encoding);
}

template <class Codec, is<policy::certificate_facts> T>
void fields_of(Codec& field, T& v)
{
    field("serial", v.serial);
    field("fingerprint", v.fingerprint);
    field("not_before", v.not_before);
    field("not_after", v.not_after);
    field("expiration_date", v.expiration_date);
}

template <class Codec, is<policy::generation> T>
void fields_of(Codec& field, T& v)
{
    field("id", v.id);
    field("fingerprint", v.fingerprint);
    field("where", v.where);
    field("sent", v.sent);
    field("created_at", v.created_at);
    field("submitted_at", v.submitted_at);
    field("answered", v.answered);
    field("remote_id", v.remote_id);
    field("accepted_at", v.accepted_at);
    field("certificate", v.certificate);
    field("collected_at", v.collected_at);
    field("proven", v.proven);
    field("proven_at", v.proven_at);
    field("published_at", v.published_at);
    field("deployed_at", v.deployed_at);
    field("missing_since", v.missing_since);
    field("quarantine", v.quarantine);
    field("abandoned", v.abandoned);
}

template <class Codec, is<policy::published_file> T>
void fields_of(Codec& field, T& v)
{
    field("name", v.name);
    field("inode", v.inode);
    field("mtime_ns", v.mtime_ns);
    field("size", v.size);
    field("mode", v.mode);
    field("uid", v.uid);
    field("gid", v.gid);
}

template <class Codec, is<policy::failure_memory> T>
void fields_of(Codec& field, T& v)
{
    field("count", v.count);
    field("code", v.code);
    field("retry", v.kind);
    field("sentence", v.sentence);
    field("last", v.last);
    field("next_attempt", v.next_attempt);
    field("wanted", v.wanted);
}

template <class Codec, is<policy::verdict> T>
void fields_of(Codec& field, T& v)
{
    field("reason", v.reason);
    field("sentence", v.sentence);
    field("since", v.since);
}

template <class Codec, is<policy::hook> T>
void fields_of(Codec& field, T& v)
{
    field("kind", v.what);
    field("argv", v.argv);
    field("unit", v.unit);
    field("timeout", v.timeout);
}

template <class Codec, is<policy::last_entry> T>
void fields_of(Codec& field, T& v)
{
    field("retire_after", v.retire_after);
    field("directory", v.directory);
    field("hooks", v.hooks);
}

template <class Codec, is<policy::stored_user> T>
void fields_of(Codec& field, T& v)
{
    field("exposure", v.name.exposure);
    field("user", v.name.user);
    field("entry", v.entry);
    field("generations", v.generations);
    field("current", v.current);
    field("previous", v.previous);
    field("files", v.files);
    field("rendered", v.rendered);
    field("creations", v.creations);
    field("unwanted_since", v.unwanted_since);
    field("rotate_asked_at", v.rotate_asked_at);
    field("retire_now", v.retire_now);
    field("held", v.held);
    field("deploy_reason", v.deploy_reason);
    field("failure", v.failure);
    field("deploy_failure", v.deploy_failure);
    field("clear_failure", v.clear_failure);
    field("blocked", v.blocked);
}

template <class Codec, is<policy::stored_exposure> T>
void fields_of(Codec& field, T& v)
{
    field("name", v.name);
    field("where", v.where);
    field("onboarding_since", v.onboarding_since);
    field("failure", v.failure);
    field("blocked", v.blocked);
}

}  // namespace json

std::string to_json(const policy::stored_user& user)
{
    return json::write(user);
}

std::string to_json(const policy::stored_exposure& exposure)
{
    return json::write(exposure);
}

policy::result<policy::stored_user> stored_user_from(std::string_view text)
{
    auto user = json::read<policy::stored_user>(text);
    if (!user) return user;
    const auto is_name = [](const std::string& id) { return id.empty() || policy::is_generation_id(id); };
    const bool named = is_name(user->current) && is_name(user->previous) && is_name(user->held) &&
                       std::ranges::all_of(user->generations, [](const policy::generation& one) {
                           return policy::is_generation_id(one.id);
                       });
    if (named) return user;
    return policy::failure{policy::errc::disk, "it names a generation that cannot be", policy::retry::never};
}

policy::result<policy::stored_exposure> stored_exposure_from(std::string_view text)
{
    return json::read<policy::stored_exposure>(text);
}

}  // namespace disk
