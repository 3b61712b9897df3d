#include "agent/disk/sqlite.hpp"

#include "agent/disk/directory.hpp"

#include <algorithm>
#include <cerrno>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

namespace disk::sqlite {
namespace {

using policy::result;

// Another connection holds its lock only for a transaction, which takes milliseconds.
constexpr int busy_milliseconds = 10'000;

std::string what_of(const std::filesystem::path& path)
{
    return "the state database " + path.string();
}

policy::failure damaged(const std::filesystem::path& path, const std::string& why)
{
    const std::string name = path.string();
    return {.code = policy::errc::disk,
            .context = what_of(path) + " is damaged (" + why +
                       "); restore it from a backup, or move it away (mv " + name + " " + name +
                       ".damaged) and run: exposure-agent reconcile --accept-loss (issues new certificates; "
                       "the old users on the platform are shown as orphans)",
            .kind = policy::retry::never};
}

bool is_read_only(const std::filesystem::path& path)
{
    struct statvfs space;
    return statvfs(path.c_str(), &space) == 0 && (space.f_flag & ST_RDONLY) != 0;
}

// For a path in a URI: escapes reserved characters and everything that is not ASCII.
std::string escaped(const std::string& path)
{
    static constexpr char digits[] = "0123456789abcdef";
    std::string uri;
    for (const char c : path) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte > 0x20 && byte < 0x7f && c != '?' && c != '#' && c != '%')
            uri += c;
        else
            uri.append({'%', digits[byte >> 4], digits[byte & 15]});
    }
    return uri;
}

}  // namespace

int value::bind(sqlite3_stmt* to, int index) const
{
    const char* data = bytes_.data() ? bytes_.data() : "";  // a null pointer would bind NULL
    switch (what_) {
        case kind::null:
            return sqlite3_bind_null(to, index);
        case kind::number:
            return sqlite3_bind_int64(to, index, number_);
        case kind::text:
            return sqlite3_bind_text64(to, index, data, bytes_.size(), SQLITE_STATIC, SQLITE_UTF8);
        case kind::bytes:
            return sqlite3_bind_blob64(to, index, data, bytes_.size(), SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

std::int64_t row::number(int column) const
{
    return sqlite3_column_int64(statement_, column);
}

std::string_view row::text(int column) const
{
    const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return {data, data ? static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)) : 0};
}

bool row::is_null(int column) const
{
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

void connection::closes::operator()(sqlite3* handle) const
{
    sqlite3_close_v2(handle);
}

void connection::finalizes::operator()(sqlite3_stmt* statement) const
{
    sqlite3_finalize(statement);
}

policy::failure connection::failed(int code) const
{
    const std::string what = what_of(path_);
    // a failed COMMIT leaves its errno unchanged
    const int last = errno;
    const int known = sqlite3_system_errno(handle_.get());
    const int system = known != 0 ? known : last;
    switch (code & 0xff) {
        case SQLITE_NOTADB:
        case SQLITE_CORRUPT:
            return damaged(path_, sqlite3_errmsg(handle_.get()));
        case SQLITE_FULL:
            return from_errno(ENOSPC, "cannot write " + what);
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            return {.code = policy::errc::disk, .context = what + " is locked by another program"};
        case SQLITE_READONLY:
            return from_errno(is_read_only(path_) ? EROFS : EACCES, "cannot write " + what);
        case SQLITE_CANTOPEN:
            return from_errno(is_read_only(path_) ? EROFS
                              : system != 0       ? system
                                                  : EACCES,
                              "cannot open " + what);
        case SQLITE_IOERR:
            if (code == SQLITE_IOERR_SHMSIZE) return from_errno(ENOSPC, "cannot open " + what);
            if (system != 0) return from_errno(system, "cannot read or write " + what);
            [[fallthrough]];
        default:
            return {.code = policy::errc::disk,
                    .context = "cannot read or write " + what + ": " + sqlite3_errmsg(handle_.get())};
    }
}

result<connection> connection::open_with(const std::filesystem::path& path, int flags, const char* parameters)
{
    sqlite3* handle = nullptr;
    const std::string uri = "file:" + escaped(path.string()) + parameters;
    const int code = sqlite3_open_v2(
        uri.c_str(), &handle, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
    connection made(handle, path);
    if (code != SQLITE_OK) return made.failed(code);
    sqlite3_busy_timeout(handle, busy_milliseconds);
    // do not trust what the file defines beyond our own tables
    sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    // the first access to the file: opening alone reads nothing
    if (auto read = made.run("SELECT count(*) FROM sqlite_schema"); !read) return read.error();
    return made;
}

result<connection> connection::open(const std::filesystem::path& path, access wanted)
{
    struct stat facts;
    if (stat(path.c_str(), &facts) != 0) return from_errno(errno, "cannot open " + what_of(path));
    if (facts.st_size == 0) return damaged(path, "it is empty");
    if (wanted == access::read_write) {
        auto made = open_with(path, SQLITE_OPEN_READWRITE, "");
        if (!made) return made;
        if (sqlite3_db_readonly(made->handle_.get(), "main") != 0) return made->failed(SQLITE_READONLY);
        for (const char* setting : {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
                                    "PRAGMA secure_delete=ON", "PRAGMA foreign_keys=ON"})
            if (auto set = made->run(setting); !set) return set.error();
        return made;
    }
    auto made = open_with(path, SQLITE_OPEN_READONLY, "");
    if (made || made.error().kind == policy::retry::never) return made;
    // If there is no room for the index of the log that writers left, use a private index in memory.
    // Without a log the file is complete, and nobody can be writing to it.
    if (auto other = open_with(path, SQLITE_OPEN_READONLY, "?readonly_shm=1"); other) return other;
    struct stat log;
    const std::string name = path.string() + "-wal";
    if (stat(name.c_str(), &log) != 0 || log.st_size == 0)
        if (auto other = open_with(path, SQLITE_OPEN_READONLY, "?immutable=1"); other) return other;
    return made;
}

result<connection> connection::create(const std::filesystem::path& path)
{
    return open_with(path, SQLITE_OPEN_READWRITE, "");
}

result<sqlite3_stmt*> connection::prepared(const char* sql)
{
    const auto known = std::ranges::find(kept_, sql, &std::pair<const char*, statement>::first);
    if (known != kept_.end()) return known->second.get();
    sqlite3_stmt* made = nullptr;
    const int code = sqlite3_prepare_v3(handle_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr);
    if (code != SQLITE_OK) return failed(code);
    kept_.emplace_back(sql, statement(made));
    return made;
}

result<void> connection::run(const char* sql, const std::vector<value>& values)
{
    return each(sql, values, [](const row&) {});
}

result<void> connection::each(const char* sql, const std::vector<value>& values,
                              const std::function<void(const row&)>& use)
{
    const auto found = prepared(sql);
    if (!found) return found.error();
    sqlite3_stmt* const query = *found;
    int index = 0;
    for (const auto& one : values)
        one.bind(query, ++index);
    errno = 0;
    int code = sqlite3_step(query);
    for (; code == SQLITE_ROW; code = sqlite3_step(query))
        use(row(query));
    const auto outcome = code == SQLITE_DONE ? result<void>() : result<void>(failed(code));
    sqlite3_reset(query);
    sqlite3_clear_bindings(query);
    return outcome;
}

bool connection::has_moved() const
{
    int moved = 0;
    sqlite3_file_control(handle_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved != 0;
}

}  // namespace disk::sqlite
