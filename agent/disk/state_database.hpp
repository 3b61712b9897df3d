#pragma once

#include "agent/disk/installation.hpp"
#include "agent/disk/sqlite.hpp"
#include "agent/disk/state_directory.hpp"
#include "agent/disk/store.hpp"
#include "policy/desired.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace disk {

struct kept_tokens {
    crypto::secret text;
    bool in_place = true;  // false: stored only in the runtime directory
    bool copied = false;   // the state directory was copied from another machine and not taken over
};

// The private store: one SQLite database, {state_dir}/private/state.db (design section 4). Any
// program may read it while the daemon writes; only the holder of the lock writes, after open().
//
// Writes happen on a separate thread: changes that are ready at the same moment share one
// transaction and therefore one sync. A database that is damaged, written by a newer version or
// unreadable is an error with a remedy, and never replaced.
class state_database : public store {
public:
    // runtime_directory: fallback for tokens that the state directory cannot take; empty: none.
    explicit state_database(paths, std::filesystem::path runtime_directory = {},
                            installation here = this_installation());
    ~state_database() override;

    // Call before open(): writes run on this executor, in order, instead of on a separate thread.
    void write_on(boost::asio::any_io_executor executor) { lane_ = std::move(executor); }

    // Opens it for writing; the first start creates it. The state directory must be prepared and locked.
    [[nodiscard]] policy::result<void> open();

    [[nodiscard]] policy::result<policy::stored_state> load() override;
    [[nodiscard]] io::task<void> commit(change) override;
    [[nodiscard]] io::task<void> make_room() override;
    [[nodiscard]] policy::result<crypto::secret> read_key(const policy::user_name&,
                                                          const std::string& generation) override;
    [[nodiscard]] policy::result<std::string> read_csr(const policy::user_name&,
                                                       const std::string& generation) override;
    [[nodiscard]] policy::result<std::string> read_certificate(const policy::user_name&,
                                                               const std::string& generation) override;

    // Oldest first.
    [[nodiscard]] policy::result<std::vector<policy::history_event>> history(policy::instant since) const;
    // None: never stored.
    [[nodiscard]] policy::result<std::optional<std::string>> read_value(const std::string& name) const;
    // The configuration in force, for `status` while the file is invalid; stored if it differs from
    // the previous one.
    [[nodiscard]] io::task<void> keep_configuration(std::shared_ptr<const policy::desired_state>);
    // None: never stored, or stored by a version with another format.
    [[nodiscard]] policy::result<std::optional<policy::desired_state>> last_configuration() const;
    // A record that is missing or unusable counts as none: fetching again is harmless.
    [[nodiscard]] static std::map<std::string, credential_record> load_credentials(const paths&);

    // The notifications already sent. A missing or unreadable record counts as none: they are sent again.
    [[nodiscard]] static policy::notify_memory load_notifications(const paths&);

    // The tokens, opaque here. A refresh token exists only once: what the state directory cannot take is
    // kept in the runtime directory until it can (failure-modes S2, "save fails"). These calls block.
    [[nodiscard]] policy::result<std::optional<kept_tokens>> load_tokens() const;
    // A failure says where the tokens are kept meanwhile.
    [[nodiscard]] policy::result<void> save_tokens(const crypto::secret&);
    [[nodiscard]] policy::result<void> make_room_now();

    // Transactions written since open().
    int transactions() const noexcept { return transactions_; }

    // Whether the state directory was copied from another machine and not taken over.
    [[nodiscard]] policy::result<bool> is_copied() const;
    // Makes the copy from another machine ours from now on. The remembered owner stays.
    [[nodiscard]] policy::result<void> take_over();

private:
    using outcome = std::function<void(policy::result<void>)>;
    struct waiting_change;

    policy::result<void> create() const;
    policy::result<void> write_now(change);
    void submit(change, outcome);  // from any thread
    // on the write thread
    void write_waiting();
    policy::result<void> write_all(const std::vector<const change*>&);
    policy::result<void> write_with_reserve(const std::vector<const change*>&);
    policy::result<void> keep_reserve() const;
    policy::result<void> refuse_if_moved() const;

    policy::result<std::string> read_pem(const policy::user_name&, const std::string& generation,
                                         const char* sql, const char* what) const;
    policy::result<void> save_aside(const crypto::secret&) const;

    paths where_;
    std::filesystem::path aside_;  // fallback file for tokens; empty: none
    installation here_;
    std::optional<sqlite::connection> writer_;
    std::vector<std::shared_ptr<waiting_change>> waiting_;
    std::atomic<int> transactions_ = 0;
    std::shared_ptr<const policy::desired_state> configuration_;  // as stored
    std::optional<boost::asio::thread_pool> thread_;
    boost::asio::any_io_executor lane_;  // writes run here; empty before open()
};

// Whether a change could be stored, without trying, for callers that must not write. errc::disk_full, disk.
[[nodiscard]] policy::result<void> has_room(const paths&);

}  // namespace disk
