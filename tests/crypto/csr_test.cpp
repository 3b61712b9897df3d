#include "crypto/digest.hpp"
#include "crypto/key.hpp"
#include "crypto/openssl.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <utility>
#include <vector>

namespace {

using policy::key_type;

const std::vector<std::pair<key_type, int>> signatures = {
    {key_type::rsa_2048, NID_sha256WithRSAEncryption}, {key_type::rsa_3072, NID_sha256WithRSAEncryption},
    {key_type::rsa_4096, NID_sha256WithRSAEncryption}, {key_type::ecdsa_p256, NID_ecdsa_with_SHA256},
    {key_type::ecdsa_p384, NID_ecdsa_with_SHA256},     {key_type::ed25519, NID_ED25519}};

crypto::openssl::x509_req parse(const std::string& der)
{
    auto* at = reinterpret_cast<const unsigned char*>(der.data());
    return crypto::openssl::x509_req(d2i_X509_REQ(nullptr, &at, static_cast<long>(der.size())));
}

std::string text_of(X509_REQ* request)
{
    const crypto::openssl::bio memory(BIO_new(BIO_s_mem()));
    X509_REQ_print(memory.get(), request);
    return std::string(crypto::openssl::written(memory));
}

BOOST_AUTO_TEST_SUITE(csr)

BOOST_DATA_TEST_CASE(holds_the_name_the_key_and_client_auth_alone,
                     boost::unit_test::data::xrange(signatures.size()))
{
    const auto& [type, signature] = signatures[sample];
    const auto key = crypto::private_key::generate(type).value();
    const std::string name = "logs-orion-123-siem-forwarder-9f3c2a1b";
    const auto made = crypto::make_csr(key, name);
    BOOST_REQUIRE(made);

    const auto request = parse(made->der);
    BOOST_REQUIRE(request);
    BOOST_TEST(X509_REQ_get_version(request.get()) == X509_REQ_VERSION_1);
    BOOST_TEST(X509_REQ_get_signature_nid(request.get()) == signature);
    BOOST_TEST(X509_REQ_verify(request.get(), key.native()) == 1);

    const X509_NAME* const subject = X509_REQ_get_subject_name(request.get());
    BOOST_TEST(X509_NAME_entry_count(subject) == 1);
    const X509_NAME_ENTRY* const entry = X509_NAME_get_entry(subject, 0);
    const ASN1_STRING* const value = X509_NAME_ENTRY_get_data(entry);
    BOOST_TEST(OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry)) == NID_commonName);
    BOOST_TEST(ASN1_STRING_type(value) == V_ASN1_UTF8STRING);
    BOOST_TEST(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)) == name);

    BOOST_TEST(X509_REQ_get_attr_count(request.get()) == 1);
    const crypto::openssl::x509_extensions extensions(X509_REQ_get_extensions(request.get()));
    BOOST_TEST(sk_X509_EXTENSION_num(extensions.get()) == 1);
    const std::string text = text_of(request.get());
    BOOST_TEST(text.find("TLS Web Client Authentication\n") != std::string::npos);
    BOOST_TEST(text.find("Subject Alternative Name") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(pem_holds_the_same_bytes)
{
    const auto made = crypto::make_csr(crypto::private_key::generate(key_type::ed25519).value(), "a").value();
    const std::string begin = "-----BEGIN CERTIFICATE REQUEST-----\n";
    const std::string end = "-----END CERTIFICATE REQUEST-----\n";
    BOOST_REQUIRE(made.pem.starts_with(begin));
    BOOST_REQUIRE(made.pem.ends_with(end));
    const auto body = made.pem.substr(begin.size(), made.pem.size() - begin.size() - end.size());
    BOOST_TEST(crypto::base64_decode(body).value() == made.der);
}

BOOST_AUTO_TEST_CASE(refuses_a_name_out_of_range)
{
    const auto key = crypto::private_key::generate(key_type::ed25519).value();
    BOOST_CHECK(crypto::make_csr(key, std::string(64, 'a')));
    BOOST_CHECK(!crypto::make_csr(key, std::string(65, 'a')));
    BOOST_CHECK(!crypto::make_csr(key, ""));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
