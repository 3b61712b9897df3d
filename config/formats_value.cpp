#include "config/formats.hpp"
#include "config/scalars.hpp"
#include "policy/desired.hpp"
#include "policy/nearest.hpp"

#include <array>
#include <vector>

namespace config {
namespace {

constexpr int longest_duration = 3650 * 86400;  // ten years: beyond every certificate

std::string boolean_fault(const node& value, const format&)
{
    if (!read_boolean(value.text)) return quoted(value.text) + " is no boolean; write true or false";
    return value.plain ? "" : "is a text because of its quotes; write " + value.text + " without them";
}

std::string integer_fault(const node& value, const format& self)
{
    const auto range = std::to_string(self.least) + " to " + std::to_string(self.most);
    const auto number = read_integer(value.text);
    if (!number) return quoted(value.text) + " is no plain decimal number; write one from " + range;
    if (!value.plain) return "is a text because of its quotes; write " + value.text + " without them";
    if (*number < self.least || *number > self.most) return value.text + " is out of range; write " + range;
    return {};
}

std::string version_fault(const node& value, const format& self)
{
    return integer_fault(value, self).empty() ? ""
                                              : quoted(value.text) + " is not known to this program; write 1";
}

std::string duration_range_fault(policy::duration duration, const format& self)
{
    if (duration.count() < self.least)
        return "is too short; write at least " + std::to_string(self.least) + "s";
    if (duration.count() > self.most)
        return "is too long; write at most " + std::to_string(self.most / 86400) + "d";
    return {};
}

std::string duration_fault(const node& value, const format& self)
{
    const auto duration = read_duration(value.text);
    if (duration) return duration_range_fault(*duration, self);
    if (read_integer(value.text)) return value.text + " has no unit; write for example " + value.text + "s";
    return quoted(value.text) + " is no duration; write for example 90s, 15m, 12h, 30d, 2w or 1d12h";
}

std::string lead_fault(const node& value, const format& self)
{
    const auto lead = read_lead(value.text);
    if (!lead && read_integer(value.text))
        return value.text + " has no unit; write " + value.text + "% of the lifetime or " + value.text + "d";
    if (!lead) return quoted(value.text) + " is no lead; write a share as 33% or a duration as 90d";
    if (const auto* share = std::get_if<policy::percent>(&*lead))
        return share->value >= 1 && share->value <= 99 ? ""
                                                       : value.text + " is out of range; write 1% to 99%";
    return duration_range_fault(std::get<policy::duration>(*lead), self);
}

std::string mode_fault(const node& value, const format&)
{
    const auto mode = read_mode(value.text);
    if (!mode) return quoted(value.text) + " is no mode; write its octal digits as in 0640";
    if (*mode & 0111) return quoted(value.text) + " makes a file executable; write for example 0640";
    if (*mode & 0002) return quoted(value.text) + " lets everyone write the file; write for example 0640";
    if (!(*mode & 0400)) return quoted(value.text) + " keeps the owner from reading; write for example 0640";
    return {};
}

std::string word_fault(const node& value, const format& self)
{
    const std::vector<std::string> known(self.words.begin(), self.words.end());
    std::string list;
    for (const auto& word : known) {
        if (word == value.text) return {};
        list += (list.empty() ? "" : ", ") + word;
    }
    const auto near = policy::nearest(value.text, known);
    return quoted(value.text) + " is not known; " +
           (near.empty() ? "write one of " + list : "did you mean " + near + "? There are " + list);
}

constexpr const char* duration_pattern = "^([0-9]+[wdhms])+$";

}  // namespace

namespace formats {

const format boolean = {.fault = boolean_fault, .type = "boolean"};
const format version = {.fault = version_fault, .type = "integer", .least = 1, .most = 1};
const format connections = {.fault = integer_fault, .type = "integer", .least = 1, .most = 256};
const format deletes = {.fault = integer_fault, .type = "integer", .least = 0, .most = 100000};
const format creates = {.fault = integer_fault, .type = "integer", .least = 1, .most = 1000};
const format refresh_interval = {
    .fault = duration_fault, .pattern = duration_pattern, .least = 30, .most = longest_duration};
const format duration = {
    .fault = duration_fault, .pattern = duration_pattern, .least = 1, .most = longest_duration};
const format duration_or_none = {
    .fault = duration_fault, .pattern = duration_pattern, .least = 0, .most = longest_duration};
const format lead = {
    .fault = lead_fault, .pattern = "^([0-9]{1,2}%|([0-9]+[wdhms])+)$", .least = 1, .most = longest_duration};
const format mode = {.fault = mode_fault, .type = "mode", .pattern = "^0?[0-7]{3}$"};

const format key_type = {.fault = word_fault, .words = policy::words_of<policy::key_type>};
const format variant = {.fault = word_fault, .words = policy::words_of<policy::variant>};
const format strategy = {.fault = word_fault, .words = policy::words_of<policy::strategy>};
const format file_format = {.fault = word_fault, .words = policy::words_of<policy::file_format>};
const format csr_encoding = {.fault = word_fault, .words = policy::words_of<policy::csr_encoding>};
const format group_fields = {.fault = word_fault, .words = policy::words_of<policy::group_fields>};
const format values_format = {.fault = word_fault, .words = policy::words_of<policy::values_format>};

}  // namespace formats
}  // namespace config
