#include "agent/disk/state_database.hpp"

#include "agent/disk/directory.hpp"
#include "agent/disk/files.hpp"
#include "agent/disk/record.hpp"
#include "agent/io/async.hpp"
#include "agent/io/crash_point.hpp"
#include "agent/io/log.hpp"
#include "crypto/digest.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <future>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace disk {

namespace asio = boost::asio;
using policy::result;

namespace {

// user_version of the database. A newer one is refused, never interpreted.
constexpr int schema_version = 1;

constexpr const char* schema[] = {
    // `tokens`, `installation` and everything else that is a single value
    "CREATE TABLE kept(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE exposures(name TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE credentials(name TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE users(exposure TEXT NOT NULL, user TEXT NOT NULL, record TEXT NOT NULL, "
    "PRIMARY KEY(exposure, user)) STRICT",
    "CREATE TABLE generations(exposure TEXT NOT NULL, user TEXT NOT NULL, id TEXT NOT NULL, "
    "key BLOB NOT NULL, csr TEXT NOT NULL, certificate TEXT, PRIMARY KEY(exposure, user, id), "
    "FOREIGN KEY(exposure, user) REFERENCES users ON DELETE CASCADE) STRICT",
    "CREATE TABLE events(id INTEGER PRIMARY KEY, at INTEGER NOT NULL, exposure TEXT NOT NULL, "
    "user TEXT NOT NULL, record TEXT NOT NULL) STRICT",
    "CREATE INDEX events_by_time ON events(at)",
};

constexpr const char* tokens_name = "tokens";
constexpr const char* notifications_name = "notifications";
constexpr const char* leaving_name = "decommission";
constexpr const char* installation_name = "installation";
constexpr const char* value_prefix = "value:";
constexpr const char* configuration_name = "configuration";

constexpr policy::duration history_kept = std::chrono::hours(24 * 731);  // two years (contract section 4)
constexpr off_t reserve_bytes = 512 << 10;  // responses for all users that are processed concurrently
constexpr std::size_t aside_bytes = 1 << 20;
constexpr access secret_file{.mode = 0600};

policy::failure unusable(std::string sentence)
{
    return {.code = policy::errc::disk, .context = std::move(sentence), .kind = policy::retry::never};
}

bool is_there(const std::filesystem::path& path)
{
    struct stat facts;
    return lstat(path.c_str(), &facts) == 0 || errno != ENOENT;
}

result<void> check_version(sqlite::connection& database, const std::filesystem::path& path)
{
    std::int64_t found = 0;
    if (auto read = database.each("PRAGMA user_version", {}, [&](const auto& r) { found = r.number(0); });
        !read)
        return read;
    if (found == schema_version) return {};
    if (found > schema_version)
        return unusable("the state database " + path.string() +
                        " was written by a newer exposure-agent (schema " + std::to_string(found) +
                        ", this version supports " + std::to_string(schema_version) +
                        "); install that version again, or restore a backup");
    return unusable(path.string() + " is not a state database of exposure-agent; restore a backup");
}

// None if there was no start yet.
result<std::optional<sqlite::connection>> open_to_read(const paths& where)
{
    const auto path = where.database();
    if (!is_there(path)) return std::optional<sqlite::connection>();
    auto opened = sqlite::connection::open(path, sqlite::access::read_only);
    if (!opened) return opened.error();
    if (auto known = check_version(*opened, path); !known) return known.error();
    return std::optional(std::move(*opened));
}

result<std::optional<std::string>> kept_value(sqlite::connection& from, const std::string& name)
{
    std::optional<std::string> value;
    auto read = from.each("SELECT value FROM kept WHERE name = ?", {name},
                          [&](const auto& r) { value = std::string(r.text(0)); });
    if (!read) return read.error();
    return value;
}

result<void> keep_value(sqlite::connection& to, const std::string& name, std::string_view value)
{
    return to.run("INSERT INTO kept VALUES(?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                  {name, sqlite::blob{value}});
}

// A database without its installation record was copied or restored in part.
result<bool> was_copied(sqlite::connection& from, const installation& here)
{
    const auto kept = kept_value(from, installation_name);
    if (!kept) return kept.error();
    const auto known = *kept ? record::read<installation>(**kept) : policy::failure{};
    return !known || is_from_elsewhere(*known, here);
}

// PEM starts with a header line: anything else (zeros, nothing) is damage.
constexpr std::string_view pem_begin = "-----BEGIN ";

void load_users(sqlite::connection& from, policy::stored_state& state, result<void>& outcome)
{
    outcome = from.each("SELECT exposure, user, record FROM users", {}, [&](const auto& r) {
        const policy::user_name name{std::string(r.text(0)), std::string(r.text(1))};
        auto user = record::read<policy::stored_user>(r.text(2));
        const bool named = user && std::ranges::all_of(user->generations, [](const auto& g) {
                               return policy::is_generation_id(g.id);
                           });
        if (named && user->name == name) {
            for (auto& g : user->generations)
                g.key_on_disk = false;
            state.users.emplace(name, std::move(*user));
            return;
        }
        // a lost record is a lost generation: it is issued again, and the platform's users become orphans
        state.damaged.insert(name);
        io::log(io::severity::error,
                name.text() + ": its record in the state database is damaged; it is treated as a new user");
    });
    if (!outcome) return;
    outcome = from.each(
        "SELECT exposure, user, id, substr(key, 1, 11), substr(certificate, 1, 11) FROM generations", {},
        [&](const auto& r) {
            const auto user =
                state.users.find(policy::user_name{std::string(r.text(0)), std::string(r.text(1))});
            if (user == state.users.end()) return;
            auto* g = user->second.find(std::string(r.text(2)));
            if (!g) return;
            const bool certificate_fits = !g->certificate || r.text(4) == pem_begin;
            g->key_on_disk = r.text(3) == pem_begin && certificate_fits;
        });
}

result<void> load_exposures(sqlite::connection& from, policy::stored_state& state)
{
    return from.each("SELECT name, record FROM exposures", {}, [&](const auto& r) {
        const std::string name(r.text(0));
        auto exposure = record::read<policy::stored_exposure>(r.text(1));
        if (exposure && exposure->name == name)
            state.exposures.emplace(name, std::move(*exposure));
        else
            io::log(io::severity::error,
                    name +
                        ": its record in the state database is damaged; the instance that the platform "
                        "shows is used");
    });
}

// ---- writing one change

result<void> write_user(sqlite::connection& to, const policy::stored_user& user)
{
    const auto& [exposure, name] = user.name;
    if (auto written =
            to.run("INSERT INTO users VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET record = excluded.record",
                   {exposure, name, record::write(user)});
        !written)
        return written;
    // delete the keys of generations that the record no longer names
    std::vector<std::string> gone;
    if (auto read = to.each("SELECT id FROM generations WHERE exposure = ? AND user = ?", {exposure, name},
                            [&](const auto& r) {
                                const std::string id(r.text(0));
                                if (!user.find(id)) gone.push_back(id);
                            });
        !read)
        return read;
    for (const auto& id : gone)
        if (auto removed = to.run("DELETE FROM generations WHERE exposure = ? AND user = ? AND id = ?",
                                  {exposure, name, id});
            !removed)
            return removed;
    return {};
}

result<void> write_key(sqlite::connection& to, const generation_key& k)
{
    return to.run(
        "INSERT INTO generations(exposure, user, id, key, csr) VALUES(?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET key = excluded.key, csr = excluded.csr",
        {k.name.exposure, k.name.user, k.generation, sqlite::blob{k.key_pem.view()}, k.csr_pem});
}

result<void> write_event(sqlite::connection& to, const policy::history_event& e)
{
    if (auto written = to.run(
            "INSERT INTO events(at, exposure, user, record) VALUES(?, ?, ?, ?)",
            {std::int64_t(e.at.time_since_epoch().count()), e.name.exposure, e.name.user, record::write(e)});
        !written)
        return written;
    return to.run("DELETE FROM events WHERE at < ?",
                  {std::int64_t((e.at - history_kept).time_since_epoch().count())});
}

result<void> write_change(sqlite::connection& to, const change& what)
{
    result<void> done;
    const auto all = [&done](const auto& items, auto write) {
        for (const auto& item : items)
            if (done) done = write(item);
    };
    all(what.users, [&](const auto& user) { return write_user(to, user); });
    all(what.keys, [&](const auto& key) { return write_key(to, key); });
    all(what.certificates, [&](const auto& c) {
        return to.run("UPDATE generations SET certificate = ? WHERE exposure = ? AND user = ? AND id = ?",
                      {c.fullchain_pem, c.name.exposure, c.name.user, c.generation});
    });
    all(what.forgotten, [&](const auto& name) {
        return to.run("DELETE FROM users WHERE exposure = ? AND user = ?", {name.exposure, name.user});
    });
    all(what.exposures, [&](const auto& e) {
        return to.run("INSERT INTO exposures VALUES(?, ?) ON CONFLICT DO UPDATE SET record = excluded.record",
                      {e.name, record::write(e)});
    });
    all(what.events, [&](const auto& event) { return write_event(to, event); });
    all(what.credentials, [&](const auto& c) {
        return to.run(
            "INSERT INTO credentials VALUES(?, ?) ON CONFLICT DO UPDATE SET record = excluded.record",
            {c.first, record::write(c.second)});
    });
    all(what.values, [&](const auto& v) -> result<void> {
        const std::string name = value_prefix + v.first;
        if (!v.second.empty()) return keep_value(to, name, v.second);
        return to.run("DELETE FROM kept WHERE name = ?", {name});
    });
    if (done && what.leaving) done = keep_value(to, leaving_name, record::write(*what.leaving));
    if (done && what.staying) done = to.run("DELETE FROM kept WHERE name = ?", {leaving_name});
    if (done && what.notified) done = keep_value(to, notifications_name, record::write(*what.notified));
    if (done && what.tokens) done = keep_value(to, tokens_name, what.tokens->view());
    return done;
}

// One name per state directory, because several agents share a runtime directory.
std::filesystem::path place_aside(const paths& where, const std::filesystem::path& directory)
{
    if (directory.empty()) return {};
    return directory / ("tokens-" + crypto::sha256_hex(where.state_dir().string()).substr(0, 16) + ".json");
}

}  // namespace

struct state_database::waiting_change {
    change what;
    outcome done;
};

state_database::state_database(paths where, std::filesystem::path runtime_directory, installation here)
    : where_(std::move(where)), aside_(place_aside(where_, runtime_directory)), here_(std::move(here))
{
}

state_database::~state_database()
{
    if (thread_) thread_->join();
}

// Completed under another name first: an empty or partial file is never mistaken for the database.
result<void> state_database::create() const
{
    const auto path = where_.database();
    const auto home = directory::open(path.parent_path());
    if (!home) return home.error();
    const std::string name = path.filename().string();
    for (const char* rest : {"-wal", "-shm"})
        if (home->has(name + rest))
            return unusable(path.string() + " is missing, but " + path.string() + rest +
                            " exists: restore a backup, or move it away as well and run: exposure-agent "
                            "reconcile --accept-loss (issues new certificates)");
    const std::string temporary = temporary_name(name);
    for (const char* rest : {"", "-journal", "-wal", "-shm"})
        if (home->has(temporary + rest))
            if (auto removed = remove_file(*home, temporary + rest); !removed) return removed;
    if (auto made = create_file(*home, temporary, "", secret_file); !made) return made;
    {
        auto database = sqlite::connection::create(home->path() / temporary);
        if (!database) return database.error();
        for (const char* statement : {"PRAGMA journal_mode=DELETE", "PRAGMA synchronous=FULL", "BEGIN"})
            if (auto done = database->run(statement); !done) return done;
        for (const char* statement : schema)
            if (auto done = database->run(statement); !done) return done;
        if (auto done = keep_value(*database, installation_name, record::write(here_)); !done) return done;
        const std::string version = "PRAGMA user_version=" + std::to_string(schema_version);
        if (auto done = database->run(version.c_str()); !done) return done;
        if (auto done = database->run("COMMIT"); !done) return done;
    }
    return rename_into_place(*home, temporary, name);
}

result<void> state_database::open()
{
    const auto path = where_.database();
    if (!is_there(path))
        if (auto made = create(); !made) return made;
    auto opened = sqlite::connection::open(path, sqlite::access::read_write);
    if (!opened && opened.error().code == policy::errc::disk_full && ::unlink(where_.reserve().c_str()) == 0)
        opened = sqlite::connection::open(path, sqlite::access::read_write);
    if (!opened && opened.error().code == policy::errc::disk_full)
        return policy::with_context("nothing was sent", opened.error());
    if (!opened) return opened.error();
    if (auto known = check_version(*opened, path); !known) return known;
    writer_.emplace(std::move(*opened));
    if (!lane_) lane_ = thread_.emplace(1).get_executor();
    return {};
}

result<policy::stored_state> state_database::load()
{
    policy::stored_state state{.owner = here_.owner};
    auto from = open_to_read(where_);
    if (!from) return from.error();
    if (!*from) return state;
    // one transaction, for a consistent snapshot
    auto& database = **from;
    result<void> done = database.run("BEGIN");
    if (done) load_users(database, state, done);
    if (done) done = load_exposures(database, state);
    if (!done) return done.error();
    const auto known = kept_value(database, installation_name);
    if (!known) return known.error();
    const auto leaving = kept_value(database, leaving_name);
    if (!leaving) return leaving.error();
    if (*leaving) {  // unreadable, but it still shows that this host was decommissioned
        const auto read = record::read<policy::decommission>(**leaving);
        state.leaving = read ? *read : policy::decommission{};
    }
    const auto stored = *known ? record::read<installation>(**known) : policy::failure{};
    if (stored) state.owner = stored->owner;
    // users without an installation record: a part was copied or restored
    state.cloned = stored ? is_from_elsewhere(*stored, here_) : !state.users.empty();
    return state;
}

// ---- writing, on the lane (the write executor)

// Changes submitted before the lane starts writing share one transaction. The lane runs its
// tasks in order, so the queue needs no lock.
void state_database::submit(change what, outcome done)
{
    if (!lane_) {
        done(unusable("the state database was not opened for writing"));
        return;
    }
    auto entry = std::make_shared<waiting_change>(waiting_change{std::move(what), std::move(done)});
    asio::post(lane_, [this, entry = std::move(entry)]() mutable {
        waiting_.push_back(std::move(entry));
        if (waiting_.size() == 1) asio::post(lane_, [this] { write_waiting(); });
    });
}

io::task<void> state_database::commit(change what)
{
    const auto executor = co_await asio::this_coro::executor;
    // after the post the lane no longer holds the handler: it belongs to the event loop, which may
    // be destroyed at once
    const auto start = [&](auto handler) {
        auto resume = std::make_shared<decltype(handler)>(std::move(handler));
        // posted to the plain executor: a copy of the guard's executor counts as work, and would end here
        submit(std::move(what), [resume = std::move(resume), executor,
                                 work = asio::make_work_guard(executor)](result<void> done) mutable {
            auto back = [resume = std::move(resume), work = std::move(work), done = std::move(done)] {
                (*resume)(done);
            };
            asio::post(executor, std::move(back));
        });
    };
    co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(result<void>)>(
        start, asio::use_awaitable);
}

result<void> state_database::write_now(change what)
{
    auto answer = std::make_shared<std::promise<result<void>>>();
    auto done = answer->get_future();
    submit(std::move(what), [answer](result<void> r) { answer->set_value(std::move(r)); });
    return done.get();
}

void state_database::write_waiting()
{
    const auto batch = std::exchange(waiting_, {});
    std::vector<const change*> all;
    for (const auto& entry : batch)
        all.push_back(&entry->what);
    const auto together = write_with_reserve(all);
    for (const auto& entry : batch) {
        // a change that cannot be stored must not lose the others
        if (together || batch.size() == 1)
            entry->done(together);
        else
            entry->done(write_with_reserve({&entry->what}));
    }
}

// Retries once with the space of the reserve if the disk is full.
result<void> state_database::write_with_reserve(const std::vector<const change*>& changes)
{
    auto written = write_all(changes);
    const bool full = !written && written.error().code == policy::errc::disk_full;
    if (!full || ::unlink(where_.reserve().c_str()) != 0) return written;
    return write_all(changes);
}

result<void> state_database::write_all(const std::vector<const change*>& changes)
{
    if (auto here = refuse_if_moved(); !here) return here;
    io::crash_point("disk.commit.before");
    auto done = writer_->run("BEGIN IMMEDIATE");
    if (!done) return done;
    for (const auto* one : changes)
        if (done) done = write_change(*writer_, *one);
    if (done) done = writer_->run("COMMIT");
    if (!done) static_cast<void>(writer_->run("ROLLBACK"));  // on a full disk SQLite has already rolled back
    if (done) ++transactions_;
    if (done) io::crash_point("disk.commit.after");
    return done;
}

result<void> state_database::refuse_if_moved() const
{
    if (!writer_->has_moved()) return {};
    return policy::failure{.code = policy::errc::disk,
                           .context = where_.database().string() +
                                      " was removed or replaced while exposure-agent was running; stop it, "
                                      "restore the state directory, and start it again",
                           .kind = policy::retry::after_change};
}

// ---- space for responses: a file that is deleted when a commit finds the disk full

result<void> state_database::keep_reserve() const
{
    if (auto here = refuse_if_moved(); !here) return here;
    const auto path = where_.reserve();
    const auto home = directory::open(path.parent_path());
    if (!home) return home.error();
    const auto name = path.filename().string();
    const descriptor file(
        openat(home->fd(), name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
    const std::string what = "cannot reserve space for responses in " + path.string();
    if (!file) return from_errno(errno, what);
    struct stat facts;
    if (fstat(file.get(), &facts) != 0) return from_errno(errno, what);
    if (S_ISREG(facts.st_mode) && facts.st_size >= reserve_bytes) return {};
    const int error = posix_fallocate(file.get(), 0, reserve_bytes);
    if (error == 0) return {};
    unlinkat(home->fd(), name.c_str(), 0);
    return from_errno(error, what);
}

result<void> state_database::make_room_now()
{
    if (!lane_) return unusable("the state database was not opened for writing");
    std::promise<result<void>> answer;
    asio::post(lane_, [this, &answer] { answer.set_value(keep_reserve()); });
    return answer.get_future().get();
}

io::task<void> state_database::make_room()
{
    if (!lane_) co_return unusable("the state database was not opened for writing");
    co_return co_await io::offload(lane_, [this] { return keep_reserve(); });
}

result<void> has_room(const paths& where)
{
    const std::string what = "cannot write to " + where.private_directory().string();
    struct statvfs space;
    if (statvfs(where.private_directory().c_str(), &space) != 0) return {};  // there is nothing yet
    if ((space.f_flag & ST_RDONLY) != 0) return from_errno(EROFS, what);
    struct stat facts;
    const bool kept = stat(where.reserve().c_str(), &facts) == 0;
    const auto left = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    if (!kept && left < static_cast<std::uint64_t>(reserve_bytes)) return from_errno(ENOSPC, what);
    return {};
}

// ---- single values

result<std::string> state_database::read_pem(const policy::user_name& name, const std::string& generation,
                                             const char* sql, const char* what) const
{
    auto from = open_to_read(where_);
    if (!from) return policy::with_context(name.text(), from.error());
    std::string text;
    if (*from)
        if (auto read = (*from)->each(sql, {name.exposure, name.user, generation},
                                      [&](const auto& r) { text = std::string(r.text(0)); });
            !read)
            return policy::with_context(name.text(), read.error());
    if (!text.empty()) return text;
    return unusable(name.text() + ": the state database has no " + what + " for generation " + generation);
}

result<crypto::secret> state_database::read_key(const policy::user_name& name, const std::string& generation)
{
    auto text =
        read_pem(name, generation, "SELECT key FROM generations WHERE exposure = ? AND user = ? AND id = ?",
                 "private key");
    if (!text) return text.error();
    return crypto::secret(std::move(*text));
}

result<std::string> state_database::read_csr(const policy::user_name& name, const std::string& generation)
{
    return read_pem(name, generation,
                    "SELECT csr FROM generations WHERE exposure = ? AND user = ? AND id = ?",
                    "signing request");
}

result<std::string> state_database::read_certificate(const policy::user_name& name,
                                                     const std::string& generation)
{
    return read_pem(name, generation,
                    "SELECT certificate FROM generations WHERE exposure = ? AND user = ? AND id = ?",
                    "certificate");
}

result<std::vector<policy::history_event>> state_database::history(policy::instant since) const
{
    std::vector<policy::history_event> events;
    auto from = open_to_read(where_);
    if (!from) return from.error();
    if (!*from) return events;
    auto read = (*from)->each("SELECT record FROM events WHERE at >= ? ORDER BY at, id",
                              {std::int64_t(since.time_since_epoch().count())}, [&](const auto& r) {
                                  auto event = record::read<policy::history_event>(r.text(0));
                                  if (event) events.push_back(std::move(*event));
                              });
    if (!read) return read.error();
    return events;
}

result<std::optional<std::string>> state_database::read_value(const std::string& name) const
{
    auto from = open_to_read(where_);
    if (!from) return from.error();
    if (!*from) return std::optional<std::string>();
    return kept_value(**from, value_prefix + name);
}

io::task<void> state_database::keep_configuration(std::shared_ptr<const policy::desired_state> desired)
{
    if (configuration_ == desired) co_return policy::result<void>();
    if (!lane_) co_return unusable("the state database was not opened for writing");
    auto text = record::write(*desired);
    const auto kept = co_await io::offload(lane_, [this] { return read_value(configuration_name); });
    if (!kept) co_return kept.error();
    if (*kept != text) {
        change what;
        what.values.emplace(configuration_name, std::move(text));
        if (auto stored = co_await commit(std::move(what)); !stored) co_return stored;
    }
    configuration_ = std::move(desired);
    co_return policy::result<void>();
}

result<std::optional<policy::desired_state>> state_database::last_configuration() const
{
    const auto kept = read_value(configuration_name);
    if (!kept) return kept.error();
    std::optional<policy::desired_state> last;
    if (!*kept) return last;
    if (auto known = record::read<policy::desired_state>(**kept)) last = std::move(*known);
    return last;
}

std::map<std::string, credential_record> state_database::load_credentials(const paths& where)
{
    std::map<std::string, credential_record> all;
    auto from = open_to_read(where);
    if (!from || !*from) return all;
    static_cast<void>((*from)->each("SELECT name, record FROM credentials", {}, [&](const auto& r) {
        auto known = record::read<credential_record>(r.text(1));
        if (known) all.emplace(std::string(r.text(0)), std::move(*known));
    }));
    return all;
}

policy::notify_memory state_database::load_notifications(const paths& where)
{
    auto from = open_to_read(where);
    if (!from || !*from) return {};
    const auto kept = kept_value(**from, notifications_name);
    if (!kept || !*kept) return {};
    auto memory = record::read<policy::notify_memory>(**kept);
    return memory ? std::move(*memory) : policy::notify_memory();
}

result<bool> state_database::is_copied() const
{
    auto from = open_to_read(where_);
    if (!from) return from.error();
    return *from ? was_copied(**from, here_) : result<bool>(false);
}

result<void> state_database::take_over()
{
    const auto known = kept_value(*writer_, installation_name);
    if (!known) return known.error();
    auto mine = here_;
    if (const auto stored = *known ? record::read<installation>(**known) : policy::failure{}; stored)
        mine.owner = stored->owner;
    if (auto done = writer_->run("BEGIN IMMEDIATE"); !done) return done;
    auto done = keep_value(*writer_, installation_name, record::write(mine));
    // what waited for this is no longer blocked; do not wait for the next pass to find out
    for (const char* unblock :
         {"UPDATE users SET record = json_remove(record, '$.blocked') WHERE json_valid(record) AND "
          "json_extract(record, '$.blocked.reason') = 'cloned'",
          "UPDATE exposures SET record = json_remove(record, '$.blocked', '$.failure') WHERE "
          "json_valid(record) "
          "AND (json_extract(record, '$.blocked.reason') = 'cloned' OR "
          "json_extract(record, '$.failure.code') = 'login_required')"})
        if (done) done = writer_->run(unblock);
    if (!done) {
        (void)writer_->run("ROLLBACK");
        return done;
    }
    return writer_->run("COMMIT");
}

// ---- tokens

// The fallback file begins with the digest of the tokens that it replaces: once other tokens are
// stored, it is out of date, even if a kill prevented its removal.
result<std::optional<kept_tokens>> state_database::load_tokens() const
{
    bool copied = false;
    std::optional<std::string> text;
    auto from = open_to_read(where_);
    if (!from) return from.error();
    if (*from) {
        auto stored = kept_value(**from, tokens_name);
        if (!stored) return stored.error();
        text = std::move(*stored);
        const auto whose = was_copied(**from, here_);
        if (!whose) return whose.error();
        copied = *whose;
    }
    if (!aside_.empty()) {
        auto other = read_own_file(aside_, aside_bytes);
        if (!other) return other.error();
        const auto replaces = crypto::sha256_hex(text ? std::string_view(*text) : std::string_view()) + "\n";
        if (*other && (*other)->starts_with(replaces)) {
            crypto::secret kept(std::string_view(**other).substr(replaces.size()));
            crypto::wipe(**other);
            return std::optional(kept_tokens{.text = std::move(kept), .in_place = false, .copied = copied});
        }
    }
    if (!text) return std::optional<kept_tokens>();
    return std::optional(kept_tokens{.text = crypto::secret(std::move(*text)), .copied = copied});
}

result<void> state_database::save_tokens(const crypto::secret& text)
{
    change what;
    what.tokens = text.clone();
    auto saved = write_now(std::move(what));
    if (saved) {
        if (!aside_.empty()) ::unlink(aside_.c_str());
        return {};
    }
    if (aside_.empty() || !save_aside(text)) return saved;
    auto why = saved.error();
    why.context += "; the tokens are kept in " + aside_.string() + " until then";
    return why;
}

result<void> state_database::save_aside(const crypto::secret& text) const
{
    std::optional<std::string> replaced;
    if (auto from = open_to_read(where_); from && *from) {
        auto stored = kept_value(**from, tokens_name);
        if (!stored) return stored.error();
        replaced = std::move(*stored);
    }
    auto content = crypto::sha256_hex(replaced ? std::string_view(*replaced) : std::string_view()) + "\n";
    if (replaced) crypto::wipe(*replaced);
    content.reserve(content.size() + text.view().size());  // reallocation would leave a copy behind
    content.append(text.view());
    auto kept = write_file(aside_, content, secret_file);
    crypto::wipe(content);
    return kept;
}

}  // namespace disk
