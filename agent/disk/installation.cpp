#include "agent/disk/installation.hpp"

#include "agent/disk/files.hpp"
#include "agent/io/environment.hpp"
#include "crypto/digest.hpp"
#include "policy/limits.hpp"

#include <algorithm>
#include <filesystem>

namespace disk {
namespace {

constexpr std::size_t machine_id_bytes = 64 << 10;

// A host name may contain what an owner must not: [A-Za-z0-9._-]{1,64}.
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
    const auto id = read_file(std::filesystem::path(file), machine_id_bytes);
    if (!id || !*id) return {};
    const auto end = (*id)->find_last_not_of(" \r\n");
    // images contain "uninitialized" before their first boot
    if (end == std::string::npos || (*id)->starts_with("uninitialized")) return {};
    return crypto::sha256_hex("exposure-agent:" + (*id)->substr(0, end + 1));
}

}  // namespace

installation this_installation()
{
    return this_installation("/etc/machine-id");
}

installation this_installation(const std::string& machine_id_file)
{
    return {.owner = owner_from(io::short_hostname()), .machine = machine_digest(machine_id_file)};
}

bool is_from_elsewhere(const installation& stored, const installation& here) noexcept
{
    return !stored.machine.empty() && !here.machine.empty() && stored.machine != here.machine;
}

}  // namespace disk
