#include "policy/fingerprint.hpp"

#include <array>
#include <cstdio>

namespace policy {
namespace {

void add(std::string& text, std::string_view part)
{
    text.append(part).push_back('\0');
}

void add(std::string& text, std::int64_t number)
{
    add(text, std::to_string(number));
}

void add(std::string& text, const lead& renew_before)
{
    if (const auto* share = std::get_if<percent>(&renew_before))
        return add(text, std::to_string(share->value) + "%");
    add(text, std::get<duration>(renew_before).count());
}

void add(std::string& text, const file_access& access)
{
    add(text, access.owner.value_or(""));
    add(text, access.group.value_or(""));
    add(text, access.mode);
}

void add(std::string& text, const hook& h)
{
    add(text, static_cast<int>(h.what));
    for (const auto& word : h.argv)
        add(text, word);
    add(text, h.unit);
    add(text, h.timeout.count());
}

}  // namespace

std::uint64_t stable_hash(std::string_view text) noexcept
{
    std::uint64_t hash = 14695981039346656037ULL;
    for (const unsigned char c : text)
        hash = (hash ^ c) * 1099511628211ULL;
    return hash;
}

std::string stable_print(std::string_view text)
{
    std::array<char, 17> hex{};
    std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(stable_hash(text)));
    return hex.data();
}

std::string entry_fingerprint(const desired_exposure& exposure, const desired_user& user)
{
    std::string text;
    add(text, word_of(exposure.variant));
    for (const auto& part : {exposure.base_url, exposure.tenant, exposure.broker, exposure.topic,
                             exposure.broker_ca_file.value_or("")})
        add(text, part);
    add(text, exposure.group ? exposure.group->id + "/" + exposure.group->name : "");
    add(text, exposure.create_instance ? "onboard" : "");
    add(text, static_cast<int>(exposure.encoding));
    for (const auto& part : {user.name, user.consumer_group, user.contact, user.description})
        add(text, part);
    add(text, word_of(user.key));
    add(text, user.rotation.renew_before);
    add(text, user.rotation.retire_after.count());
    add(text, word_of(user.rotation.strategy));
    add(text, user.rotation.paused ? "paused" : "");
    add(text, user.output.directory);
    for (const auto format : user.output.formats)
        add(text, word_of(format));
    add(text, user.output.access);
    add(text, user.output.password_file.value_or(""));
    for (const auto& h : user.hooks)
        add(text, h);
    add(text, user.verify ? "verify" : "");
    return stable_print(text);
}

}  // namespace policy
