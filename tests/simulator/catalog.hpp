#pragma once

#include "behaviour.hpp"
#include "http.hpp"
#include "journal.hpp"
#include "routes.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <map>
#include <string>

// Catalog items, the requests for them, and the forms of resource actions (reference,
// sections 2.1, 2.2, 4.1, 4.2).

namespace simulator {

class catalog_service {
public:
    explicit catalog_service(const behaviour_document& document) : document_{document} {}

    response handle(const route& to, const request& incoming, journal_record& record);

    void forget_everything() { orders_.clear(); }
    boost::json::object describe() const;

private:
    struct order {
        std::string item{};
        std::string business_group{};
        boost::json::value body{};
        std::int64_t created_ms = 0;
    };

    const catalog_behaviour& rules() const { return document_.get().catalog; }
    response make_template(const std::string& item) const;
    response submit(const route& to, const std::string& business_group, const request& incoming,
                    journal_record& record);
    response show_order(const std::string& id) const;
    boost::json::object view_of(const std::string& id, const order& shown) const;
    response form() const;
    response compute(const request& incoming, journal_record& record) const;
    boost::json::object element_update(const std::string& id, const boost::json::value& value) const;
    boost::json::object elements() const;

    const behaviour_document& document_;
    std::map<std::string, order> orders_;
};

}  // namespace simulator
