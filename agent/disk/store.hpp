#pragma once

#include "crypto/secret.hpp"
#include "policy/stored.hpp"

#include <filesystem>
#include <string>
#include <vector>

// Port: the private store. Records are values of policy; every save is on stable storage when it returns.
// Calls block: the reconcile room offloads them to the pool.

namespace disk {

class store {
public:
    virtual ~store() = default;

    // All users and exposures with their facts; one file a user, no key is read.
    virtual policy::result<policy::stored_state> load() = 0;

    virtual policy::result<void> save(const policy::stored_user&) = 0;
    virtual policy::result<void> save(const policy::stored_exposure&) = 0;

    // Before anything is sent whose answer must be kept: the saves of the answer succeed even if the disk
    // fills up meanwhile.
    virtual policy::result<void> make_room() = 0;

    // Key (PKCS#8 PEM) and CSR (PEM) of a new generation; nothing of it may be sent before this returned.
    virtual policy::result<void> write_generation(const policy::user_name&, const std::string& generation,
                                                  const crypto::secret& key_pem,
                                                  const std::string& csr_pem) = 0;
    virtual policy::result<crypto::secret> read_key(const policy::user_name&,
                                                    const std::string& generation) = 0;
    virtual policy::result<std::string> read_csr(const policy::user_name&, const std::string& generation) = 0;

    // Leaf first, then the rest of the chain, PEM.
    virtual policy::result<void> write_certificate(const policy::user_name&, const std::string& generation,
                                                   const std::string& fullchain_pem) = 0;
    virtual policy::result<std::string> read_certificate(const policy::user_name&,
                                                         const std::string& generation) = 0;

    // Where key.pem and certificate.pem of the generation lie, for the broker probe.
    virtual std::filesystem::path generation_directory(const policy::user_name&,
                                                       const std::string& generation) = 0;

    // Key, CSR and certificate of the generation; gone already is success.
    virtual policy::result<void> erase_generation(const policy::user_name&,
                                                  const std::string& generation) = 0;
    // The user's record and all that is left of it.
    virtual policy::result<void> erase(const policy::user_name&) = 0;
};

}  // namespace disk
