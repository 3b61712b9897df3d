#include "tests/support/pkcs12.hpp"

#include "crypto/certificate.hpp"
#include "tests/support/test_ca.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

// The programs do this first, before any other use of OpenSSL.
struct wiping {
    wiping() { BOOST_TEST(crypto::wipe_memory_freed_by_openssl()); }
};
BOOST_TEST_GLOBAL_FIXTURE(wiping);

// A private scalar, stored masked so that the scan of memory does not find this copy.
class masked_scalar {
public:
    explicit masked_scalar(const crypto::private_key& key)
    {
        BIGNUM* number = nullptr;
        BOOST_REQUIRE(EVP_PKEY_get_bn_param(key.native(), OSSL_PKEY_PARAM_PRIV_KEY, &number) == 1);
        BN_bn2binpad(number, bytes_.data(), static_cast<int>(bytes_.size()));
        BN_clear_free(number);
        for (auto& byte : bytes_)
            byte ^= mask;
    }

    // Number of copies of the DER-encoded scalar in the memory of this process.
    int count_in_memory() const
    {
        int count = 0;
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) {
            unsigned long begin = 0;
            unsigned long end = 0;
            char writable = 0;
            if (std::sscanf(line.c_str(), "%lx-%lx r%c", &begin, &end, &writable) != 3 || writable != 'w')
                continue;
            const auto* at = reinterpret_cast<const volatile std::uint8_t*>(begin);
            const auto* const last = reinterpret_cast<const volatile std::uint8_t*>(end) - bytes_.size();
            for (; at <= last; ++at) {
                std::size_t same = 0;
                while (same < bytes_.size() && (at[same] ^ mask) == bytes_[same])
                    ++same;
                count += same == bytes_.size();
            }
        }
        return count;
    }

private:
    static constexpr std::uint8_t mask = 0x5a;
    std::array<std::uint8_t, 32> bytes_{};
};

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

    // Returns the output of the command; it must exit with 0.
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

    // Writes client.p12 for a newly generated key.
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

#ifndef __SANITIZE_ADDRESS__  // ASan keeps freed memory, and its own is too large to scan
BOOST_AUTO_TEST_CASE(no_private_scalar_stays_in_memory)
{
    std::vector<masked_scalar> scalars;
    for (int i = 0; i < 5; ++i) {
        const auto key = crypto::private_key::generate(key_type::ecdsa_p256).value();
        scalars.emplace_back(key);
        BOOST_REQUIRE(crypto::make_pkcs12(key, chain_for(key), "siem-forwarder", crypto::secret(password)));
    }
    for (const auto& scalar : scalars)
        BOOST_TEST(scalar.count_in_memory() == 0);
}
#endif

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
    BOOST_TEST(test_support::is_pkcs12_of(made.view(), pass, key, chain));

    auto shorter = chain;
    shorter.rest.pop_back();
    BOOST_TEST(!test_support::is_pkcs12_of(made.view(), pass, key, shorter));
    BOOST_TEST(!test_support::is_pkcs12_of(made.view(), pass, other, chain));
    BOOST_TEST(
        !test_support::is_pkcs12_of(made.view(), pass, key, chain_for(key)));  // renewed with the same key
    BOOST_TEST(!test_support::is_pkcs12_of(made.view(), crypto::secret("another"), key, chain));
    BOOST_TEST(!test_support::is_pkcs12_of(made.view(), crypto::secret(), key, chain));
    BOOST_TEST(!test_support::is_pkcs12_of("", pass, key, chain));

    std::string damaged(made.view());
    BOOST_TEST(!test_support::is_pkcs12_of(damaged + "x", pass, key, chain));
    BOOST_TEST(!test_support::is_pkcs12_of(std::string_view(damaged).substr(0, damaged.size() - 1), pass, key,
                                           chain));
    damaged[damaged.size() / 2] ^= 1;
    BOOST_TEST(!test_support::is_pkcs12_of(damaged, pass, key, chain));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
