#include "crypto/pkcs12.hpp"

#include "tests/support/test_ca.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using policy::key_type;

const std::vector<key_type> types = {key_type::rsa_2048, key_type::ecdsa_p256, key_type::ecdsa_p384,
                                     key_type::ed25519};
const std::string password = "not-a-real-password";

struct fixture {
    fixture()
    {
        std::string name = (fs::temp_directory_path() / "pkcs12-test-XXXXXX").string();
        BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
        directory = name;
    }
    ~fixture() { fs::remove_all(directory); }

    void write(const std::string& name, std::string_view content) const
    {
        std::ofstream(directory / name, std::ios::binary) << content;
    }

    // What the command says; its exit code must be 0.
    std::string run(const std::string& command) const
    {
        const std::string output = (directory / "output").string();
        const int status =
            std::system(("cd " + directory.string() + " && " + command + " >output 2>&1").c_str());
        std::ostringstream text;
        text << std::ifstream(output).rdbuf();
        BOOST_TEST(status == 0, command << ": " << text.str());
        return text.str();
    }

    static bool is_there(const std::string& program)
    {
        if (std::system((program + " -help >/dev/null 2>&1").c_str()) == 0) return true;
        BOOST_TEST_MESSAGE("skipped: " << boost::unit_test::framework::current_test_case().p_name
                                       << ", because " << program << " is not installed");
        return false;
    }

    crypto::certificate_chain chain_for(const crypto::private_key& key) const
    {
        const auto all = crypto::read_chain(issuing.issue(key) + issuing.pem() + root.pem()).value();
        return crypto::order_chain(all, key.fingerprint()).value();
    }

    // Writes client.p12 for a fresh key.
    crypto::private_key export_key(key_type type) const
    {
        auto key = crypto::private_key::generate(type).value();
        const auto made =
            crypto::make_pkcs12(key, chain_for(key), "siem-forwarder", crypto::secret(password));
        BOOST_REQUIRE(made);
        write("client.p12", made->view());
        write("password", password + "\n");
        return key;
    }

    fs::path directory;
    test_support::test_ca root{"Test Root"};
    test_support::test_ca issuing{"Test Issuing", root};
};

BOOST_FIXTURE_TEST_SUITE(pkcs12, fixture)

BOOST_DATA_TEST_CASE_F(fixture, openssl_reads_it, boost::unit_test::data::xrange(types.size()))
{
    if (!is_there("openssl")) return;
    const auto key = export_key(types[sample]);
    const auto text = run("openssl pkcs12 -in client.p12 -passin file:password -nodes -info");
    BOOST_TEST(text.find("MAC: sha256, Iteration 10000") != std::string::npos, text);
    BOOST_TEST(text.find("PBES2, PBKDF2, AES-256-CBC, Iteration 10000, PRF hmacWithSHA256") !=
               std::string::npos);
    BOOST_TEST(text.find("friendlyName: siem-forwarder") != std::string::npos);
    BOOST_TEST(crypto::private_key::from_pem(text).value().fingerprint() == key.fingerprint());
    const auto chain = crypto::order_chain(crypto::read_chain(text).value(), key.fingerprint()).value();
    BOOST_TEST(chain.rest.size() == 2u);
}

BOOST_DATA_TEST_CASE_F(fixture, keytool_reads_it, boost::unit_test::data::xrange(types.size()))
{
    if (!is_there("keytool")) return;
    export_key(types[sample]);
    const auto text = run("keytool -list -v -storetype PKCS12 -keystore client.p12 -storepass:file password");
    BOOST_TEST(text.find("siem-forwarder") != std::string::npos);
    BOOST_TEST(text.find("PrivateKeyEntry") != std::string::npos);
    BOOST_TEST(text.find("CN=Test Root") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(refuses_what_nobody_could_open)
{
    const auto key = crypto::private_key::generate(key_type::ecdsa_p256).value();
    const auto other = crypto::private_key::generate(key_type::ecdsa_p256).value();
    const auto chain = chain_for(key);
    BOOST_CHECK(!crypto::make_pkcs12(key, chain, "a", crypto::secret()));
    BOOST_CHECK(!crypto::make_pkcs12(key, chain, "a", crypto::secret(std::string_view("a\0b", 3))));
    BOOST_CHECK(!crypto::make_pkcs12(other, chain, "a", crypto::secret(password)));
}

BOOST_DATA_TEST_CASE_F(fixture, recognises_its_own, boost::unit_test::data::xrange(types.size()))
{
    const auto key = crypto::private_key::generate(types[sample]).value();
    const auto other = crypto::private_key::generate(types[sample]).value();
    const auto chain = chain_for(key);
    const crypto::secret pass(password);
    const auto made = crypto::make_pkcs12(key, chain, "a", pass).value();
    BOOST_TEST(crypto::is_pkcs12_of(made.view(), pass, key, chain));

    auto shorter = chain;
    shorter.rest.pop_back();
    BOOST_TEST(!crypto::is_pkcs12_of(made.view(), pass, key, shorter));
    BOOST_TEST(!crypto::is_pkcs12_of(made.view(), pass, other, chain));
    BOOST_TEST(!crypto::is_pkcs12_of(made.view(), pass, key, chain_for(key)));  // renewed for the same key
    BOOST_TEST(!crypto::is_pkcs12_of(made.view(), crypto::secret("another"), key, chain));
    BOOST_TEST(!crypto::is_pkcs12_of(made.view(), crypto::secret(), key, chain));
    BOOST_TEST(!crypto::is_pkcs12_of("", pass, key, chain));

    std::string damaged(made.view());
    BOOST_TEST(!crypto::is_pkcs12_of(damaged + "x", pass, key, chain));
    BOOST_TEST(
        !crypto::is_pkcs12_of(std::string_view(damaged).substr(0, damaged.size() - 1), pass, key, chain));
    damaged[damaged.size() / 2] ^= 1;
    BOOST_TEST(!crypto::is_pkcs12_of(damaged, pass, key, chain));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
