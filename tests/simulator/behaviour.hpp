#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// How the platform behaves, as one JSON document that can be changed at any time. README.md describes every
// key and its default; the defaults are the document at the top of behaviour.cpp.

namespace simulator {

struct oauth_client {
    std::string id{};
    std::string secret{};
    std::vector<std::string> redirect_urls{};  // a trailing slash is ignored
    bool refresh_tokens = true;
};

struct oauth_person {
    std::string login{};
    std::string email{};
    std::string first_name{};
    std::string last_name{};
};

struct oauth_behaviour {
    std::vector<oauth_client> clients{};
    std::vector<oauth_person> persons{};
    std::string person{};  // the person that logs in at the authorize endpoint
    std::string userstore{};
    std::string authorize_error{};  // returned instead of a code
    std::string authorize_error_description{};
    bool echo_state = true;
    std::int64_t code_lifetime_s = 600;
    std::int64_t access_token_lifetime_s = 604'799;
    boost::json::value expires_in{};   // "auto": the true value, "absent": omitted, otherwise sent as is
    std::string refresh_token{};       // rotate | same | login-only | none
    std::int64_t refresh_grace_s = 0;  // how long a used refresh token stays valid
    bool revoke_family_on_reuse = false;
};

struct certificate_behaviour {
    std::int64_t lifetime_s = 31'536'000;
    std::int64_t not_before_offset_s = -60;
    std::string usage{};   // client | server | both | none
    std::string key{};     // own | other
    std::string answer{};  // present | absent | null | empty | garbage
    std::string format{};  // pem | pem-crlf | pem-escaped | pem-text | base64-pem | base64-der
    std::string chain{};   // none | intermediate | full
    std::string order{};   // leaf-first | leaf-last | shuffled
};

struct exposure_behaviour {
    std::int64_t instance_ready_delay_ms = 200;  // negative: stays IN PROGRESS
    std::int64_t ready_delay_ms = 200;
    std::int64_t list_lag_ms = 0;
    std::string list{};                 // full | empty | cut | html
    std::int64_t list_limit = 0;        // items of a cut list
    boost::json::object list_fields{};  // added next to "items"
    std::string empty_list{};           // items | null | object: representation of an empty list
    std::string date_format{};
    std::int64_t expiration_offset_s = 0;  // expirationDate minus notAfter
    std::string contact{};                 // nested | flat | both | null | absent
    std::string group{};          // variant | business-group | space-id | space | all | null | absent
    std::string group_in_body{};  // any | business-group | space: required names of the group in a POST
    bool group_id_required = false;
    std::string optional_fields{};  // present | null | absent
    bool unknown_fields = false;
    std::string csr_encoding{};  // any | pem | der: required encoding of a new user's csr
    bool show_csr = true;
    std::int64_t description_limit = 0;  // in characters; 0: none
    std::int64_t surplus_users = 0;      // additional users created by one POST
    bool exclusive_consumer_group = false;
    bool unique_common_names = true;
    std::int64_t create_status = 201;
    std::int64_t delete_status = 204;
    bool id_in_answer = true;
    certificate_behaviour certificate;
};

struct catalog_behaviour {
    boost::json::object items{};  // item id -> its data object; empty: all items have the reference's keys
    std::string id_in{};          // body | location | both | nowhere
    std::string status_style{};   // final | phase | state
    std::vector<std::string> steps{};
    std::int64_t step_ms = 200;
    std::string outcome{};  // successful | failed | rejected | never
    boost::json::object elements{};
    std::vector<std::string> missing_elements{};
    bool decoys = true;
    bool reversed = false;
    boost::json::value raw_update{};  // sent verbatim as the response to an update, unless null
};

struct behaviour {
    std::string server_certificate{};  // good | unknown-ca | other-host | expired
    std::int64_t clock_offset_s = 0;
    std::int64_t requests_per_s = 0;     // requests above it get a 429; 0: unlimited
    std::int64_t retry_after_s = 0;      // sent with a 429; 0: no Retry-After
    std::vector<std::string> tenants{};  // empty: any
    oauth_behaviour oauth;
    exposure_behaviour exposure;
    catalog_behaviour catalog;
};

// The document and the values read from it. A change takes effect as a whole or not at all.
class behaviour_document {
public:
    behaviour_document();

    // Applies a merge patch (RFC 7396) in which null restores the default; throws bad_request on an unknown
    // key, a wrong type or an unknown value.
    void patch(const boost::json::value& change);
    void reset();

    const behaviour& get() const { return values_; }
    const boost::json::value& json() const { return document_; }

private:
    boost::json::value document_;
    behaviour values_;
};

}  // namespace simulator
