#pragma once

#include "agent/io/async.hpp"
#include "agent/platform/api_channel.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

#include <functional>
#include <string>
#include <string_view>
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

// --- The exposure API over HTTP (platform-api section 4.4), and its JSON (sections 2.3, 2.4; contract
// section 3).

class exposure_client final : public exposure_api {
public:
    explicit exposure_client(api_channel& channel) : channel_(channel) {}  // which outlives this

    io::task<std::vector<policy::remote_instance>> list_instances(exposure_address) override;
    io::task<policy::remote_instance> read_instance(exposure_address, std::string instance_id) override;
    io::task<created> create_instance(exposure_address, group_choice) override;
    io::task<list_end> list_users(exposure_address, std::string instance_id, user_handler) override;
    io::task<created> create_user(exposure_address, std::string instance_id, policy::submission, group_choice,
                                  std::string csr) override;
    io::task<user_detail> read_user(exposure_address, std::string instance_id, std::string user_id) override;
    io::task<void> delete_user(exposure_address, std::string instance_id, std::string user_id) override;
    std::optional<policy::duration> clock_ahead(const exposure_address&) const override;

private:
    // A POST whose body depends on the names of the group's members.
    io::task<created> create(api_call, exposure_address, group_choice,
                             std::function<std::string(policy::group_fields)> body);

    api_channel& channel_;
};

// Readers are tolerant: every known spelling of a field, unknown fields ignored, missing ones empty. What
// they do not believe is errc::bad_answer; its sentence goes on from "the answer of HOST: ".

// Every instance must have an id.
[[nodiscard]] policy::result<std::vector<policy::remote_instance>> read_instances(std::string_view body);
[[nodiscard]] policy::result<policy::remote_instance> read_instance(std::string_view body);

// A list of users, piece by piece. An entry without a usable id is left out, and the list counts as cut off.
class user_list_reader {
public:
    explicit user_list_reader(exposure_api::user_handler each);
    user_list_reader(const user_list_reader&) = delete;
    ~user_list_reader();

    policy::result<void> write(std::string_view piece);
    policy::result<list_end> finish();

private:
    struct state;
    std::unique_ptr<state> state_;
};

[[nodiscard]] policy::result<user_detail> read_user(std::string_view body);

// The id in the answer to a POST; empty when there is none, whatever the answer is.
std::string read_created_id(std::string_view body);

// A Link header (RFC 8288) with a relation "next": the list may be cut off.
bool names_next_page(std::string_view link_header);

// The names that a variant uses unless something else is known.
policy::group_fields own_fields(policy::variant) noexcept;

// Bodies of the POSTs, exactly the fields of the reference. The id of a group is left out when it is empty.
std::string instance_body(policy::group_fields, const policy::business_group&);
std::string user_body(policy::group_fields, const policy::submission&, const policy::business_group&,
                      std::string_view csr);

}  // namespace platform
