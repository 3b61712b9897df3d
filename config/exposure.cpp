#include "config/sections.hpp"
#include "policy/naming.hpp"

namespace config {
namespace {

std::optional<policy::business_group> read_group(const layers& exposure, const std::string& tenant,
                                                 findings& found)
{
    if (!exposure.find("business_group")) return std::nullopt;
    const auto group = exposure.in("business_group");
    if (!group.has("id") && !group.has("name"))
        found.wrong(group.where("id"),
                    "a business group needs `id` or `name`; write one or remove `business_group`");
    return policy::business_group{.id = group.text("id", {}), .name = group.text("name", tenant)};
}

}  // namespace

policy::desired_exposure read_exposure(const layers& exposure, const layers& defaults,
                                       const std::string& state_dir, findings& found)
{
    policy::desired_exposure read;
    read.name = exposure.text("name", {});
    read.variant = exposure.word("variant", policy::from_word<policy::variant>, read.variant);
    read.base_url = exposure.url("base_url");
    read.tenant = exposure.text("tenant", {});
    read.group = read_group(exposure, read.tenant, found);
    read.create_instance = exposure.boolean("create_instance", read.create_instance);
    read.encoding = exposure.word("csr_encoding", policy::from_word<policy::csr_encoding>, read.encoding);
    read.broker = exposure.text("broker", {});
    read.broker_ca_file = exposure.path("broker_ca_file");
    read.group_fields =
        exposure.word("group_fields", policy::from_word<policy::group_fields>, read.group_fields);
    read.topic = exposure.text("topic", std::string(policy::prefix_of(read.variant)) + "-" + read.tenant);

    const auto inherited = exposure.in("defaults").over(defaults);
    for (const auto* user : exposure.list("users"))
        read.users.push_back(read_user(layers(user).over(inherited), exposure, read, state_dir, found));
    return read;
}

}  // namespace config
