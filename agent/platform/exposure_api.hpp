#pragma once

#include "agent/io/awaitable.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

#include <string>
#include <vector>

// Port: the event exposure self-service API of one exposure (platform-api section 4.4), one function a call.
// Answers are read tolerantly (contract section 3), requests are exact. Every call carries the access token
// and, after a 401, is repeated once with a refreshed one.

namespace platform {

struct exposure_address {
    std::string name;  // of the exposure, for messages
    policy::variant variant = policy::variant::log;
    std::string base_url;
    std::string tenant;
};

struct user_list {
    std::vector<policy::remote_user> users;
    bool cut_off = false;  // the answer shows signs of paging
};

struct user_detail {
    policy::remote_user user;
    std::string certificate;  // as sent; empty while there is none
};

class exposure_api {
public:
    virtual ~exposure_api() = default;

    virtual io::task<std::vector<policy::remote_instance>> list_instances(exposure_address) = 0;

    // The new instance's id; empty when the platform accepted without naming it.
    virtual io::task<std::string> create_instance(exposure_address, policy::business_group) = 0;

    virtual io::task<user_list> list_users(exposure_address, std::string instance_id) = 0;

    // The new user's id; empty when the platform accepted without naming it.
    // csr: base64 as it is sent. errc::no_answer, bad_answer and unavailable leave open whether a user was
    // created.
    virtual io::task<std::string> create_user(exposure_address, std::string instance_id, policy::submission,
                                              policy::business_group, std::string csr) = 0;

    // errc::not_found when there is no such user.
    virtual io::task<user_detail> read_user(exposure_address, std::string instance_id,
                                            std::string user_id) = 0;

    // This host's clock minus the platform's, by the Date of its last answer; nullopt before the first.
    virtual std::optional<policy::duration> clock_ahead() const = 0;

    // Success also when it was gone already. Only a later read tells the truth.
    virtual io::task<void> delete_user(exposure_address, std::string instance_id, std::string user_id) = 0;
};

}  // namespace platform
