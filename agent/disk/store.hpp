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

// Port: the private store. What one step changes is one value and one transaction.

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

// What is remembered of one kept credential. The values are only in the file that was asked for.
struct credential_record {
    std::string wanted;                         // fingerprint of its entry when it was fetched last
    std::optional<policy::instant> updated_at;  // the file was written
    std::optional<policy::instant> fetched_at;  // the platform gave the values
    std::string digest;                         // of the file's content
    bool hooks_pending = false;                 // the file changed, its hooks have not all returned 0
    int failures = 0;
    std::string last_error;  // empty: the last attempt went well
    std::optional<policy::instant> next_attempt;

    bool operator==(const credential_record&) const = default;
};
BOOST_DESCRIBE_STRUCT(credential_record, (),
                      (wanted, updated_at, fetched_at, digest, hooks_pending, failures, last_error,
                       next_attempt))

// Everything in it is stored, or nothing.
struct change {
    std::vector<policy::stored_user> users;  // whole records; keys of generations that they do not name go
    std::vector<generation_key> keys;        // of generations that a record here or there names
    std::vector<generation_certificate> certificates;
    std::vector<policy::user_name> forgotten;  // the record and every key
    std::vector<policy::stored_exposure> exposures;
    std::vector<policy::history_event> events;
    std::map<std::string, credential_record> credentials;
    std::map<std::string, std::string> values;  // what other subjects remember, by name; empty: forgotten
    std::optional<policy::notify_memory> notified;
    std::optional<policy::decommission> leaving;
    bool staying = false;  // `leaving` is forgotten
    std::optional<crypto::secret> tokens;
};

class store {
public:
    virtual ~store() = default;

    // All users and exposures with their facts; no key is read. Blocks: offload it.
    virtual policy::result<policy::stored_state> load() = 0;

    // On stable storage when it returns.
    virtual io::task<void> commit(change) = 0;

    // Before anything is sent whose answer must be kept: the commit of the answer succeeds even if the disk
    // fills up meanwhile.
    virtual io::task<void> make_room() = 0;

    // Block: offload them.
    virtual policy::result<crypto::secret> read_key(const policy::user_name&,
                                                    const std::string& generation) = 0;
    virtual policy::result<std::string> read_csr(const policy::user_name&, const std::string& generation) = 0;
    virtual policy::result<std::string> read_certificate(const policy::user_name&,
                                                         const std::string& generation) = 0;
};

}  // namespace disk
