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

// Internal to this room: SQLite with results for exceptions, and the one place where its errors become
// failures.

namespace disk::sqlite {

// A value bound to a `?`: null, a number, a text or bytes. Views: they outlive the call.
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

// One row of an answer; valid during the callback. Texts and bytes are views.
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
    // An existing database. Readers get along without write permission, also on a full or read-only disk.
    [[nodiscard]] static policy::result<connection> open(const std::filesystem::path&, access);
    // A new one at a path that nothing has yet, readable by us alone.
    [[nodiscard]] static policy::result<connection> create(const std::filesystem::path&);

    [[nodiscard]] policy::result<void> run(const char* sql, const std::vector<value>& = {});
    [[nodiscard]] policy::result<void> each(const char* sql, const std::vector<value>&,
                                            const std::function<void(const row&)>&);

    // True when the file under its name is not the one that is open: removed or replaced.
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
    std::vector<std::pair<const char*, statement>> kept_;  // by the address of the text: literals
};

}  // namespace disk::sqlite
