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

std::filesystem::path paths::agent() const
{
    return private_directory() / "agent.json";
}

std::filesystem::path paths::tokens() const
{
    return private_directory() / "tokens.json";
}

std::filesystem::path paths::reserve() const
{
    return private_directory() / "reserve";
}

std::filesystem::path paths::exposures() const
{
    return private_directory() / "exposures";
}

std::filesystem::path paths::exposure(const std::string& name) const
{
    return exposures() / (checked(name) + ".json");
}

std::filesystem::path paths::credential(const std::string& name) const
{
    return private_directory() / "credentials" / (checked(name) + ".json");
}

std::filesystem::path paths::users() const
{
    return private_directory() / "users";
}

std::filesystem::path paths::users(const std::string& exposure) const
{
    return users() / checked(exposure);
}

std::filesystem::path paths::user(const policy::user_name& name) const
{
    return users(name.exposure) / checked(name.user);
}

std::filesystem::path paths::user_state(const policy::user_name& name) const
{
    return user(name) / "state.json";
}

std::filesystem::path paths::generation(const policy::user_name& name, const std::string& generation) const
{
    return user(name) / checked(generation);
}

std::filesystem::path paths::key(const policy::user_name& name, const std::string& generation) const
{
    return this->generation(name, generation) / "key.pem";
}

std::filesystem::path paths::request(const policy::user_name& name, const std::string& generation) const
{
    return this->generation(name, generation) / "request.pem";
}

std::filesystem::path paths::certificate(const policy::user_name& name, const std::string& generation) const
{
    return this->generation(name, generation) / "certificate.pem";
}

}  // namespace disk
