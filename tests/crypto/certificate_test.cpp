#include "crypto/certificate.hpp"

#include "crypto/digest.hpp"
#include "policy/limits.hpp"
#include "tests/support/test_ca.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <openssl/err.h>
#include <openssl/pkcs7.h>

#include <functional>
#include <ostream>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using policy::errc;
using policy::instant;
using policy::key_type;
using test_support::test_ca;

// One root, one intermediate and one leaf shared by all tests, since generating keys takes time.
struct world {
    test_ca root{"Test Root"};
    test_ca issuing{"Test Issuing", root};
    test_ca stranger{"Stranger"};
    crypto::private_key key = crypto::private_key::generate(key_type::ecdsa_p256).value();
    std::string leaf = issuing.issue(key, {.common_name = "logs-t-u-1"});
    std::string der = crypto::read_chain(leaf).value().front().der;
};

const world& the()
{
    static const world one;
    return one;
}

std::string replaced(std::string text, const std::string& what, const std::string& by)
{
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
        text.replace(at, what.size(), by);
    return text;
}

std::string base64url(const std::string& bytes)
{
    auto text = replaced(replaced(crypto::base64(bytes), "+", "-"), "/", "_");
    return text.substr(0, text.find('='));
}

std::string lines(const std::string& text, std::size_t width)
{
    std::string broken;
    for (std::size_t at = 0; at < text.size(); at += width)
        broken += text.substr(at, width) + "\r\n";
    return broken;
}

std::string pkcs7(bool as_pem)
{
    const auto* at = reinterpret_cast<const unsigned char*>(the().der.data());
    const crypto::openssl::x509 member(d2i_X509(nullptr, &at, static_cast<long>(the().der.size())));
    PKCS7* const bundle = PKCS7_new();
    PKCS7_set_type(bundle, NID_pkcs7_signed);
    PKCS7_content_new(bundle, NID_pkcs7_data);
    PKCS7_add_certificate(bundle, member.get());
    const std::string der = crypto::openssl::to_der<i2d_PKCS7>(bundle);
    PKCS7_free(bundle);
    return as_pem ? crypto::openssl::to_pem(PEM_STRING_PKCS7, der) : crypto::base64(der);
}

struct form {
    const char* name;
    std::function<std::string()> text;
    std::size_t certificates = 1;
};

std::ostream& operator<<(std::ostream& out, const form& f)
{
    return out << f.name;
}

const std::vector<form> accepted = {
    {"pem", [] { return the().leaf; }},
    {"pem, CR LF", [] { return replaced(the().leaf, "\n", "\r\n"); }},
    {"pem, CR", [] { return replaced(the().leaf, "\n", "\r"); }},
    {"pem, blanks for line ends", [] { return replaced(the().leaf, "\n", " "); }},
    {"pem, no line ends", [] { return replaced(the().leaf, "\n", ""); }},
    {"pem, escaped line ends", [] { return replaced(the().leaf, "\n", "\\n"); }},
    {"pem, escaped CR LF", [] { return replaced(the().leaf, "\n", "\\r\\n"); }},
    {"pem, escaped twice", [] { return replaced(the().leaf, "\n", "\\\\n"); }},
    {"pem, escaped slashes", [] { return replaced(the().leaf, "/", "\\/"); }},
    {"pem, no last line end", [] { return the().leaf.substr(0, the().leaf.size() - 1); }},
    {"pem, text around", [] { return "subject=CN = x\nBag Attributes\n" + the().leaf + "\nend of mail\n"; }},
    {"pem, another block before", [] { return crypto::openssl::to_pem("DH PARAMETERS", "x") + the().leaf; }},
    {"pem, older label", [] { return replaced(the().leaf, " CERTIFICATE", " X509 CERTIFICATE"); }},
    {"pem, twice the same", [] { return the().leaf + the().leaf; }},
    {"chain, leaf first", [] { return the().leaf + the().issuing.pem() + the().root.pem(); }, 3},
    {"chain, root first", [] { return the().root.pem() + the().issuing.pem() + the().leaf; }, 3},
    {"chain on one line", [] { return replaced(the().leaf + the().root.pem(), "\n", ""); }, 2},
    {"base64 of pem", [] { return crypto::base64(the().leaf); }},
    {"base64 of chain", [] { return crypto::base64(the().leaf + the().issuing.pem()); }, 2},
    {"base64 of base64 of pem", [] { return crypto::base64(crypto::base64(the().leaf)); }},
    {"base64 of pem with CR LF", [] { return crypto::base64(replaced(the().leaf, "\n", "\r\n")); }},
    {"base64 of der", [] { return crypto::base64(the().der); }},
    {"base64 of der in lines", [] { return lines(crypto::base64(the().der), 76); }},
    {"base64 of der, escaped", [] { return replaced(lines(crypto::base64(the().der), 64), "\r\n", "\\n"); }},
    {"base64url of der", [] { return base64url(the().der); }},
    {"base64 of der, unpadded",
     [] { return crypto::base64(the().der).substr(0, crypto::base64(the().der).find('=')); }},
    {"base64 of ders in a row",
     [] {
         const auto issuing = crypto::read_chain(the().issuing.pem()).value().front().der;
         return crypto::base64(the().der) + "\n" + crypto::base64(issuing) + "\n";
     },
     2},
    {"base64 of ders joined",
     [] { return crypto::base64(the().der + crypto::read_chain(the().root.pem()).value().front().der); }, 2},
    {"der", [] { return the().der; }},
};

struct wrong {
    const char* name;
    std::function<std::string()> text;
    const char* says;
};

std::ostream& operator<<(std::ostream& out, const wrong& w)
{
    return out << w.name;
}

const std::vector<wrong> refused = {
    {"nothing", [] { return std::string(); }, "empty"},
    {"blanks", [] { return std::string(" \r\n\t"); }, "empty"},
    {"a word", [] { return std::string("pending"); }, "neither PEM nor base64"},
    {"html", [] { return std::string("<html><body>Log in</body></html>"); }, "neither PEM nor base64"},
    {"a request", [] { return crypto::openssl::to_pem("CERTIFICATE REQUEST", "x"); }, "CERTIFICATE REQUEST"},
    {"pkcs7 pem", [] { return pkcs7(true); }, "PKCS#7"},
    {"pkcs7 base64", [] { return pkcs7(false); }, "PKCS#7"},
    {"pem cut off", [] { return the().leaf.substr(0, 300); }, "truncated"},
    {"pem mark cut off", [] { return std::string("-----BEGIN CERTIFICATE"); }, "truncated"},
    {"pem body cut", [] { return std::string(the().leaf).erase(100, 65); }, "cannot be read"},
    {"pem without body",
     [] { return std::string("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"); }, "empty"},
    {"pem not base64", [] { return std::string(the().leaf).replace(100, 1, "*"); }, "damaged"},
    {"der cut off", [] { return crypto::base64(the().der.substr(0, 200)); }, "cannot be read"},
    {"der and rubbish", [] { return crypto::base64(the().der + "rubbish"); }, "cannot be read"},
    {"too large", [] { return std::string(1 << 20, 'M'); }, "larger than"},
    {"too many",
     [] {
         std::string text;
         for (std::size_t at = 0; at <= policy::limits::chain_certificates; ++at)
             text += the().issuing.issue(the().key);
         return text;
     },
     "more than 16"},
};

crypto::certificate leaf_with(const test_support::certificate_options& options)
{
    return crypto::read_chain(the().issuing.issue(the().key, options)).value().front();
}

BOOST_AUTO_TEST_SUITE(certificate)

BOOST_DATA_TEST_CASE(read_in_every_form, accepted)
{
    const auto read = crypto::read_chain(sample.text());
    BOOST_REQUIRE_MESSAGE(read, (read ? "" : read.error().context));
    BOOST_TEST(read->size() == sample.certificates);
    const auto chain = crypto::order_chain(*read, the().key.fingerprint());
    BOOST_REQUIRE(chain);
    BOOST_TEST(chain->leaf.pem() == the().leaf);
}

BOOST_DATA_TEST_CASE(refused_with_a_reason, refused)
{
    const auto read = crypto::read_chain(sample.text());
    BOOST_REQUIRE(!read);
    BOOST_CHECK(read.error().code == errc::unusable_certificate);
    BOOST_TEST(read.error().context.find(sample.says) != std::string::npos, read.error().context);
    BOOST_TEST(ERR_peek_error() == 0u);
}

BOOST_AUTO_TEST_CASE(facts_of_a_leaf)
{
    const auto leaf = leaf_with({.common_name = "logs-t-u-9f3c2a1b",
                                 .not_before = 1'700'000'000,
                                 .not_after = 4'000'000'000,  // after 2049: encoded as GeneralizedTime
                                 .serial = "00C0FFEE"});
    BOOST_TEST(leaf.facts.subject_cn == "logs-t-u-9f3c2a1b");
    BOOST_TEST(leaf.facts.issuer == "CN=Test Issuing");
    BOOST_TEST(leaf.facts.serial_hex == "C0FFEE");
    BOOST_CHECK(leaf.facts.not_before == instant(1'700'000'000s));
    BOOST_CHECK(leaf.facts.not_after == instant(4'000'000'000s));
    BOOST_TEST(leaf.facts.public_key_fingerprint == the().key.fingerprint());
    BOOST_TEST(leaf.facts.sha256 == crypto::sha256_hex(leaf.der));
    BOOST_CHECK(leaf.facts.client_auth == true);
}

BOOST_AUTO_TEST_CASE(long_serials_stay_on_one_line)
{
    const std::string serial(78, '7');
    BOOST_TEST(leaf_with({.serial = serial}).facts.serial_hex == serial);
}

BOOST_AUTO_TEST_CASE(control_characters_in_a_name_are_escaped)
{
    BOOST_TEST(leaf_with({.common_name = "a\x1b[2Jb"}).facts.subject_cn == "a\\1B[2Jb");
}

BOOST_AUTO_TEST_CASE(fingerprint_agrees_for_every_key_type)
{
    for (const auto type :
         {key_type::rsa_2048, key_type::ecdsa_p256, key_type::ecdsa_p384, key_type::ed25519}) {
        const auto key = crypto::private_key::generate(type).value();
        const auto read = crypto::read_chain(the().root.issue(key)).value();
        BOOST_TEST(read.front().facts.public_key_fingerprint == key.fingerprint());
    }
}

BOOST_AUTO_TEST_CASE(order_is_leaf_then_its_issuers_without_strangers)
{
    const auto mixed =
        crypto::read_chain(the().root.pem() + the().stranger.pem() + the().leaf + the().issuing.pem());
    const auto chain = crypto::order_chain(mixed.value(), the().key.fingerprint()).value();
    BOOST_TEST(chain.leaf.facts.subject_cn == "logs-t-u-1");
    BOOST_REQUIRE(chain.rest.size() == 2u);
    BOOST_TEST(chain.rest[0].facts.subject_cn == "Test Issuing");
    BOOST_TEST(chain.rest[1].facts.subject_cn == "Test Root");
}

BOOST_AUTO_TEST_CASE(of_two_leaves_the_longer_lasting_one)
{
    const auto longer = the().issuing.issue(the().key, {.common_name = "longer", .not_after = 2'100'000'000});
    const auto both = crypto::read_chain(the().leaf + longer).value();
    BOOST_TEST(crypto::order_chain(both, the().key.fingerprint()).value().leaf.facts.subject_cn == "longer");
}

BOOST_AUTO_TEST_CASE(a_certificate_of_another_key_is_no_leaf)
{
    const auto other = crypto::private_key::generate(key_type::ed25519).value();
    const auto chain = crypto::order_chain(crypto::read_chain(the().leaf).value(), other.fingerprint());
    BOOST_REQUIRE(!chain);
    BOOST_CHECK(chain.error().code == errc::unusable_certificate);
}

BOOST_AUTO_TEST_CASE(verdicts)
{
    const auto ours = the().key.fingerprint();
    const auto judged = [&](const crypto::certificate& leaf, long long now) {
        return crypto::judge(leaf, ours, instant(policy::duration(now)));
    };
    const auto leaf = leaf_with({.not_before = 1'000, .not_after = 2'000});
    using crypto::verdict;
    BOOST_CHECK(judged(leaf, 999) == verdict::not_yet_valid);
    BOOST_CHECK(judged(leaf, 1'000) == verdict::usable);
    BOOST_CHECK(judged(leaf, 2'000) == verdict::usable);
    BOOST_CHECK(judged(leaf, 2'001) == verdict::expired);
    BOOST_CHECK(crypto::judge(leaf, "other", instant(1'500s)) == verdict::wrong_key);

    const auto usage = [&](const char* value) {
        return judged(leaf_with({.extended_key_usage = value}), 1'800'000'000);
    };
    BOOST_CHECK(usage("") == verdict::usable);
    BOOST_CHECK(usage("serverAuth,clientAuth") == verdict::usable);
    BOOST_CHECK(usage("anyExtendedKeyUsage") == verdict::usable);
    BOOST_CHECK(usage("serverAuth") == verdict::wrong_usage);
    BOOST_CHECK(usage("DER:0500") == verdict::wrong_usage);  // malformed: allows nothing
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
