#pragma once

#include "agent/io/async.hpp"
#include "agent/platform/api_channel.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

// Port: the event exposure self-service API of one exposure (platform-api section 4.4), one
// function per call. Responses are parsed tolerantly (contract section 3), requests are exact.
// Every call carries the access token and is repeated once with a refreshed one after a 401.

namespace platform {

struct exposure_address {
    std::string name;  // of the exposure, for messages
    policy::variant variant = policy::variant::log;
    std::string base_url;
    std::string tenant;
};

// The business group of a POST, and which field names to try first; auto_: the variant's own. After a clean
// 400 or 422 the other ones are sent once, unless the choice is fixed.
struct group_choice {
    policy::business_group group;
    policy::group_fields fields = policy::group_fields::auto_;
    bool fixed = false;  // configured, or shown by the instance
};

struct created {
    std::string id;                                             // empty if the answer does not contain it
    policy::group_fields fields = policy::group_fields::auto_;  // the field names that were accepted
};

struct list_end {
    std::size_t users = 0;
    bool cut_off = false;  // the answer shows signs of paging
};

struct user_detail {
    policy::remote_user user;
    std::string certificate;  // as received; empty while there is none
};

class exposure_api {
public:
    virtual ~exposure_api() = default;

    // Receives the users one by one, because the list may not fit in memory. They mean nothing
    // unless the call succeeds.
    using user_handler = std::function<void(policy::remote_user)>;

    virtual io::task<std::vector<policy::remote_instance>> list_instances(exposure_address) = 0;

    // errc::not_found if the instance does not exist.
    virtual io::task<policy::remote_instance> read_instance(exposure_address, std::string instance_id) = 0;

    virtual io::task<created> create_instance(exposure_address, group_choice) = 0;

    virtual io::task<list_end> list_users(exposure_address, std::string instance_id, user_handler) = 0;

    // csr: base64 as sent. errc::no_answer, bad_answer and unavailable leave open whether the user
    // was created.
    virtual io::task<created> create_user(exposure_address, std::string instance_id, policy::submission,
                                          group_choice, std::string csr) = 0;

    // errc::not_found if the user does not exist.
    virtual io::task<user_detail> read_user(exposure_address, std::string instance_id,
                                            std::string user_id) = 0;

    // Our clock minus the platform's, from the Date header of its last response; nullopt before the first.
    virtual std::optional<policy::duration> clock_ahead(const exposure_address&) const = 0;

    // Also succeeds if the user was already gone. Only a later read proves the deletion.
    virtual io::task<void> delete_user(exposure_address, std::string instance_id, std::string user_id) = 0;
};

// --- The exposure API over HTTP (platform-api section 4.4), and its JSON (sections 2.3, 2.4; contract
// section 3).

class exposure_client final : public exposure_api {
public:
    explicit exposure_client(api_channel& channel) : channel_(channel) {}  // must outlive this object

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
    // A POST whose body depends on the field names of the group.
    io::task<created> create(api_call, exposure_address, group_choice,
                             std::function<std::string(policy::group_fields)> body);

    api_channel& channel_;
};

// Readers are tolerant: they accept every known spelling of a field, ignore unknown fields and leave
// missing ones empty. What they reject is errc::bad_answer; its message continues "the answer of HOST: ".

// Every instance must have an id.
[[nodiscard]] policy::result<std::vector<policy::remote_instance>> read_instances(std::string_view body);
[[nodiscard]] policy::result<policy::remote_instance> read_instance(std::string_view body);

// Parses a list of users in chunks. An entry without a usable id is left out, and the list counts as cut off.
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

// The id in the response to a POST; empty if there is none, whatever the response is.
std::string read_created_id(std::string_view body);

// Whether a Link header (RFC 8288) has a relation "next": the list may be cut off.
bool names_next_page(std::string_view link_header);

// The field names that a variant uses unless others are known.
policy::group_fields own_fields(policy::variant) noexcept;

// Bodies of the POSTs, with exactly the fields of the reference. An empty group id is omitted.
std::string instance_body(policy::group_fields, const policy::business_group&);
std::string user_body(policy::group_fields, const policy::submission&, const policy::business_group&,
                      std::string_view csr);

}  // namespace platform
