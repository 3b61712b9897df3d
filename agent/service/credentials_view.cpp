#include "agent/service/credentials_view.hpp"

#include "agent/disk/state_database.hpp"

namespace service {

std::vector<credential_view> credential_views(const policy::desired_state& desired, const disk::paths& where)
{
    std::vector<credential_view> views;
    auto records = disk::state_database::load_credentials(where);
    for (const auto& credential : desired.credentials) {
        const auto& record = records[credential.name];
        const char* state = record.updated_at ? "valid" : "absent";
        if (!record.last_error.empty()) state = "failing";
        views.push_back({.name = credential.name,
                         .state = state,
                         .updated_at = record.updated_at,
                         .last_error = record.last_error});
    }
    return views;
}

}  // namespace service
