#pragma once

#include "agent/disk/agent_record.hpp"
#include "agent/disk/directory.hpp"
#include "agent/disk/paths.hpp"
#include "agent/disk/store.hpp"

#include <string>

namespace disk {

// The private store as files under {state_dir}/private:
//   agent.json                                            owner, machine
//   exposures/<exposure>.json
//   users/<exposure>/<user>/state.json                    the record: what it does not name does not count
//   users/<exposure>/<user>/<generation>/{key,request,certificate}.pem
// Loading changes nothing, so that any command may look while the daemon writes; everything else is for the
// holder of the lock. A record that is there but cannot be read is reported in `unreadable` and never written
// over.
class file_store : public store {
public:
    explicit file_store(paths, agent_record here = this_installation());

    // Remembers owner and machine on the first start; changes nothing afterwards.
    [[nodiscard]] policy::result<void> remember_installation();
    // The copy from another machine is ours from now on. The remembered owner stays.
    [[nodiscard]] policy::result<void> take_over();

    // The state directory was copied from another machine, and not taken over.
    [[nodiscard]] policy::result<bool> is_copied() const;

    [[nodiscard]] policy::result<policy::stored_state> load() override;

    [[nodiscard]] policy::result<void> save(const policy::stored_user&) override;
    [[nodiscard]] policy::result<void> save(const policy::stored_exposure&) override;

    [[nodiscard]] policy::result<void> make_room() override;

    [[nodiscard]] policy::result<void> write_generation(const policy::user_name&,
                                                        const std::string& generation,
                                                        const crypto::secret& key_pem,
                                                        const std::string& csr_pem) override;
    [[nodiscard]] policy::result<crypto::secret> read_key(const policy::user_name&,
                                                          const std::string& generation) override;
    [[nodiscard]] policy::result<std::string> read_csr(const policy::user_name&,
                                                       const std::string& generation) override;
    [[nodiscard]] policy::result<void> write_certificate(const policy::user_name&,
                                                         const std::string& generation,
                                                         const std::string& fullchain_pem) override;
    [[nodiscard]] policy::result<std::string> read_certificate(const policy::user_name&,
                                                               const std::string& generation) override;
    std::filesystem::path generation_directory(const policy::user_name&,
                                               const std::string& generation) override;
    [[nodiscard]] policy::result<void> erase_generation(const policy::user_name&,
                                                        const std::string& generation) override;
    [[nodiscard]] policy::result<void> erase(const policy::user_name&) override;

private:
    [[nodiscard]] policy::result<void> load_installation(policy::stored_state&) const;

    paths where_;
    agent_record here_;
};

}  // namespace disk
