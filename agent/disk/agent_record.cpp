#include "agent/disk/agent_record.hpp"

#include "agent/disk/atomic_file.hpp"
#include "agent/disk/json_fields.hpp"
#include "agent/disk/read_file.hpp"
#include "agent/io/environment.hpp"
#include "crypto/digest.hpp"
#include "policy/limits.hpp"

#include <algorithm>

namespace disk {
namespace json {

template <class Codec, class T>
requires std::same_as<std::remove_const_t<T>, agent_record>
void fields_of(Codec& field, T& v)
{
    field("owner", v.owner);
    field("machine", v.machine);
}

}  // namespace json

namespace {

constexpr std::size_t record_bytes = 64 << 10;

// A host may be called what no owner may: [A-Za-z0-9._-]{1,64}.
std::string owner_from(std::string host)
{
    std::ranges::replace_if(
        host,
        [](char c) {
            const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
            return !letter && c != '.' && c != '_' && c != '-';
        },
        '-');
    host.resize(std::min(host.size(), policy::limits::owner_length));
    return host.empty() ? "localhost" : host;
}

std::string machine_digest(const std::string& file)
{
    const auto id = read_file(std::filesystem::path(file), record_bytes);
    if (!id || !*id) return {};
    const auto end = (*id)->find_last_not_of(" \r\n");
    // "uninitialized" is what an image holds before its first boot
    if (end == std::string::npos || (*id)->starts_with("uninitialized")) return {};
    return crypto::sha256_hex("exposure-agent:" + (*id)->substr(0, end + 1));
}

}  // namespace

agent_record this_installation()
{
    return this_installation("/etc/machine-id");
}

agent_record this_installation(const std::string& machine_id_file)
{
    return {.owner = owner_from(io::short_hostname()), .machine = machine_digest(machine_id_file)};
}

bool is_from_elsewhere(const agent_record& stored, const agent_record& here) noexcept
{
    return !stored.machine.empty() && !here.machine.empty() && stored.machine != here.machine;
}

policy::result<std::optional<agent_record>> load_agent_record(const paths& where)
{
    const auto text = read_file(where.agent(), record_bytes);
    if (!text) return text.error();
    if (!*text) return std::optional<agent_record>();
    auto record = json::read<agent_record>(**text);
    const std::string file = where.agent().string();
    if (!record)
        return policy::with_context(
            file + " cannot be used; restore it from a backup, or remove it and say `takeover`",
            record.error());
    return std::optional(std::move(*record));
}

policy::result<void> save_agent_record(const paths& where, const agent_record& record)
{
    return write_file(where.agent(), json::write(record), {.mode = 0600});
}

}  // namespace disk
