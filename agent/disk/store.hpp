#pragma once

#include "agent/io/async.hpp"
#include "crypto/secret.hpp"
#include "policy/notify.hpp"
#include "policy/stored.hpp"

#include <boost/describe.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

// Port: the private store. The changes of one step are one value and one transaction.

namespace disk {

// Key (PKCS#8 PEM) and CSR (PEM) of a new generation.
struct generation_key {
    policy::user_name name;
    std::string generation;
    crypto::secret key_pem;
    std::string csr_pem;
};

// Leaf first, then the rest of the chain, PEM.
struct generation_certificate {
    policy::user_name name;
    std::string generation;
    std::string fullchain_pem;
};

// The record of one kept credential. Its values are stored only in the configured file.
struct credential_record {
    std::string wanted;                         // fingerprint of its configuration entry at the last fetch
    std::optional<policy::instant> updated_at;  // when the file was written
    std::optional<policy::instant> fetched_at;  // when the platform returned the values
    std::string digest;                         // of the file's content
    bool hooks_pending = false;                 // the file changed and not all hooks have returned 0
    int failures = 0;
    std::string last_error;  // empty: the last attempt succeeded
    std::optional<policy::instant> next_attempt;

    bool operator==(const credential_record&) const = default;
};
BOOST_DESCRIBE_STRUCT(credential_record, (),
                      (wanted, updated_at, fetched_at, digest, hooks_pending, failures, last_error,
                       next_attempt))

// Stored as a whole or not at all.
struct change {
    std::vector<policy::stored_user> users;  // whole records; keys of generations not named there are deleted
    std::vector<generation_key> keys;        // for generations named by a record here or in the store
    std::vector<generation_certificate> certificates;
    std::vector<policy::user_name> forgotten;  // delete the record and every key
    std::vector<policy::stored_exposure> exposures;
    std::vector<policy::history_event> events;
    std::map<std::string, credential_record> credentials;
    std::map<std::string, std::string> values;  // values of other components, by name; empty: delete
    std::optional<policy::notify_memory> notified;
    std::optional<policy::decommission> leaving;
    bool staying = false;  // deletes `leaving`
    std::optional<crypto::secret> tokens;
};

class store {
public:
    virtual ~store() = default;

    // All users and exposures with their facts; reads no keys. Blocks: offload it.
    virtual policy::result<policy::stored_state> load() = 0;

    // On stable storage when it returns.
    virtual io::task<void> commit(change) = 0;

    // Called before anything is sent whose response must be kept: the commit of the response
    // succeeds even if the disk fills up meanwhile.
    virtual io::task<void> make_room() = 0;

    // These block: offload them.
    virtual policy::result<crypto::secret> read_key(const policy::user_name&,
                                                    const std::string& generation) = 0;
    virtual policy::result<std::string> read_csr(const policy::user_name&, const std::string& generation) = 0;
    virtual policy::result<std::string> read_certificate(const policy::user_name&,
                                                         const std::string& generation) = 0;
};

}  // namespace disk
