#include "agent/platform/paging.hpp"

#include "agent/platform/json.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>

namespace platform {

namespace json = boost::json;

namespace {

constexpr std::array next_keys = {
    "next",     "nextPage",    "next_page", "nextPageToken", "next_page_token", "nextCursor",
    "nextLink", "next_cursor", "nextToken", "cursor",        "continue",        "@odata.nextLink"};
constexpr std::array more_keys = {"hasMore", "has_more", "hasNext", "truncated"};
constexpr std::array total_keys = {"totalElements", "total_elements", "totalCount", "total_count",
                                   "totalItems",    "total_items",    "total",      "count"};
constexpr std::array page_keys = {"page", "pagination", "paging", "meta", "metadata", "links", "_links"};

bool says_something(const json::value& value)
{
    if (value.is_null()) return false;
    if (const auto* text = value.if_string()) return !text->empty();
    if (const auto* flag = value.if_bool()) return *flag;
    if (const auto* object = value.if_object()) return !object->empty();
    return true;
}

bool shows_more_here(const json::object& object, std::size_t items)
{
    const auto set = [&](const char* key) {
        const auto* member = object.if_contains(key);
        return member != nullptr && says_something(*member);
    };
    const auto above = [&](const char* key) {
        const auto* member = object.if_contains(key);
        if (member == nullptr || !member->is_number()) return false;
        boost::system::error_code error;
        const auto total = member->to_number<double>(error);
        return !error && total > static_cast<double>(items);
    };
    const auto last = object.if_contains("last");  // of Spring's pages: false on all but the last
    return std::ranges::any_of(next_keys, set) || std::ranges::any_of(more_keys, set) ||
           std::ranges::any_of(total_keys, above) ||
           (last != nullptr && last->is_bool() && !last->get_bool());
}

}  // namespace

bool names_next_page(std::string_view link_header)
{
    for (auto at = link_header.find("rel="); at != std::string_view::npos;
         at = link_header.find("rel=", at + 1)) {
        auto relation = link_header.substr(at + 4);
        if (relation.starts_with('"')) {
            relation.remove_prefix(1);
            relation = relation.substr(0, relation.find('"'));
        } else {
            relation = relation.substr(0, relation.find_first_of(",;"));
        }
        if (relation.find("next") != std::string_view::npos) return true;
    }
    return false;
}

bool shows_more(const json::object& list, std::size_t items)
{
    if (shows_more_here(list, items)) return true;
    return std::ranges::any_of(page_keys, [&](const char* key) {
        const auto* page = object_of(list, key);
        return page != nullptr && shows_more_here(*page, items);
    });
}

}  // namespace platform
