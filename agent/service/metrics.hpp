#pragma once

#include "agent/service/status_view.hpp"
#include "policy/action.hpp"
#include "policy/result.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

// The daemon's counters, and all metrics as text (contract section 7; Prometheus text exposition format
// 0.0.4). Pure.

namespace service {

struct rotation_counts {
    std::uint64_t success = 0;
    std::uint64_t failure = 0;
};

// How long the passes over one exposure took.
struct durations {
    static constexpr std::array<double, 10> bounds = {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300};
    std::array<std::uint64_t, bounds.size()> at_most{};  // per bucket, not cumulative
    std::uint64_t count = 0;
    double seconds = 0;

    void add(std::chrono::duration<double>);
};

class counters {
public:
    // Counts certificates put in use, and failed steps towards one. Other steps do not count.
    void count_step(const policy::action&, const policy::result<void>& outcome);
    void count_request(std::string_view operation, std::string_view status);
    void count_pass(const std::string& exposure, std::chrono::duration<double>);

    // Drops the counts of all other exposures and users, so that edits of the file do not grow memory.
    void keep_only(const status_view&);

private:
    friend std::string metrics_text(const status_view&, const counters&, const std::string&, policy::instant);

    std::map<policy::user_name, rotation_counts> rotations_;
    std::map<std::pair<std::string, std::string>, std::uint64_t> requests_;  // operation and status
    std::map<std::string, durations> passes_;
};

// All metrics of contract section 7.
std::string metrics_text(const status_view&, const counters&, const std::string& version,
                         policy::instant now);

inline constexpr const char* metrics_type = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace service
