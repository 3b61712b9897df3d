#pragma once

#include "policy/result.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

// Internal to this directory: SQLite with results instead of exceptions. The only place that
// converts SQLite errors to failures.

namespace disk::sqlite {

// A value bound to a `?`: null, a number, text or bytes. A view: the data must outlive the call.
struct blob {
    std::string_view bytes;
};
class value {
public:
    value(std::nullptr_t) : what_(kind::null) {}
    value(std::int64_t number) : what_(kind::number), number_(number) {}
    value(std::string_view text) : what_(kind::text), bytes_(text) {}
    value(const std::string& text) : value(std::string_view(text)) {}
    value(const char* text) : value(std::string_view(text)) {}
    value(blob b) : what_(kind::bytes), bytes_(b.bytes) {}

    int bind(sqlite3_stmt*, int index) const;

private:
    enum class kind { null, number, text, bytes };
    kind what_;
    std::int64_t number_ = 0;
    std::string_view bytes_;
};

// One row of a result; valid during the callback. Text and bytes are views.
class row {
public:
    explicit row(sqlite3_stmt* s) : statement_(s) {}
    std::int64_t number(int column) const;
    std::string_view text(int column) const;
    bool is_null(int column) const;

private:
    sqlite3_stmt* statement_;
};

enum class access { read_only, read_write };

class connection {
public:
    // An existing database. Readers need no write permission, and work on a full or read-only disk.
    [[nodiscard]] static policy::result<connection> open(const std::filesystem::path&, access);
    // A new one, at a path that does not exist yet, readable by us alone.
    [[nodiscard]] static policy::result<connection> create(const std::filesystem::path&);

    [[nodiscard]] policy::result<void> run(const char* sql, const std::vector<value>& = {});
    [[nodiscard]] policy::result<void> each(const char* sql, const std::vector<value>&,
                                            const std::function<void(const row&)>&);

    // True if the path no longer names the open file: it was removed or replaced.
    bool has_moved() const;

private:
    struct closes {
        void operator()(sqlite3*) const;
    };
    struct finalizes {
        void operator()(sqlite3_stmt*) const;
    };
    using statement = std::unique_ptr<sqlite3_stmt, finalizes>;

    connection(sqlite3* handle, std::filesystem::path path) : handle_(handle), path_(std::move(path)) {}
    static policy::result<connection> open_with(const std::filesystem::path&, int flags,
                                                const char* parameters);
    policy::result<sqlite3_stmt*> prepared(const char* sql);
    policy::failure failed(int code) const;

    std::unique_ptr<sqlite3, closes> handle_;
    std::filesystem::path path_;
    std::vector<std::pair<const char*, statement>> kept_;  // keyed by the address of the literal
};

}  // namespace disk::sqlite
