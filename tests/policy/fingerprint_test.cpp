#include "policy/fingerprint.hpp"

#include "tests/support/each_change.hpp"
#include "tests/support/policy_world.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <set>
#include <string>

namespace {

using namespace std::chrono_literals;
using support::policy_world;
using support::with_each_change;

BOOST_AUTO_TEST_SUITE(fingerprint)

BOOST_AUTO_TEST_CASE(the_hash_is_the_same_on_every_machine)
{
    BOOST_TEST(policy::stable_hash("") == 0xcbf29ce484222325ULL);
    BOOST_TEST(policy::stable_hash("a") == 0xaf63dc4c8601ec8cULL);
    BOOST_TEST(policy::stable_hash("foobar") == 0x85944171f73967e8ULL);
}

BOOST_AUTO_TEST_CASE(every_member_of_a_user_and_its_exposure_counts)
{
    policy_world w;
    auto user = w.want();
    user.hooks.push_back({.argv = {"a"}});
    auto exposure = w.exposure();
    const auto before = policy::entry_fingerprint(exposure, user);
    std::set<std::string> same;
    const auto check = [&](const std::string& name) {
        if (policy::entry_fingerprint(exposure, user) == before) same.insert(name);
    };
    with_each_change(user, "user", check);
    with_each_change(exposure, "exposure", check);
    // the name identifies the user; the other users of the exposure have entries of their own
    BOOST_TEST(same == (std::set<std::string>{"exposure.name", "exposure.users"}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_member_of_a_credential_that_its_file_depends_on_counts)
{
    policy::desired_credential credential{.name = "backup", .resource = "r", .action = "a", .file = "/f"};
    const auto before = policy::entry_fingerprint(credential);
    std::set<std::string> same;
    with_each_change(credential, "credential", [&](const std::string& name) {
        if (policy::entry_fingerprint(credential) == before) same.insert(name);
    });
    BOOST_TEST(same == (std::set<std::string>{"credential.hooks", "credential.interval", "credential.name"}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(two_values_never_read_the_same)
{
    const auto text_of = [](const std::vector<std::string>& words) {
        std::string text;
        policy::append_canonical(text, words);
        return text;
    };
    BOOST_TEST(text_of({"a", "b"}) != text_of({"ab"}));
    BOOST_TEST(text_of({"a", "b"}) != text_of({"a1:b"}));
    BOOST_TEST(text_of({""}) != text_of({}));
}

BOOST_AUTO_TEST_CASE(every_key_of_an_entry_counts)
{
    using edit = std::function<void(policy::desired_exposure&, policy::desired_user&)>;
    const std::vector<edit> edits = {
        [](auto&, auto&) {},
        [](auto& e, auto&) { e.variant = policy::variant::health; },
        [](auto& e, auto&) { e.base_url = "https://other.example.com"; },
        [](auto& e, auto&) { e.tenant = "vega"; },
        [](auto& e, auto&) { e.broker = "broker.example.com:9093"; },
        [](auto& e, auto&) { e.topic = "other"; },
        [](auto& e, auto&) { e.broker_ca_file = "/etc/ca.pem"; },
        [](auto& e, auto&) { e.group = {.id = "g", .name = "n"}; },
        [](auto& e, auto&) { e.create_instance = false; },
        [](auto& e, auto&) { e.encoding = policy::csr_encoding::der; },
        [](auto&, auto& u) { u.name = "other"; },
        [](auto&, auto& u) { u.consumer_group = "other"; },
        [](auto&, auto& u) { u.contact = "other@example.com"; },
        [](auto&, auto& u) { u.description = "other"; },
        [](auto&, auto& u) { u.key = policy::key_type::ecdsa_p256; },
        [](auto&, auto& u) { u.rotation.renew_before = policy::percent{40}; },
        [](auto&, auto& u) { u.rotation.renew_before = policy::duration(33s); },
        [](auto&, auto& u) { u.rotation.retire_after = 1h; },
        [](auto&, auto& u) { u.rotation.strategy = policy::strategy::replace; },
        [](auto&, auto& u) { u.rotation.paused = true; },
        [](auto&, auto& u) { u.output.directory = "/elsewhere"; },
        [](auto&, auto& u) { u.output.formats.insert(policy::file_format::bundle); },
        [](auto&, auto& u) { u.output.access.owner = "web"; },
        [](auto&, auto& u) { u.output.access.group = "web"; },
        [](auto&, auto& u) { u.output.access.mode = 0640; },
        [](auto&, auto& u) { u.output.password_file = "/etc/password"; },
        [](auto&, auto& u) {
            u.hooks.push_back({.argv = {"a", "b"}});
        },
        [](auto&, auto& u) { u.hooks.push_back({.argv = {"a b"}}); },
        [](auto&, auto& u) {
            u.hooks.push_back({.argv = {"a", "b"}, .timeout = 5s});
        },
        [](auto&, auto& u) { u.hooks.push_back({.what = policy::hook::kind::restart, .unit = "a"}); },
        [](auto&, auto& u) { u.hooks.push_back({.what = policy::hook::kind::reload, .unit = "a"}); },
        [](auto&, auto& u) { u.verify = true; },
    };
    std::set<std::string> prints;
    for (const auto& change : edits) {
        policy_world w;
        auto user = w.want();
        change(w.exposure(), user);
        const auto print = policy::entry_fingerprint(w.exposure(), user);
        BOOST_TEST(print == policy::entry_fingerprint(w.exposure(), user));
        prints.insert(print);
    }
    BOOST_TEST(prints.size() == edits.size());
}

BOOST_AUTO_TEST_CASE(other_users_of_the_exposure_do_not_count)
{
    policy_world w;
    const auto user = w.want();
    const auto before = policy::entry_fingerprint(w.exposure(), user);
    w.want("other");
    BOOST_TEST(policy::entry_fingerprint(w.exposure(), user) == before);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
