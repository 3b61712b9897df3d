#pragma once

#include "tests/policy/model/world.hpp"

#include <functional>

// The platform as the agent sees it: answers, lost and wrong answers. Mirrors agent/platform/exposure_api.

namespace model {

struct user_list {
    std::vector<policy::remote_user> users;
    bool cut_off = false;
};

struct user_detail {
    policy::remote_user user;
    std::optional<certificate_file> certificate;
};

class cloud {
public:
    explicit cloud(world& w) : w_(w) {}

    policy::result<std::vector<policy::remote_instance>> list_instances(const std::string& place);
    policy::result<policy::remote_instance> read_instance(const std::string& place, const std::string& id);
    policy::result<void> create_instance(const std::string& place);
    policy::result<user_list> list_users(const std::string& place, const std::string& instance);
    policy::result<user_detail> read_user(const std::string& place, const std::string& instance,
                                          const std::string& id);
    // Calls `on_the_wire` before the first byte is sent.
    policy::result<std::string> create_user(const std::string& place, const std::string& instance,
                                            const user_name&, const policy::submission&,
                                            const std::string& key, const std::function<void()>& on_the_wire);
    // Calls `at_the_platform` with the user being deleted.
    policy::result<void> delete_user(const std::string& place, const std::string& instance,
                                     const std::string& id,
                                     const std::function<void(const cloud_user&)>& at_the_platform);

    std::optional<duration> clock_ahead;  // from the Date header of the last response

private:
    std::optional<policy::failure> before_processing(bool safe);
    std::optional<policy::failure> after_processing();
    cloud_user make_user(const std::string& place, const std::string& instance, const user_name&,
                         const policy::submission&, const std::string& key);
    bool is_twin(const cloud_user&) const;
    void answered() { clock_ahead = w_.clock_ahead; }

    world& w_;
};

}  // namespace model
