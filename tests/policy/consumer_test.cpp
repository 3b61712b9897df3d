#include "policy/observed.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <ostream>
#include <vector>

namespace {

using policy::unit_facts;

const unit_facts running{
    .active_state = "active", .sub_state = "running", .result = "success", .invocation_id = "1"};
const unit_facts running_anew{
    .active_state = "active", .sub_state = "running", .result = "success", .invocation_id = "2"};
const unit_facts stopped{
    .active_state = "inactive", .sub_state = "dead", .result = "success", .invocation_id = "1"};
const unit_facts dead{
    .active_state = "failed", .sub_state = "failed", .result = "exit-code", .invocation_id = "2"};
const unit_facts again_and_again{
    .active_state = "activating", .sub_state = "auto-restart", .result = "exit-code", .invocation_id = "2"};
const unit_facts starting{
    .active_state = "activating", .sub_state = "start", .result = "success", .invocation_id = "2"};
const unit_facts stopping{
    .active_state = "deactivating", .sub_state = "stop-sigterm", .result = "success", .invocation_id = "1"};
const unit_facts reloading{
    .active_state = "reloading", .sub_state = "reload", .result = "success", .invocation_id = "1"};
const unit_facts unknown;

struct row {
    const char* name;
    unit_facts before;
    unit_facts after;
    bool restarted;
    const char* wrong;  // start of the sentence; empty: certificate is served
};

std::ostream& operator<<(std::ostream& out, const row& r)
{
    return out << r.name;
}

const std::vector<row> rows = {
    {"restarted", running, running_anew, true, ""},
    {"not restarted", running, running, true, "it was not restarted"},
    {"not restarted, but reloading", reloading, running, true, "it was not restarted"},
    {"reloaded", running, running, false, ""},
    {"reloaded by a restart", running, running_anew, false, ""},
    {"still reloading", running, reloading, false, ""},
    {"stopped by a person", stopped, stopped, true, ""},
    {"started by a person meanwhile", stopped, running_anew, true, ""},
    {"ended by itself with success", running, stopped, true, ""},
    {"died at its start", running, dead, true, "it is in state failed (exit-code)"},
    {"had died before", dead, dead, true, "it is in state failed (exit-code)"},
    {"died at its reload", running, dead, false, "it is in state failed (exit-code)"},
    {"dies again and again", running, again_and_again, true, "it exits right after it is started"},
    {"is starting", running, starting, true, ""},
    {"is stopping", running, stopping, true, "it is still stopping"},
    {"unknown before", unknown, running, true, ""},
    {"unknown after", running, unknown, true, "systemd does not report"},
};

BOOST_AUTO_TEST_SUITE(consumer)

BOOST_DATA_TEST_CASE(what_systemd_shows_after_the_hook, rows)
{
    const auto wrong = policy::not_served(sample.before, sample.after, sample.restarted);
    BOOST_TEST(wrong.has_value() == (*sample.wrong != 0));
    BOOST_TEST(wrong.value_or("").starts_with(sample.wrong), wrong.value_or(""));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
