#pragma once

#include <boost/json/fwd.hpp>

#include <cstddef>
#include <string_view>

// Pagination is not in the reference (platform-api section 8): any sign of it means that a list may be cut
// off, and that what it lacks is not taken for absent.

namespace platform {

// A Link header (RFC 8288) with a relation "next".
bool names_next_page(std::string_view link_header);

// A next page or cursor, or a total above the number of items, in the list's object or in the object in it
// that describes the page.
bool shows_more(const boost::json::object& list, std::size_t items);

}  // namespace platform
