#include "policy/facts.hpp"
#include "policy/limits.hpp"

#include <boost/test/unit_test.hpp>

#include <set>

namespace {

using namespace std::chrono_literals;
using policy::duration;
using policy::lead;
using policy::percent;

constexpr auto from = policy::instant(1'800'000'000s);
const policy::user_name siem{"logs", "siem"};

policy::certificate_facts certificate(duration lifetime, std::string serial = "1")
{
    return {
        .serial = std::move(serial), .fingerprint = "f", .not_before = from, .not_after = from + lifetime};
}

// Time from rotation to expiry, including the spread.
duration before_expiry(const policy::certificate_facts& c, const lead& l, const std::string& owner = "web-01",
                       const policy::user_name& name = siem)
{
    return c.expiry() - policy::rotate_at(c, l, owner, name).at;
}

BOOST_AUTO_TEST_SUITE(rotation)

BOOST_AUTO_TEST_CASE(the_lead_counts_back_from_expiry_and_the_spread_adds_up_to_a_twentieth)
{
    struct row {
        duration lifetime;
        lead renew_before;
        duration least;
        bool cut;
    };
    const duration year = std::chrono::days(365), day = std::chrono::days(1);
    for (const auto& r :
         {row{year, percent{33}, year * 33 / 100, false}, row{year, percent{1}, year / 100, false},
          row{year, duration(90 * day), 90 * day, false}, row{year, duration(1s), 1s, false},
          row{year, duration(year), year / 3, true}, row{year, duration(2 * year), year / 3, true},
          row{year, duration(year - 1s), year - 1s, false}, row{day, duration(90 * day), day / 3, true},
          row{100s, percent{33}, 33s, false}, row{1s, percent{33}, 0s, false}}) {
        const auto c = certificate(r.lifetime);
        const auto due = policy::rotate_at(c, r.renew_before, "web-01", siem);
        const auto ahead = c.expiry() - due.at;
        BOOST_TEST(due.lead_cut == r.cut);
        BOOST_TEST((ahead >= r.least || due.at == from + r.lifetime / 100));
        BOOST_TEST((ahead <= r.least + r.lifetime * policy::limits::spread_percent / 100));
    }
}

BOOST_AUTO_TEST_CASE(a_fresh_certificate_is_never_due_at_once)
{
    for (const duration lifetime : {duration(100s), duration(1h), duration(std::chrono::days(365))}) {
        const auto due = policy::rotate_at(certificate(lifetime), lead(lifetime - 1s), "web-01", siem).at;
        BOOST_TEST((due >= from + lifetime / 100));
    }
}

BOOST_AUTO_TEST_CASE(the_earlier_end_counts)
{
    auto c = certificate(std::chrono::days(365));
    const auto whole = policy::rotate_at(c, percent{33}, "web-01", siem).at;
    c.expiration_date = c.not_after + 1h;
    BOOST_TEST((policy::rotate_at(c, percent{33}, "web-01", siem).at == whole));
    auto before = whole;
    for (int days = 364; days > 0; --days) {  // an earlier end never delays the rotation
        c.expiration_date = from + std::chrono::days(days);
        const auto at = policy::rotate_at(c, percent{33}, "web-01", siem).at;
        BOOST_TEST((at < before));
        before = at;
    }
    c.expiration_date = from + std::chrono::days(30);
    BOOST_TEST((policy::rotate_at(c, percent{33}, "web-01", siem).at < from + std::chrono::days(21)));
    c.expiration_date = from - 1h;  // no overflow: due at once
    BOOST_TEST((policy::rotate_at(c, percent{33}, "web-01", siem).at == from));
}

BOOST_AUTO_TEST_CASE(the_spread_is_derived_never_drawn)
{
    const auto c = certificate(std::chrono::days(365));
    const auto once = before_expiry(c, percent{33});
    BOOST_TEST((before_expiry(c, percent{33}) == once));
    BOOST_TEST((before_expiry(c, percent{33}, "web-02") != once));
    BOOST_TEST((before_expiry(c, percent{33}, "web-01", {"logs", "other"}) != once));
    BOOST_TEST((before_expiry(c, percent{33}, "web-01", {"health", "siem"}) != once));
}

BOOST_AUTO_TEST_CASE(the_spread_is_the_same_for_all_certificates_of_a_user)
{
    const auto once = before_expiry(certificate(std::chrono::days(365), "1"), percent{33});
    for (const auto* serial : {"2", "3", "ff"})
        BOOST_TEST((before_expiry(certificate(std::chrono::days(365), serial), percent{33}) == once));
}

BOOST_AUTO_TEST_CASE(a_lead_of_the_whole_lifetime_is_warned_of)
{
    const auto c = certificate(std::chrono::days(30));
    for (const lead& fits : {lead(percent{99}), lead(duration(std::chrono::days(30)) - 1s)})
        BOOST_TEST(!policy::lead_warning(c, fits));
    for (const auto days : {30, 90})
        BOOST_TEST(policy::lead_warning(c, lead(duration(std::chrono::days(days)))).value_or("") ==
                   "rotation.renew_before (" + std::to_string(days) +
                       " d) is not shorter than the lifetime of its certificate (30 d); rotating 10 d before "
                       "expiry instead. Set a shorter renew_before");
}

BOOST_AUTO_TEST_CASE(a_fleet_spreads_over_the_whole_twentieth)
{
    const auto c = certificate(std::chrono::days(100));
    constexpr int slices = 10;
    std::set<int> hit;
    for (int host = 0; host < 200; ++host) {
        const auto spread =
            before_expiry(c, percent{33}, "web-" + std::to_string(host)) - std::chrono::days(33);
        hit.insert(static_cast<int>(spread * slices / std::chrono::days(5)));
    }
    BOOST_TEST(hit.size() >= slices);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
