#pragma once

#include "agent/platform/api_channel.hpp"
#include "agent/platform/exposure_api.hpp"

namespace platform {

// The exposure API over HTTP (platform-api section 4.4).
class exposure_client final : public exposure_api {
public:
    explicit exposure_client(api_channel& channel) : channel_(channel) {}  // which outlives this

    io::task<std::vector<policy::remote_instance>> list_instances(exposure_address) override;
    io::task<std::string> create_instance(exposure_address, policy::business_group) override;
    io::task<user_list> list_users(exposure_address, std::string instance_id) override;
    io::task<std::string> create_user(exposure_address, std::string instance_id, policy::submission,
                                      policy::business_group, std::string csr) override;
    io::task<user_detail> read_user(exposure_address, std::string instance_id, std::string user_id) override;
    io::task<void> delete_user(exposure_address, std::string instance_id, std::string user_id) override;
    std::optional<policy::duration> clock_ahead() const override { return channel_.clock_ahead(); }

private:
    api_channel& channel_;
};

}  // namespace platform
