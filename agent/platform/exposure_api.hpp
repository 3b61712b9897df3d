#pragma once

#include "agent/io/awaitable.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

#include <functional>
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

// The business group of a POST, and the names of its members. auto_: the variant's own names, and after a
// clean 400 or 422 the other ones, once.
struct group_choice {
    policy::business_group group;
    policy::group_fields fields = policy::group_fields::auto_;
};

struct created {
    std::string id;                                             // empty: accepted without naming it
    policy::group_fields fields = policy::group_fields::auto_;  // the names that were accepted
};

struct list_end {
    std::size_t users = 0;
    bool cut_off = false;  // the answer shows signs of paging
};

struct user_detail {
    policy::remote_user user;
    std::string certificate;  // as sent; empty while there is none
};

class exposure_api {
public:
    virtual ~exposure_api() = default;

    // What the list shows, one user after the other: it may be longer than what should be kept in memory.
    // Without a good end it says nothing.
    using user_handler = std::function<void(policy::remote_user)>;

    virtual io::task<std::vector<policy::remote_instance>> list_instances(exposure_address) = 0;

    // errc::not_found when there is no such instance.
    virtual io::task<policy::remote_instance> read_instance(exposure_address, std::string instance_id) = 0;

    virtual io::task<created> create_instance(exposure_address, group_choice) = 0;

    virtual io::task<list_end> list_users(exposure_address, std::string instance_id, user_handler) = 0;

    // csr: base64 as it is sent. errc::no_answer, bad_answer and unavailable leave open whether a user was
    // created.
    virtual io::task<created> create_user(exposure_address, std::string instance_id, policy::submission,
                                          group_choice, std::string csr) = 0;

    // errc::not_found when there is no such user.
    virtual io::task<user_detail> read_user(exposure_address, std::string instance_id,
                                            std::string user_id) = 0;

    // This host's clock minus the platform's, by the Date of its last answer; nullopt before the first.
    virtual std::optional<policy::duration> clock_ahead(const exposure_address&) const = 0;

    // Success also when it was gone already. Only a later read tells the truth.
    virtual io::task<void> delete_user(exposure_address, std::string instance_id, std::string user_id) = 0;
};

}  // namespace platform
