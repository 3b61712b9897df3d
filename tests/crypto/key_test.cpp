#include "crypto/key.hpp"

#include "crypto/digest.hpp"
#include "crypto/openssl.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <future>
#include <set>
#include <utility>
#include <vector>

namespace {

using policy::key_type;

const std::vector<key_type> types = {key_type::rsa_2048,   key_type::rsa_3072,   key_type::rsa_4096,
                                     key_type::ecdsa_p256, key_type::ecdsa_p384, key_type::ed25519};

std::string pem_of(const EVP_PKEY* key, const char* password = nullptr)
{
    const crypto::openssl::bio memory(BIO_new(BIO_s_mem()));
    PEM_write_bio_PKCS8PrivateKey(memory.get(), key, password ? EVP_aes_256_cbc() : nullptr, password,
                                  password ? 4 : 0, nullptr, nullptr);
    return std::string(crypto::openssl::written(memory));
}

BOOST_AUTO_TEST_SUITE(key)

BOOST_DATA_TEST_CASE(survives_its_own_text, boost::unit_test::data::xrange(types.size()))
{
    const key_type type = types[sample];
    const auto made = crypto::private_key::generate(type);
    BOOST_REQUIRE(made);
    BOOST_CHECK(made->type() == type);
    BOOST_TEST(made->fingerprint().size() == 64u);

    const auto text = made->to_pem();
    BOOST_REQUIRE(text);
    BOOST_TEST(text->view().starts_with("-----BEGIN PRIVATE KEY-----\n"));
    const auto read = crypto::private_key::from_pem(text->view());
    BOOST_REQUIRE(read);
    BOOST_CHECK(read->type() == type);
    BOOST_TEST(read->fingerprint() == made->fingerprint());
    BOOST_CHECK(read->to_pem().value() == *text);
}

BOOST_AUTO_TEST_CASE(fingerprint_is_that_of_the_subject_public_key_info)
{
    const auto made = crypto::private_key::generate(key_type::ecdsa_p256).value();
    const crypto::openssl::bio memory(BIO_new(BIO_s_mem()));
    PEM_write_bio_PUBKEY(memory.get(), made.native());
    std::string text(crypto::openssl::written(memory));
    text = text.substr(text.find('\n'));
    text.erase(text.rfind("-----END"));
    BOOST_TEST(made.fingerprint() == crypto::sha256_hex(crypto::base64_decode(text).value()));
}

BOOST_AUTO_TEST_CASE(reads_the_older_forms)
{
    const auto made = crypto::private_key::generate(key_type::rsa_2048).value();
    const crypto::openssl::bio memory(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey_traditional(memory.get(), made.native(), nullptr, nullptr, 0, nullptr, nullptr);
    const auto read = crypto::private_key::from_pem(crypto::openssl::written(memory));
    BOOST_REQUIRE(read);
    BOOST_TEST(read->fingerprint() == made.fingerprint());
}

BOOST_AUTO_TEST_CASE(refuses_what_is_no_key_of_ours)
{
    const crypto::openssl::pkey small(EVP_RSA_gen(1024));
    const crypto::openssl::pkey other_curve(EVP_EC_gen("P-521"));
    const crypto::openssl::pkey ours(EVP_EC_gen("P-256"));
    const std::string damaged = pem_of(ours.get()).replace(60, 4, "AAAA");
    for (const std::string& text : {std::string(), std::string("not a key"), pem_of(small.get()),
                                    pem_of(other_curve.get()), pem_of(ours.get(), "word"), damaged}) {
        const auto read = crypto::private_key::from_pem(text);
        BOOST_REQUIRE(!read);
        BOOST_CHECK(read.error().code == policy::errc::crypto);
        BOOST_TEST(ERR_peek_error() == 0u);
    }
}

BOOST_AUTO_TEST_CASE(several_threads_generate_at_once)
{
    std::vector<std::future<std::string>> made;
    for (int thread = 0; thread < 4; ++thread)
        made.push_back(std::async(std::launch::async, [] {
            return crypto::private_key::generate(key_type::rsa_2048).value().fingerprint();
        }));
    std::set<std::string> fingerprints;
    for (auto& one : made)
        fingerprints.insert(one.get());
    BOOST_TEST(fingerprints.size() == made.size());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
