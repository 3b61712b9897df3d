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

// The whole platform without its network: what arrives, what is done, what is answered.

namespace simulator {

class platform {
public:
    platform(const boost::json::value& configuration, const user_authority& authority);

    // Numbers the request and says which trouble it meets.
    effect arrive(request& incoming);

    // Does what the request asks for.
    response work(const request& incoming);

    // Fields of every answer; they are added late, so that an answer with a fault has them too.
    void finish(response& answer) const;

    // Back to the state and the configuration of the start.
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
    std::int64_t next_allowed_ms_ = 0;  // of requests_per_s
};

}  // namespace simulator
