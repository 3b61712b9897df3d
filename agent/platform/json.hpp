#pragma once

#include "policy/result.hpp"

#include <boost/json/fwd.hpp>
#include <boost/json/memory_resource.hpp>
#include <boost/json/storage_ptr.hpp>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>

// Foreign JSON, parsed without trusting its shape or its size.
// Failures are errc::bad_answer; their messages continue "the answer of HOST: ".

namespace platform {

// Limits of a document, counted while it is parsed, before anything is built from it.
inline constexpr std::size_t document_values = 100'000;
inline constexpr std::size_t element_values_limit = 1'000;  // per list element
inline constexpr std::size_t element_bytes = 64 << 10;
inline constexpr std::size_t json_depth = 32;

// Rejects HTML pages, truncated text, more than document_values values and nesting deeper than json_depth.
[[nodiscard]] policy::result<boost::json::value> parse_json(std::string_view text,
                                                            boost::json::storage_ptr = {});

// The same for a document that must be an object.
[[nodiscard]] policy::result<boost::json::object> parse_object(std::string_view text,
                                                               boost::json::storage_ptr = {});

// A member as text, a number as its digits; empty if it is missing, null or of another type.
std::string text_of(const boost::json::object&, std::string_view key);

// A member that is an object, else nullptr.
const boost::json::object* object_of(const boost::json::object&, std::string_view key);

policy::failure unexpected_answer(std::string context);  // errc::bad_answer

// Parses a list as its bytes arrive: {"items": [objects]}, or a bare array. Each element is handed on
// and dropped, so that memory use does not grow with the list. `{}` and null items are empty lists;
// any other document without items, and a list with an element that is not an object, is rejected.
class list_reader {
public:
    using element_handler = std::function<policy::result<void>(const boost::json::object&)>;

    explicit list_reader(element_handler each);
    list_reader(list_reader&&) noexcept;
    ~list_reader();

    policy::result<void> write(std::string_view piece);

    struct summary {
        std::size_t elements = 0;
        bool shows_more = false;  // a next page or cursor, or a total above the number of elements
    };
    // The list is complete only if this succeeds; otherwise the elements handed on mean nothing.
    policy::result<summary> finish();

private:
    class parser;
    std::unique_ptr<parser> parser_;
};

// Memory for JSON that holds tokens: overwritten before it is freed.
class wiping_storage final : public boost::json::memory_resource {
private:
    // Boost.JSON needs no alignment beyond the default of operator new.
    void* do_allocate(std::size_t size, std::size_t) override { return ::operator new(size); }

    void do_deallocate(void* memory, std::size_t size, std::size_t) override
    {
        explicit_bzero(memory, size);
        ::operator delete(memory);
    }

    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace platform
