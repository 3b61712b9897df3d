#pragma once

#include "behaviour.hpp"
#include "http.hpp"
#include "journal.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <map>
#include <string>

// The identity service: authorize and token endpoints, and the tokens they have issued (reference, sections
// 4.3 and 5).

namespace simulator {

// Who a code or token was issued to.
struct grant {
    std::string client{};
    std::string person{};
    std::uint64_t family = 0;  // the login that all these tokens derive from
};

class oauth_service {
public:
    explicit oauth_service(const behaviour_document& document) : document_{document} {}

    response authorize(const request& incoming);
    response token(const request& incoming, journal_record& record);

    // The owner of the bearer token in an Authorization header; empty if the token is unknown, expired or
    // revoked.
    std::string person_behind(const std::string& authorization) const;

    const oauth_person& person(const std::string& login) const;

    // For the control API. Empty client or person: the configured one.
    std::string mint_code(const std::string& client, const std::string& person,
                          const std::string& redirect_uri);
    std::string mint_refresh_token(const std::string& client, const std::string& person);
    std::string mint_access_token(const std::string& client, const std::string& person,
                                  std::int64_t lifetime_s);
    void expire_access_tokens();
    void revoke_everything();
    void forget_everything();

    // Fingerprints and counters; the tokens themselves are not exposed.
    boost::json::object describe() const;

    // Everything including the tokens, for the state file.
    boost::json::object save() const;
    void load(const boost::json::object& saved);

private:
    struct code {
        grant owner{};
        std::string redirect_uri{};
        std::int64_t expires_ms = 0;
        std::uint64_t presented = 0;
    };
    struct refresh_token {
        grant owner{};
        std::int64_t used_ms = 0;  // 0: not used yet
        bool revoked = false;
        std::uint64_t presented = 0;
    };
    struct access_token {
        grant owner{};
        std::int64_t expires_ms = 0;
        bool revoked = false;
    };

    const oauth_behaviour& rules() const { return document_.get().oauth; }
    const oauth_client* find_client(const std::string& id) const;
    grant new_grant(const std::string& client, const std::string& person);
    response exchange_code(const oauth_client& client, const parameters& form, journal_record& record);
    response refresh(const oauth_client& client, const parameters& form, journal_record& record);
    response answer(const oauth_client& client, const grant& owner, const std::string& old_refresh_token);
    std::string add_access_token(const grant& owner, std::int64_t lifetime_s);
    std::string add_refresh_token(const grant& owner);

    const behaviour_document& document_;
    std::map<std::string, code> codes_;
    std::map<std::string, refresh_token> refresh_tokens_;
    std::map<std::string, access_token> access_tokens_;
    std::uint64_t families_ = 0;
};

}  // namespace simulator
