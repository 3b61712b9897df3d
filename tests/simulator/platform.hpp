#pragma once

#include "behaviour.hpp"
#include "catalog.hpp"
#include "exposure.hpp"
#include "faults.hpp"
#include "http.hpp"
#include "journal.hpp"
#include "oauth.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

// The whole platform except for its network: requests in, responses out.

namespace simulator {

class platform {
public:
    platform(const boost::json::value& configuration, const user_authority& authority);

    // Numbers the request and selects its fault, if any.
    effect arrive(request& incoming);

    // Processes the request.
    response work(const request& incoming);

    // Adds the fields common to all responses, last, so that injected responses have them too.
    void finish(response& answer) const;

    // Restores the initial state and configuration.
    void reset();

    boost::json::object describe() const;
    boost::json::object save() const;
    void load(const boost::json::object& saved);

    behaviour_document behaviour;
    fault_rules faults;
    journal log;
    oauth_service oauth;
    exposure_service exposure;
    catalog_service catalog;

private:
    response dispatch(const route& to, const request& incoming, journal_record& record);

    boost::json::value configuration_;
    std::int64_t next_allowed_ms_ = 0;  // for requests_per_s
};

}  // namespace simulator
