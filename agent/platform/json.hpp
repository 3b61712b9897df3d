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

// Foreign JSON, read without trusting its shape or its size.
// Failures are errc::bad_answer; their sentences go on from "the answer of HOST: ".

namespace platform {

// What a document may cost: counted while it is read, before anything is built from it.
inline constexpr std::size_t document_values = 100'000;
inline constexpr std::size_t element_values_limit = 1'000;  // of one element of a list
inline constexpr std::size_t element_bytes = 64 << 10;
inline constexpr std::size_t json_depth = 32;

// Refused: HTML pages, cut texts, more than document_values values, nesting below json_depth.
[[nodiscard]] policy::result<boost::json::value> parse_json(std::string_view text,
                                                            boost::json::storage_ptr = {});

// The same, and it is an object.
[[nodiscard]] policy::result<boost::json::object> parse_object(std::string_view text,
                                                               boost::json::storage_ptr = {});

// A member as text, a number as its digits; empty when it is missing, null or something else.
std::string text_of(const boost::json::object&, std::string_view key);

// A member that is an object; nullptr otherwise.
const boost::json::object* object_of(const boost::json::object&, std::string_view key);

policy::failure unexpected_answer(std::string context);  // errc::bad_answer

// Reads a list as its bytes arrive: {"items": [objects]}, or the array alone. Each element is handed on and
// forgotten, so that a list of any length costs one element. `{}` and items of null are empty lists; every
// other document without items, and a list with an element that is no object, is no list.
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
    // Only now is the list known to be whole: without it, what was handed on means nothing.
    policy::result<summary> finish();

private:
    class parser;
    std::unique_ptr<parser> parser_;
};

// Memory for JSON that holds tokens: overwritten before it is given back.
class wiping_storage final : public boost::json::memory_resource {
private:
    // JSON asks for no alignment beyond the one that every allocation has.
    void* do_allocate(std::size_t size, std::size_t) override { return ::operator new(size); }

    void do_deallocate(void* memory, std::size_t size, std::size_t) override
    {
        explicit_bzero(memory, size);
        ::operator delete(memory);
    }

    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace platform
