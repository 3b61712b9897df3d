#include "agent/disk/paths.hpp"

#include "agent/disk/directory.hpp"

#include <stdexcept>
#include <utility>

namespace disk {
namespace {

const std::string& checked(const std::string& name)
{
    if (!is_plain_name(name)) throw std::invalid_argument("a name that could leave its directory");
    return name;
}

}  // namespace

paths::paths(std::filesystem::path state_dir) : state_dir_(std::move(state_dir)) {}

std::filesystem::path paths::lock() const
{
    return state_dir_ / "lock";
}

std::filesystem::path paths::control_socket() const
{
    return state_dir_ / "control.sock";
}

std::filesystem::path paths::spool() const
{
    return state_dir_ / "spool";
}

std::filesystem::path paths::live(const policy::user_name& name) const
{
    return state_dir_ / "live" / checked(name.exposure) / checked(name.user);
}

std::filesystem::path paths::private_directory() const
{
    return state_dir_ / "private";
}

std::filesystem::path paths::database() const
{
    return private_directory() / "state.db";
}

std::filesystem::path paths::reserve() const
{
    return private_directory() / "reserve";
}

}  // namespace disk
