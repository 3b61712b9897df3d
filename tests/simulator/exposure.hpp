#pragma once

#include "behaviour.hpp"
#include "ca.hpp"
#include "csr.hpp"
#include "http.hpp"
#include "journal.hpp"
#include "routes.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <string>
#include <vector>

// The self-service API of the three event exposure services (reference, sections 2.3, 2.4 and 4.4).

namespace simulator {

struct instance {
    std::string id{};
    const variant* service = nullptr;
    std::string tenant{};
    std::string name{};
    boost::json::value group_id{};
    boost::json::value group_name{};
    std::string status{};  // empty: follows from the delay
    std::int64_t created_ms = 0;
    std::int64_t ready_delay_ms = 0;  // negative: until the behaviour is no longer "never"
};

struct user {
    std::string id{};
    std::string instance{};
    const variant* service = nullptr;
    std::string tenant{};
    std::string name{};
    std::string description{};
    std::string consumer_group{};
    std::string email{};
    boost::json::value group_id{};
    boost::json::value group_name{};
    std::string created_by{};
    std::string status{};  // empty: follows from the delay
    std::int64_t created_ms = 0;
    std::int64_t ready_delay_ms = 0;
    std::int64_t list_lag_ms = 0;
    std::int64_t expires_ms = 0;  // notAfter of the certificate
    std::string csr{};            // as posted
    std::string common_name{};
    std::string public_key_sha256{};
    std::string certificate_der{};
    boost::json::object fields{};  // override the actual values in responses
};

class exposure_service {
public:
    exposure_service(const behaviour_document& document, const user_authority& authority)
        : document_{document}, authority_{authority}
    {
    }

    // Handles one call by `person`.
    response handle(const route& to, const request& incoming, const std::string& person,
                    journal_record& record);

    // For the control API: adds a user made by somebody else, with the key of "csr" or one of its own.
    user& put_user(const boost::json::object& wanted, const std::string& person);
    instance& put_instance(
        const boost::json::object& wanted);  // even a second one, which the reference rules out
    void change_user(const std::string& id, const boost::json::object& change);
    std::size_t delete_users(const boost::json::object& filter);
    std::size_t delete_instances(const boost::json::object& filter);
    void forget_everything();

    boost::json::object describe() const;

    boost::json::object save() const;
    void load(const boost::json::object& saved);

private:
    const exposure_behaviour& rules() const { return document_.get().exposure; }
    instance* find_instance(const variant& service, const std::string& tenant);
    instance& expect_instance(const route& to);
    user& expect_user(const route& to);
    instance& add_instance(const variant& service, const std::string& tenant);
    response create_instance(const route& to, const request& incoming, journal_record& record);
    response list_instances(const route& to) const;
    response list_users(const route& to);
    response empty_list() const;
    response create_user(const route& to, const request& incoming, const std::string& person,
                         journal_record& record);
    response delete_user(const route& to);
    response created(const std::string& id, const std::string& name) const;
    user make_user(const instance& home, signing_request csr) const;
    void certify(user& owner, EVP_PKEY* key, const certificate_behaviour& rule) const;
    void reissue(user& target, std::int64_t lifetime_s) const;

    const behaviour_document& document_;
    const user_authority& authority_;
    std::vector<instance> instances_;
    std::vector<user> users_;
    boost::json::array deleted_;  // what was deleted, when and by whom
};

}  // namespace simulator
