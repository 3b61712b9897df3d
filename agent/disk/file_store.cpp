#include "agent/disk/file_store.hpp"

#include "agent/disk/atomic_file.hpp"
#include "agent/disk/errors.hpp"
#include "agent/disk/read_file.hpp"
#include "agent/disk/record_files.hpp"
#include "agent/disk/reserve.hpp"
#include "agent/disk/stored_json.hpp"

#include <algorithm>
#include <utility>

namespace disk {
namespace {

using policy::result;

constexpr access secret_directory{.mode = 0700};
constexpr access secret_file{.mode = 0600};
constexpr std::size_t pem_bytes = 1 << 20;

policy::failure about(const policy::user_name& name, policy::failure f)
{
    return policy::with_context(name.text(), std::move(f));
}

policy::failure unreadable(const std::string& what, const std::string& why)
{
    return {.code = policy::errc::disk, .context = what + ": " + why, .kind = policy::retry::never};
}

result<std::string> read_pem(const policy::user_name& name, const std::filesystem::path& path)
{
    auto text = read_file(path, pem_bytes);
    if (!text) return about(name, text.error());
    if (!*text) return about(name, unreadable(path.string(), "there is no such file"));
    return std::move(**text);
}

// A key whose generation the record does not name was never sent: what a crash left of an attempt.
result<void> remove_unrecorded(const directory& user, const std::optional<policy::stored_user>& record)
{
    const auto names = user.names();
    if (!names) return names.error();
    for (const auto& name : *names) {
        if (!policy::is_generation_id(name) || (record && record->find(name) != nullptr)) continue;
        if (auto removed = remove_tree(user, name); !removed) return removed;
    }
    return {};
}

}  // namespace

file_store::file_store(paths where, agent_record here) : where_(std::move(where)), here_(std::move(here)) {}

result<void> file_store::remember_installation()
{
    const auto known = load_agent_record(where_);
    if (!known) return known.error();
    if (*known || holds_users(where_)) return {};
    return save_agent_record(where_, here_);
}

result<void> file_store::take_over()
{
    const auto known = load_agent_record(where_);
    if (!known) return known.error();
    auto mine = here_;
    if (*known) mine.owner = (*known)->owner;
    return save_agent_record(where_, mine);
}

result<bool> file_store::is_copied() const
{
    const auto known = load_agent_record(where_);
    if (!known) return known.error();
    // users without the record of whose they are: somebody copied or restored a part
    return *known ? is_from_elsewhere(**known, here_) : holds_users(where_);
}

result<void> file_store::load_installation(policy::stored_state& state) const
{
    const auto known = load_agent_record(where_);
    if (!known) return known.error();
    state.owner = *known ? (*known)->owner : here_.owner;
    // users without the record of whose they are: somebody copied or restored a part
    state.cloned = *known ? is_from_elsewhere(**known, here_) : !state.users.empty();
    return {};
}

result<policy::stored_state> file_store::load()
{
    policy::stored_state state;
    if (auto loaded = load_users(where_, state.users); !loaded) return loaded.error();
    if (auto loaded = load_exposures(where_, state.exposures); !loaded) return loaded.error();
    if (auto loaded = load_installation(state); !loaded) return loaded.error();
    return state;
}

result<void> file_store::save(const policy::stored_user& user)
{
    if (!user.unreadable.empty()) return unreadable(user.name.text(), user.unreadable);
    const auto home = directory::make_path(where_.user(user.name), secret_directory);
    if (!home) return about(user.name, home.error());
    const auto written = save_with_reserve(where_, [&] {
        return update_file(*home, where_.user_state(user.name).filename().string(), to_json(user),
                           secret_file);
    });
    if (!written) return about(user.name, written.error());
    return {};
}

result<void> file_store::save(const policy::stored_exposure& exposure)
{
    if (!exposure.unreadable.empty()) return unreadable(exposure.name, exposure.unreadable);
    const auto path = where_.exposure(exposure.name);
    const auto home = directory::make_path(path.parent_path(), secret_directory);
    if (!home) return home.error();
    const auto written = save_with_reserve(
        where_, [&] { return update_file(*home, path.filename().string(), to_json(exposure), secret_file); });
    if (!written) return written.error();
    return {};
}

result<void> file_store::make_room()
{
    return keep_reserve(where_);
}

result<void> file_store::write_generation(const policy::user_name& name, const std::string& generation,
                                          const crypto::secret& key_pem, const std::string& csr_pem)
{
    auto record = load_user(where_, name);
    if (!record) return about(name, record.error());
    const auto user = directory::make_path(where_.user(name), secret_directory);
    if (!user) return about(name, user.error());
    if (auto removed = remove_unrecorded(*user, *record); !removed) return about(name, removed.error());

    const auto home = user->make(generation, secret_directory);
    if (!home) return about(name, home.error());
    const auto key_name = where_.key(name, generation).filename().string();
    const auto request_name = where_.request(name, generation).filename().string();
    if (auto made = create_file(*home, key_name, key_pem.view(), secret_file); !made)
        return about(name, made.error());
    if (auto made = create_file(*home, request_name, csr_pem, secret_file); !made)
        return about(name, made.error());
    if (auto synced = home->sync(); !synced) return about(name, synced.error());
    return {};
}

result<crypto::secret> file_store::read_key(const policy::user_name& name, const std::string& generation)
{
    auto text = read_pem(name, where_.key(name, generation));
    if (!text) return text.error();
    return crypto::secret(std::move(*text));
}

result<std::string> file_store::read_csr(const policy::user_name& name, const std::string& generation)
{
    return read_pem(name, where_.request(name, generation));
}

result<void> file_store::write_certificate(const policy::user_name& name, const std::string& generation,
                                           const std::string& fullchain_pem)
{
    auto written = save_with_reserve(
        where_, [&] { return write_file(where_.certificate(name, generation), fullchain_pem, secret_file); });
    if (!written) return about(name, written.error());
    return {};
}

result<std::string> file_store::read_certificate(const policy::user_name& name, const std::string& generation)
{
    return read_pem(name, where_.certificate(name, generation));
}

std::filesystem::path file_store::generation_directory(const policy::user_name& name,
                                                       const std::string& generation)
{
    return where_.generation(name, generation);
}

result<void> file_store::erase_generation(const policy::user_name& name, const std::string& generation)
{
    const auto path = where_.generation(name, generation);
    if (!exists(path)) return {};
    const auto user = directory::open(path.parent_path());
    if (!user) return about(name, user.error());
    if (auto removed = remove_tree(*user, generation); !removed) return about(name, removed.error());
    return {};
}

// The record goes last: a crash in between leaves a user without keys, and its removal is said again.
result<void> file_store::erase(const policy::user_name& name)
{
    const auto path = where_.user(name);
    if (!exists(path)) return {};
    const auto user = directory::open(path);
    if (!user) return about(name, user.error());
    if (auto removed = remove_unrecorded(*user, std::nullopt); !removed) return about(name, removed.error());
    const auto exposure = directory::open(path.parent_path());
    if (!exposure) return about(name, exposure.error());
    if (auto removed = remove_tree(*exposure, path.filename().string()); !removed)
        return about(name, removed.error());
    return {};
}

}  // namespace disk
