#include "agent/disk/publisher.hpp"

#include "agent/disk/directory.hpp"
#include "agent/disk/files.hpp"
#include "agent/disk/renderings.hpp"
#include "crypto/digest.hpp"
#include "policy/fingerprint.hpp"
#include "policy/naming.hpp"
#include "policy/stored.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace disk {
namespace {

// A file's name and stat facts, because its content may change while the configuration does not.
// A missing file is a fact, too.
void append_file(std::string& text, const std::optional<std::string>& path)
{
    policy::append_canonical(text, path);
    struct stat facts;
    const bool there = path && stat(path->c_str(), &facts) == 0;
    policy::append_canonical(text, there);
    if (!there) return;
    policy::append_canonical(text, facts.st_ino);
    policy::append_canonical(text, facts.st_size);
    policy::append_canonical(text, facts.st_mtim.tv_sec);
    policy::append_canonical(text, facts.st_mtim.tv_nsec);
}

}  // namespace

std::string rendering_of(const policy::desired_exposure& exposure, const policy::desired_user& user)
{
    std::string text;
    policy::append_canonical<&policy::output_rule::password_file>(text, user.output);
    if (needs_broker_ca(user.output)) {
        policy::append_canonical(text, exposure.broker);
        policy::append_canonical(text, user.consumer_group);
        append_file(text, exposure.broker_ca_file);
    }
    if (needs_password(user.output)) append_file(text, user.output.password_file);
    return crypto::sha256_hex(text);
}

namespace {

constexpr const char* current_name = "current";

// The entry for the generation's directory itself among the facts of its files. Only its inode,
// mode and owner count: times and size change with files that others put there.
constexpr const char* generation_itself = ".";

// --- Inspecting. Costs one open, one readlink and one lstat per file: with a thousand users, no
// file may be read.

using policy::output_condition;

struct look {
    output_condition condition = output_condition::sound;
    std::string detail;
};

constexpr int type_bits = S_IFMT;
// What the kernel reports for an owner that this process's user namespace does not map
// (PrivateUsers=), and the value recorded for it, which means no owner: user_namespaces(7).
constexpr std::uint32_t overflow_id = 65534;
constexpr std::uint32_t unmapped_id = 0xffff'ffff;

std::optional<struct stat> lstat_in(int published, const std::string& generation, const std::string& name)
{
    struct stat facts;
    const std::string path = name == generation_itself ? generation : generation + "/" + name;
    if (fstatat(published, path.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
    return facts;
}

// A namespace that maps every id to itself has one line: 0 0 4294967295.
bool maps_all(const char* map)
{
    std::ifstream lines(map);
    std::uint64_t inside = 0;
    std::uint64_t outside = 0;
    std::uint64_t count = 0;
    return !(lines >> inside >> outside >> count) || (inside == 0 && outside == 0 && count >= unmapped_id);
}

std::uint32_t owner_of(std::uint32_t shown, bool all_are_mapped)
{
    return shown == overflow_id && !all_are_mapped ? unmapped_id : shown;
}

policy::published_file facts_from(const std::string& name, const struct stat& from)
{
    static const bool maps_all_users = maps_all("/proc/self/uid_map");
    static const bool maps_all_groups = maps_all("/proc/self/gid_map");
    policy::published_file facts{.name = name,
                                 .inode = from.st_ino,
                                 .mode = from.st_mode & 07777u,
                                 .uid = owner_of(from.st_uid, maps_all_users),
                                 .gid = owner_of(from.st_gid, maps_all_groups)};
    if (name == generation_itself) return facts;
    facts.size = static_cast<std::uint64_t>(from.st_size);
    facts.mtime_ns = from.st_mtim.tv_sec * 1'000'000'000 + from.st_mtim.tv_nsec;
    return facts;
}

std::string octal(unsigned mode)
{
    std::array<char, 16> text;
    std::snprintf(text.data(), text.size(), "%04o", mode);
    return text.data();
}

// An id that is unmapped on either side matches: the daemon may run in a user namespace of its own.
std::uint32_t seen_from_either(std::uint32_t is, std::uint32_t was)
{
    return is == unmapped_id || was == unmapped_id ? was : is;
}

std::string difference(const policy::published_file& was, const policy::published_file& is)
{
    if (was.mode != is.mode) return "has mode " + octal(is.mode) + " instead of " + octal(was.mode);
    if (was.uid != is.uid || was.gid != is.gid) return "has another owner or group";
    if (was.inode != is.inode) return "was replaced";
    return "was changed";
}

look look_at_file(int published, const std::string& generation, const policy::published_file& was)
{
    const auto there = lstat_in(published, generation, was.name);
    const std::string shown = was.name == generation_itself ? generation : generation + "/" + was.name;
    if (!there) return {output_condition::damaged, shown + " is missing"};
    const auto expected = was.name == generation_itself ? S_IFDIR : S_IFREG;
    if ((there->st_mode & type_bits) != static_cast<mode_t>(expected))
        return {output_condition::foreign,
                shown + (expected == S_IFDIR ? " is not a directory" : " is not a regular file") +
                    "; move it away"};
    auto is = facts_from(was.name, *there);
    is.digest = was.digest;  // the stat facts are enough: do not read the file
    is.uid = seen_from_either(is.uid, was.uid);
    is.gid = seen_from_either(is.gid, was.gid);
    if (is != was) return {output_condition::damaged, shown + " " + difference(was, is)};
    return {};
}

look look_at_link(int published, const std::string& wanted)
{
    std::array<char, 256> target;
    const auto length = readlinkat(published, current_name, target.data(), target.size());
    if (length < 0 && errno == ENOENT) return {output_condition::missing, "current is missing"};
    if (length < 0) return {output_condition::foreign, "current is not a symbolic link; move it away"};
    const std::string names(target.data(), static_cast<std::size_t>(length));
    if (names == wanted) return {};
    if (policy::is_generation_id(names))
        return {output_condition::damaged, "current points to " + names + " instead of " + wanted};
    struct stat target_facts;
    if (fstatat(published, current_name, &target_facts, 0) != 0 && errno == ENOENT)
        return {output_condition::damaged, "current points to " + names + ", which does not exist"};
    return {output_condition::foreign,
            "current is a symbolic link not created by exposure-agent; move it away"};
}

bool is_link(const std::string& path)
{
    struct stat facts;
    return lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode);
}

look look_at_output(const policy::stored_user& user, const std::string& path)
{
    if (user.current.empty()) return {output_condition::missing, "nothing is published yet"};
    const descriptor published(open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!published && errno == ENOENT) return {output_condition::missing, path + " is missing"};
    if (!published && (errno == ELOOP || errno == ENOTDIR))
        return {output_condition::foreign,
                path + (is_link(path) ? " is a symbolic link" : " is not a directory") + "; move it away"};
    if (!published)
        return {output_condition::damaged,
                "cannot inspect " + path + ": " + std::generic_category().message(errno)};
    const auto below = [&](look found) {
        found.detail.insert(0, path + "/");
        return found;
    };
    if (auto link = look_at_link(published.get(), user.current); link.condition != output_condition::sound)
        return below(std::move(link));
    if (user.files.empty()) return {output_condition::damaged, "no record of the published files"};
    for (const auto& file : user.files)
        if (auto found = look_at_file(published.get(), user.current, file);
            found.condition != output_condition::sound)
            return below(std::move(found));
    return {};
}

// The stat facts of one file of a generation; none if it is missing. `published`: the parent, opened.
std::optional<policy::published_file> look_at_published(int published, const std::string& generation,
                                                        const std::string& name)
{
    const auto facts = lstat_in(published, generation, name);
    if (!facts) return std::nullopt;
    return facts_from(name, *facts);
}

}  // namespace

void file_publisher::inspect(policy::stored_user& user, const std::string& directory)
{
    auto found = look_at_output(user, directory);
    user.output = found.condition;
    user.output_detail = std::move(found.detail);
}

// --- Publishing

namespace {

using policy::result;

constexpr std::size_t outside_file_bytes = 4 << 20;  // for a broker's CA bundle
constexpr access traversable{.mode = 0755};

// Everything that the files of one generation are made from, read and checked.
struct material {
    const publication& what;
    key_pair pair;
    std::vector<rendered_file> files;  // except client.p12
    crypto::secret password;           // empty: no client.p12
    access owner;                      // each file has its own mode
    std::string pkcs12_digest = {};    // of the client.p12 last published
};

policy::failure config_failure(std::string sentence)
{
    return {
        .code = policy::errc::config, .context = std::move(sentence), .kind = policy::retry::after_change};
}

result<std::string> outside_file(const char* key, const std::string& path)
{
    auto content = read_file(std::filesystem::path(path), outside_file_bytes);
    if (!content) return policy::with_context(key, content.error());
    if (!*content) return config_failure(std::string(key) + ": " + path + " does not exist");
    if ((*content)->empty()) return config_failure(std::string(key) + ": " + path + " is empty");
    return std::move(**content);
}

// The first line of the file, as in every program that takes a password file.
result<crypto::secret> password_of(const policy::output_rule& output)
{
    if (!needs_password(output)) return crypto::secret();
    if (!output.password_file) return config_failure("output.password is required for pkcs12");
    auto content = outside_file("output.password", *output.password_file);
    if (!content) return content.error();
    crypto::secret line(std::string_view(*content).substr(0, content->find_first_of("\r\n")));
    crypto::wipe(*content);
    if (line.empty())
        return config_failure("output.password: the first line of " + *output.password_file + " is empty");
    return line;
}

result<material> gather(const publication& what)
{
    auto pair = pair_of(what);
    if (!pair) return pair.error();
    auto owner = access_for(what.output.access);
    if (!owner) return owner.error();
    auto password = password_of(what.output);
    if (!password) return password.error();
    std::string broker_ca;
    if (what.broker_ca_file && needs_broker_ca(what.output)) {
        auto content = outside_file("broker_ca_file", *what.broker_ca_file);
        if (!content) return content.error();
        broker_ca = std::move(*content);
    }
    auto files = render(what, *pair, broker_ca);
    return material{.what = what,
                    .pair = std::move(*pair),
                    .files = std::move(files),
                    .password = std::move(*password),
                    .owner = *owner};
}

// The group of files when none is configured, set explicitly so that a changed group gets
// corrected: that of a set-group-id directory, else our own.
result<void> fill_in_group(access& owner, const directory& published)
{
    struct stat facts;
    if (owner.gid) return {};
    if (fstat(published.fd(), &facts) != 0)
        return from_errno(errno, "cannot inspect " + published.path().string());
    owner.gid = (facts.st_mode & S_ISGID) != 0 ? facts.st_gid : getegid();
    return {};
}

access access_of(const material& from, unsigned mode)
{
    return {.mode = mode, .uid = from.owner.uid, .gid = from.owner.gid};
}

// Identifies a PKCS#12 file by its bytes and inputs. It is never parsed, because others own it.
std::string digest_of(const material& from, std::string_view content)
{
    return crypto::sha256_hex(crypto::sha256_hex(content) + crypto::sha256_hex(from.password.view()) +
                              crypto::sha256_hex(from.what.fullchain_pem));
}

// Completes a directory beside the others and renames it once, so that its name never shows a partial one.
result<void> stage(const directory& published, material& from)
{
    const std::string name = temporary_name(from.what.generation);
    if (published.has(name)) return foreign(published.path_of(name), "not created by exposure-agent");
    auto staged = published.make(name, traversable);
    if (!staged) return staged.error();
    fremovexattr(staged->fd(), "system.posix_acl_default");
    for (const auto& file : from.files)
        if (auto made = create_file(*staged, file.name, file.content.view(), access_of(from, file.mode));
            !made)
            return made;
    if (!from.password.empty()) {
        const auto file = render_pkcs12(from.what, from.pair, from.password);
        if (!file) return file.error();
        from.pkcs12_digest = digest_of(from, file->content.view());
        if (auto made = create_file(*staged, file->name, file->content.view(), access_of(from, file->mode));
            !made)
            return made;
    }
    if (auto synced = staged->sync(); !synced) return synced;
    return rename_into_place(published, name, from.what.generation);
}

const policy::published_file* known_of(const material& from, const char* name)
{
    const auto found = std::ranges::find(from.what.known, name, &policy::published_file::name);
    return found == from.what.known.end() ? nullptr : &*found;
}

// The published PKCS#12 file is kept while it is the one written for this pair and password,
// because no two files made from them are the same.
result<void> repair_pkcs12(const directory& generation, material& from)
{
    const auto wanted = access_of(from, from.what.output.access.mode);
    const auto* known = known_of(from, pkcs12_name);
    const auto kept = update_file(
        generation, pkcs12_name, wanted,
        [&](int fd) {
            const auto held = known ? read_descriptor(fd, known->size, generation.path_of(pkcs12_name))
                                    : result<std::string>(policy::failure{});
            if (!held || digest_of(from, *held) != known->digest) return false;
            from.pkcs12_digest = known->digest;
            return true;
        },
        [&]() -> result<crypto::secret> {
            auto file = render_pkcs12(from.what, from.pair, from.password);
            if (!file) return file.error();
            from.pkcs12_digest = digest_of(from, file->content.view());
            return std::move(file->content);
        });
    return kept ? result<void>() : result<void>(kept.error());
}

// The directory of the generation, corrected if it is the one that we created. Another one of
// that name is not touched: the owner of the published directory may rename what is in it.
result<directory> enter_generation(const directory& published, const material& from)
{
    auto there = published.enter(from.what.generation);
    if (!there) return there;
    struct stat facts;
    if (fstat(there->fd(), &facts) != 0) return from_errno(errno, "cannot inspect " + there->path().string());
    const auto* known = known_of(from, generation_itself);
    const bool ours = facts.st_uid == geteuid() && known && known->inode == facts.st_ino;
    const bool as_made = facts.st_uid == geteuid() && (facts.st_mode & 07777 & ~S_ISGID) == traversable.mode;
    if (!ours && !as_made)
        return foreign(there->path().string(), "not the directory that exposure-agent created");
    if (auto set = set_access(there->fd(), traversable, there->path().string()); !set) return set.error();
    return there;
}

// Corrects an existing directory with one atomic write per file; files that are right are not touched.
result<void> repair(const directory& published, material& from)
{
    const auto generation = enter_generation(published, from);
    if (!generation) return generation.error();
    for (const auto& file : from.files) {
        const auto updated =
            update_file(*generation, file.name, file.content.view(), access_of(from, file.mode));
        if (!updated) return updated.error();
    }
    if (!from.password.empty())
        if (auto repaired = repair_pkcs12(*generation, from); !repaired) return repaired;

    const auto names = generation->names(is_published_name);
    if (!names) return names.error();
    for (const auto& name : *names) {
        const bool wanted = std::ranges::find(from.files, name, &rendered_file::name) != from.files.end() ||
                            (name == pkcs12_name && !from.password.empty());
        if (wanted) continue;
        if (auto removed = remove_file(*generation, name); !removed) return removed;
    }
    return generation->sync();  // a kill may have prevented the sync of files that are already right
}

// Whether the name is that of a generation's file, or of one being written.
bool is_ours(const std::string& name)
{
    constexpr std::string_view suffix = ".exposure-agent";
    if (is_published_name(name)) return true;
    return name.starts_with('.') && name.ends_with(suffix) &&
           is_published_name(std::string_view(name).substr(1, name.size() - 1 - suffix.size()));
}

// Removes our files of a generation, and its directory unless it holds files of others.
result<void> remove_generation(const directory& published, const std::string& id)
{
    if (!published.has(id)) return {};
    const auto generation = published.enter(id);
    if (!generation) return generation.error();
    const auto names = generation->names(is_ours);
    if (!names) return names.error();
    for (const auto& name : *names)
        if (auto removed = remove_file(*generation, name); !removed) return removed;
    if (unlinkat(published.fd(), id.c_str(), AT_REMOVEDIR) != 0 && errno != ENOTEMPTY && errno != EEXIST)
        return from_errno(errno, "cannot remove " + published.path_of(id));
    return published.sync();
}

// Where `current` points; empty if it does not exist. errc::foreign_file: not one of ours.
result<std::string> current_of(const directory& published)
{
    const auto link = read_link(published, current_name);
    if (!link) return link.error();
    if (!*link) return std::string();
    if (!policy::is_generation_id(**link)) {
        struct stat target;
        // a dangling link is damage: nobody can read through it
        if (fstatat(published.fd(), current_name, &target, 0) != 0 && errno == ENOENT) return std::string();
        return foreign(published.path_of(current_name), "a link not created by exposure-agent");
    }
    return **link;
}

// An old generation that cannot be removed is retried by the next publish: the one in use is in place,
// and that is what the caller asked for.
void remove_older(const directory& published, const publication& what)
{
    const auto names = published.names([&](const std::string& name) {
        return policy::is_generation_id(name) && name != what.generation && name != what.keep;
    });
    if (!names) return;
    for (const auto& name : *names)
        static_cast<void>(remove_generation(published, name));
}

result<std::vector<policy::published_file>> facts_of(const directory& published, const material& from)
{
    std::vector<policy::published_file> facts;
    const auto add = [&](const std::string& name) {
        auto found = look_at_published(published.fd(), from.what.generation, name);
        if (!found) return false;
        if (name == pkcs12_name) found->digest = from.pkcs12_digest;
        facts.push_back(std::move(*found));
        return true;
    };
    bool complete = add(generation_itself);
    for (const auto& file : from.files)
        complete = add(file.name) && complete;
    if (!from.password.empty()) complete = add(pkcs12_name) && complete;
    if (complete) return facts;
    return policy::failure{.code = policy::errc::disk,
                           .context = published.path_of(from.what.generation) +
                                      " was changed by another process during publication"};
}

result<std::vector<policy::published_file>> publish_material(const directory& published, material& from)
{
    const auto current = current_of(published);
    if (!current) return current.error();
    for (const auto& name : {std::string(current_name), from.what.generation})
        if (auto cleared = remove_leftover(published, name, is_ours); !cleared) return cleared.error();
    const bool there = published.has(from.what.generation);
    if (auto made = there ? repair(published, from) : stage(published, from); !made) return made.error();
    if (auto moved = replace_link(published, current_name, from.what.generation); !moved)
        return moved.error();
    remove_older(published, from.what);
    return facts_of(published, from);
}

}  // namespace

result<std::vector<policy::published_file>> file_publisher::publish(const publication& what)
{
    const auto in_context = [&](policy::failure f) {
        return policy::with_context("cannot publish the files of " + what.name.text(), std::move(f));
    };
    auto from = gather(what);
    if (!from) return in_context(from.error());
    const auto published = directory::make_path(what.output.directory, traversable,
                                                {.uid = from->owner.uid, .gid = from->owner.gid});
    if (!published) return in_context(published.error());
    if (auto filled = fill_in_group(from->owner, *published); !filled) return in_context(filled.error());
    auto facts = publish_material(*published, *from);
    if (!facts) return in_context(facts.error());
    return facts;
}

result<void> file_publisher::unpublish(const std::string& path, const std::vector<std::string>& generations)
{
    struct stat facts;
    if (lstat(path.c_str(), &facts) != 0 && (errno == ENOENT || errno == ENOTDIR)) return {};
    // the receiver of the files is no longer known: the owner may swap what is in their own directory
    const receiver theirs{.uid = facts.st_uid, .gid = facts.st_gid};
    const auto published = directory::open(path, theirs);
    if (!published) return published.error();
    const auto current = current_of(*published);
    if (!current) return current.error();
    if (std::ranges::find(generations, *current) != generations.end())
        if (auto removed = remove_file(*published, current_name); !removed) return removed;
    for (const auto& id : generations) {
        if (auto cleared = remove_leftover(*published, id, is_ours); !cleared) return cleared;
        if (auto removed = remove_generation(*published, id); !removed) return removed;
    }
    // only if it is empty
    if (const auto above = directory::open(published->path().parent_path(), theirs); above)
        unlinkat(above->fd(), published->path().filename().c_str(), AT_REMOVEDIR);
    return {};
}

}  // namespace disk
