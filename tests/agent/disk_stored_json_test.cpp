#include "agent/disk/stored_json.hpp"

#include <boost/test/unit_test.hpp>

#include <random>

// The codec of the private store: what goes in comes out, and what is not ours is refused.

namespace {

using namespace policy;

// Fills every stored field. The structured bindings stop compiling when a record gains a field: then it is
// to be filled here and written by the codec, or it is a fact of the look.
class filler {
public:
    explicit filler(unsigned seed) : random_(seed) {}

    template <class... T>
    void all(T&... field)
    {
        (fill(field), ...);
    }

    int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }

    void fill(bool& v) { v = below(2); }
    void fill(int& v) { v = below(1 << 30); }
    void fill(unsigned& v) { v = static_cast<unsigned>(random_()); }
    void fill(std::int64_t& v) { v = static_cast<std::int64_t>(random_()); }
    void fill(std::uint64_t& v) { v = random_(); }
    void fill(duration& v) { v = duration(below(1 << 30)); }
    void fill(instant& v) { v = instant(duration(std::int64_t(below(1 << 30)) * 8)); }
    void fill(std::string& v)
    {
        static const std::string pieces[] = {"a",  "Z9.-_", " ",        "\"",
                                             "\\", "\n",    "\xc3\xa4", std::string("\0", 1),
                                             "/",  "\x1b",  "\xff\xfe", "{}[]"};
        v.clear();
        for (int left = below(6); left > 0; --left)
            v += pieces[below(std::size(pieces))];
    }
    template <class T>
    void fill(std::optional<T>& v)
    {
        v.reset();
        if (below(2)) fill(v.emplace());
    }
    template <class T>
    void fill(std::vector<T>& v)
    {
        v.resize(below(4));
        for (auto& one : v)
            fill(one);
    }
    void fill(key_type& v) { v = static_cast<key_type>(below(6)); }
    void fill(policy::variant& v) { v = static_cast<policy::variant>(below(3)); }
    void fill(csr_encoding& v) { v = static_cast<csr_encoding>(below(2)); }
    void fill(proof& v) { v = static_cast<proof>(below(3)); }
    void fill(retry& v) { v = static_cast<retry>(below(3)); }
    void fill(errc& v) { v = static_cast<errc>(below(static_cast<int>(errc::internal) + 1)); }
    void fill(hook::kind& v) { v = static_cast<hook::kind>(below(3)); }

    void id(std::string& v)
    {
        v.clear();
        while (v.size() < 8)
            v += "0123456789abcdef"[below(16)];
    }
    void id_or_none(std::string& v)
    {
        if (below(2)) id(v);
    }

    void fill(place& v)
    {
        auto& [base_url, variant, tenant, instance_id] = v;
        all(base_url, variant, tenant, instance_id);
    }
    void fill(submission& v)
    {
        auto& [common_name, description, contact, consumer_group, key, encoding] = v;
        all(common_name, description, contact, consumer_group, key, encoding);
    }
    void fill(certificate_facts& v)
    {
        auto& [serial, fingerprint, not_before, not_after, expiration_date] = v;
        all(serial, fingerprint, not_before, not_after, expiration_date);
    }
    void fill(generation& v)
    {
        auto& [name, fingerprint, where, sent, created, submitted, answered, remote, accepted, certificate,
               collected, proven, proven_at, published, deployed, lost, quarantine, abandoned, key_on_disk] =
            v;
        id(name);
        all(fingerprint, where, sent, created, submitted, answered, remote, accepted, certificate, collected,
            proven, proven_at, published, deployed, lost, quarantine, abandoned);
        static_cast<void>(key_on_disk);
    }
    void fill(published_file& v)
    {
        auto& [name, inode, mtime, size, mode, uid, gid] = v;
        all(name, inode, mtime, size, mode, uid, gid);
    }
    void fill(failure_memory& v)
    {
        auto& [count, code, kind, sentence, last, next, wanted] = v;
        all(count, code, kind, sentence, last, next, wanted);
    }
    void fill(verdict& v)
    {
        auto& [reason, sentence, since] = v;
        all(reason, sentence, since);
    }
    void fill(hook& v)
    {
        auto& [what, argv, unit, timeout] = v;
        all(what, argv, unit, timeout);
    }
    void fill(last_entry& v)
    {
        auto& [retire_after, directory, hooks] = v;
        all(retire_after, directory, hooks);
    }
    void fill(stored_user& v)
    {
        auto& [name, entry, generations, current, previous, files, rendered, creations, unwanted, asked,
               retire_now, held, deploy_reason, failed, deploy_failed, clear_failed, blocked, output, detail,
               unreadable] = v;
        all(name.exposure, name.user, entry, generations, files, rendered, creations, unwanted, asked,
            retire_now, deploy_reason, failed, deploy_failed, clear_failed, blocked);
        id_or_none(current);
        id_or_none(previous);
        id_or_none(held);
        static_cast<void>(output);
        static_cast<void>(detail);
        static_cast<void>(unreadable);
    }
    void fill(stored_exposure& v)
    {
        auto& [name, where, onboarding_since, failed, blocked, unreadable] = v;
        all(name, where, onboarding_since, failed, blocked);
        static_cast<void>(unreadable);
    }

private:
    std::mt19937_64 random_;
};

stored_user some_user(unsigned seed)
{
    stored_user user;
    filler(seed).fill(user);
    return user;
}

BOOST_AUTO_TEST_SUITE(disk_stored_json)

BOOST_AUTO_TEST_CASE(a_user_comes_back_as_it_was)
{
    for (unsigned seed = 0; seed < 500; ++seed) {
        const auto user = some_user(seed);
        const auto back = disk::stored_user_from(disk::to_json(user));
        BOOST_REQUIRE_MESSAGE(back, "seed " << seed << ": " << back.error().context);
        BOOST_REQUIRE_MESSAGE(*back == user, "seed " << seed << ": " << disk::to_json(user));
    }
}

BOOST_AUTO_TEST_CASE(an_exposure_comes_back_as_it_was)
{
    for (unsigned seed = 0; seed < 200; ++seed) {
        stored_exposure exposure;
        filler(seed).fill(exposure);
        const auto back = disk::stored_exposure_from(disk::to_json(exposure));
        BOOST_REQUIRE_MESSAGE(back, "seed " << seed);
        BOOST_REQUIRE_MESSAGE(*back == exposure, "seed " << seed);
    }
}

BOOST_AUTO_TEST_CASE(facts_of_the_look_are_not_stored)
{
    auto user = some_user(1);
    auto seen = user;
    seen.output = output_condition::foreign;
    seen.output_detail = "a link";
    for (auto& one : seen.generations)
        one.key_on_disk = false;
    BOOST_TEST(disk::to_json(seen) == disk::to_json(user));
}

BOOST_AUTO_TEST_CASE(what_is_missing_keeps_its_default)
{
    const auto user = disk::stored_user_from(R"({"schema":1,"exposure":"logs","user":"siem","later":[1]})");
    BOOST_REQUIRE(user);
    stored_user expected;
    expected.name = {"logs", "siem"};
    BOOST_TEST((*user == expected));
    BOOST_TEST((user->entry.retire_after == std::chrono::hours(24)));
}

BOOST_AUTO_TEST_CASE(a_code_of_a_later_version_is_a_failure_all_the_same)
{
    const auto user = disk::stored_user_from(
        R"({"schema":1,"exposure":"logs","user":"siem","failure":{"count":2,"code":"quantum_decay"}})");
    BOOST_REQUIRE(user);
    BOOST_TEST(user->failure->count == 2);
    BOOST_TEST((user->failure->code == errc::internal));
}

BOOST_AUTO_TEST_CASE(every_cut_of_a_record_is_refused)
{
    const auto whole = disk::to_json(some_user(7));
    for (std::size_t length = 0; length + 2 < whole.size(); ++length)
        BOOST_REQUIRE_MESSAGE(!disk::stored_user_from(whole.substr(0, length)), "cut at " << length);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_with_a_sentence)
{
    struct row {
        const char* text;
        const char* says;
    };
    const row rows[] = {
        {"", "damaged"},
        {"[]", "damaged"},
        {"{}", "schema"},
        {R"({"schema":"1"})", "schema"},
        {R"({"schema":2})", "newer exposure-agent"},
        {R"({"schema":1,"exposure":7})", "exposure"},
        {R"({"schema":1,"creations":[1,"x"]})", "creations"},
        {R"({"schema":1,"unwanted_since":1.5})", "unwanted_since"},
        {R"({"schema":1,"generations":{}})", "generations"},
        {R"({"schema":1,"generations":[{"id":"9f3c2a1b","sent":{"key":"rsa-1"}}]})", "key"},
        {R"({"schema":1,"generations":[{"id":"../../.."}]})", "generation"},
        {R"({"schema":1,"current":"../other"})", "generation"},
    };
    for (const auto& [text, says] : rows) {
        const auto user = disk::stored_user_from(text);
        BOOST_TEST_CONTEXT(text)
        {
            BOOST_REQUIRE(!user);
            BOOST_TEST((user.error().code == errc::disk));
            BOOST_TEST(user.error().context.find(says) != std::string::npos, user.error().context);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
