#include "agent/platform/json.hpp"

#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace platform {

namespace json = boost::json;

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

// In plain decimal notation: no exponent, no trailing zeros.
std::string number_text(double value)
{
    std::array<char, 400> digits;  // the largest double has 309 digits before the point
    const auto end = std::to_chars(digits.begin(), digits.end(), value, std::chars_format::fixed).ptr;
    return std::string(digits.begin(), end);
}

// ---- signs of paging: not in the reference (platform-api section 8), so any of them means that
// a list may be cut off, and that an element missing from it is not known to be absent

constexpr std::array next_keys = {
    "next",     "nextPage",    "next_page", "nextPageToken", "next_page_token", "nextCursor",
    "nextLink", "next_cursor", "nextToken", "cursor",        "continue",        "@odata.nextLink"};
constexpr std::array more_keys = {"hasMore", "has_more", "hasNext", "truncated"};
constexpr std::array total_keys = {"totalElements", "total_elements", "totalCount", "total_count",
                                   "totalItems",    "total_items",    "total",      "count"};
constexpr std::array page_keys = {"page", "pagination", "paging", "meta", "metadata", "links", "_links"};

bool says_something(const json::value& value)
{
    if (value.is_null()) return false;
    if (const auto* text = value.if_string()) return !text->empty();
    if (const auto* flag = value.if_bool()) return *flag;
    if (const auto* object = value.if_object()) return !object->empty();
    return true;
}

bool shows_more_here(const json::object& object, std::size_t items)
{
    const auto set = [&](const char* key) {
        const auto* member = object.if_contains(key);
        return member != nullptr && says_something(*member);
    };
    const auto above = [&](const char* key) {
        const auto* member = object.if_contains(key);
        if (member == nullptr || !member->is_number()) return false;
        boost::system::error_code error;
        const auto total = member->to_number<double>(error);
        return !error && total > static_cast<double>(items);
    };
    const auto last = object.if_contains("last");  // of Spring's pages: false on all but the last
    return std::ranges::any_of(next_keys, set) || std::ranges::any_of(more_keys, set) ||
           std::ranges::any_of(total_keys, above) ||
           (last != nullptr && last->is_bool() && !last->get_bool());
}

// Looks at the list's own object, then at the member that describes the page.
bool shows_more(const json::object& list, std::size_t items)
{
    if (shows_more_here(list, items)) return true;
    return std::ranges::any_of(page_keys, [&](const char* key) {
        const auto* page = object_of(list, key);
        return page != nullptr && shows_more_here(*page, items);
    });
}

// ---- parsing within limits

// Builds one value from parser events, checking the limits first.
class value_builder {
public:
    value_builder(std::size_t values, std::size_t bytes, json::storage_ptr storage)
        : values_limit_(values), bytes_limit_(bytes), storage_(storage), stack_(storage)
    {
        reset();
    }

    void reset()
    {
        values_ = bytes_ = open_ = 0;
        stack_.reset(storage_);
    }
    bool inside() const { return open_ > 0; }
    bool room(std::size_t bytes, json::error_code& error)
    {
        bytes_ += bytes;
        if (++values_ <= values_limit_ && bytes_ <= bytes_limit_) return true;
        error = json::error::array_too_large;
        return false;
    }
    bool begin(json::error_code& error)
    {
        ++open_;
        return room(0, error);
    }
    // The value is complete once inside() is false.
    void end_object(std::size_t members)
    {
        close([&] { stack_.push_object(members); });
    }
    void end_array(std::size_t elements)
    {
        close([&] { stack_.push_array(elements); });
    }
    void chars(json::string_view part) { stack_.push_chars(part); }
    void key(json::string_view last) { stack_.push_key(last); }
    void text(json::string_view last) { stack_.push_string(last); }
    void number(std::int64_t value) { stack_.push_int64(value); }
    void number(std::uint64_t value) { stack_.push_uint64(value); }
    void number(double value) { stack_.push_double(value); }
    void flag(bool value) { stack_.push_bool(value); }
    void null() { stack_.push_null(); }
    json::value take() { return stack_.release(); }

private:
    template <class F>
    void close(F push)
    {
        push();
        --open_;
    }

    std::size_t values_limit_;
    std::size_t bytes_limit_;
    json::storage_ptr storage_;
    json::value_stack stack_;
    std::size_t values_ = 0;
    std::size_t bytes_ = 0;
    std::size_t open_ = 0;
};

// The size limits that every handler of json::basic_parser declares; value_builder enforces the real ones.
struct handler_base {
    static constexpr std::size_t max_object_size = json::object::max_size();
    static constexpr std::size_t max_array_size = std::size_t(-1);
    static constexpr std::size_t max_key_size = json::string::max_size();
    static constexpr std::size_t max_string_size = json::string::max_size();

    bool on_document_begin(json::error_code&) { return true; }
    bool on_document_end(json::error_code&) { return true; }
    bool on_number_part(json::string_view, json::error_code&) { return true; }
    bool on_comment_part(json::string_view, json::error_code&) { return true; }
    bool on_comment(json::string_view, json::error_code&) { return true; }
};

// A whole document.
struct document_handler : handler_base {
    explicit document_handler(json::storage_ptr storage)
        : built(document_values, std::size_t(-1), std::move(storage))
    {
    }

    bool on_object_begin(json::error_code& e) { return built.begin(e); }
    bool on_array_begin(json::error_code& e) { return built.begin(e); }
    bool on_object_end(std::size_t n, json::error_code&) { return built.end_object(n), true; }
    bool on_array_end(std::size_t n, json::error_code&) { return built.end_array(n), true; }
    bool on_key_part(json::string_view s, std::size_t, json::error_code&) { return built.chars(s), true; }
    bool on_key(json::string_view s, std::size_t, json::error_code&) { return built.key(s), true; }
    bool on_string_part(json::string_view s, std::size_t, json::error_code&) { return built.chars(s), true; }
    bool on_string(json::string_view s, std::size_t, json::error_code& e)
    {
        return built.room(0, e) && (built.text(s), true);
    }
    bool on_int64(std::int64_t v, json::string_view, json::error_code& e) { return number(v, e); }
    bool on_uint64(std::uint64_t v, json::string_view, json::error_code& e) { return number(v, e); }
    bool on_double(double v, json::string_view, json::error_code& e) { return number(v, e); }
    bool on_bool(bool v, json::error_code& e) { return built.room(0, e) && (built.flag(v), true); }
    bool on_null(json::error_code& e) { return built.room(0, e) && (built.null(), true); }

    template <class N>
    bool number(N value, json::error_code& error)
    {
        return built.room(0, error) && (built.number(value), true);
    }

    value_builder built;
};

// A list: each element, and each other member of the object around it, is built, handed on and
// dropped.
class list_handler : public handler_base {
public:
    explicit list_handler(list_reader::element_handler each)
        : each_(std::move(each)), built_(element_values_limit, element_bytes, {})
    {
    }

    bool on_object_begin(json::error_code& e) { return open(true, e); }
    bool on_array_begin(json::error_code& e) { return open(false, e); }
    bool on_object_end(std::size_t n, json::error_code& e)
    {
        if (!built_.inside()) return leave(n);
        built_.end_object(n);
        return built_.inside() || complete(e);
    }
    bool on_array_end(std::size_t n, json::error_code& e)
    {
        if (!built_.inside()) return leave(n);
        built_.end_array(n);
        return built_.inside() || complete(e);
    }
    bool on_key_part(json::string_view s, std::size_t, json::error_code& e)
    {
        if (built_.inside()) return grow(s, e) && (built_.chars(s), true);
        if (key_.size() + s.size() > element_bytes) return refuse("a key in it is too long", e);
        key_.append(s.data(), s.size());
        return true;
    }
    bool on_key(json::string_view s, std::size_t n, json::error_code& e)
    {
        if (built_.inside()) return grow(s, e) && (built_.key(s), true);
        return on_key_part(s, n, e);
    }
    bool on_string_part(json::string_view s, std::size_t, json::error_code& e)
    {
        return (built_.inside() || lone(e)) && grow(s, e) && (built_.chars(s), true);
    }
    bool on_string(json::string_view s, std::size_t, json::error_code& e)
    {
        return (built_.inside() || lone(e)) && built_.room(s.size(), e) && (built_.text(s), whole(e));
    }
    bool on_int64(std::int64_t v, json::string_view, json::error_code& e) { return number(v, e); }
    bool on_uint64(std::uint64_t v, json::string_view, json::error_code& e) { return number(v, e); }
    bool on_double(double v, json::string_view, json::error_code& e) { return number(v, e); }
    bool on_bool(bool v, json::error_code& e)
    {
        return (built_.inside() || lone(e)) && built_.room(0, e) && (built_.flag(v), whole(e));
    }
    bool on_null(json::error_code& e)
    {
        if (!built_.inside() && at_items()) {
            seen_items_ = true;
            key_.clear();
            return true;
        }
        return (built_.inside() || lone(e)) && built_.room(0, e) && (built_.null(), whole(e));
    }

    const std::optional<policy::failure>& refused() const { return refused_; }

    policy::result<list_reader::summary> summary() const
    {
        if (!seen_items_ && !(object_ && around_.empty()))
            return unexpected_answer("it is not a list: it has no \"items\"");
        return list_reader::summary{.elements = elements_, .shows_more = shows_more(around_, elements_)};
    }

private:
    enum class place { outside, around, items };

    bool at_items() const { return place_ == place::around && key_ == "items"; }

    bool refuse(std::string why, json::error_code& error)
    {
        refused_ = unexpected_answer(std::move(why));
        error = json::error::extra_data;
        return false;
    }
    bool grow(json::string_view part, json::error_code& error) { return built_.room(part.size(), error); }

    bool open(bool object, json::error_code& error)
    {
        if (built_.inside()) return built_.begin(error);
        if (place_ == place::outside) {
            place_ = object ? place::around : place::items;
            object_ = object;
            seen_items_ = !object;
            return true;
        }
        if (place_ == place::items) {
            if (!object) return refuse("it is not a list of objects", error);
            return built_.begin(error);
        }
        if (key_ != "items") return built_.begin(error);
        if (object) return refuse("its \"items\" is not a list", error);
        if (seen_items_) return refuse("it has two lists of items", error);
        seen_items_ = true;
        place_ = place::items;
        key_.clear();
        return true;
    }
    // A scalar where no value is being collected.
    bool lone(json::error_code& error)
    {
        if (place_ == place::items) return refuse("it is not a list of objects", error);
        if (place_ == place::outside) return refuse("it is not a list", error);
        if (key_ == "items") return refuse("its \"items\" is not a list", error);
        return true;
    }
    template <class N>
    bool number(N value, json::error_code& error)
    {
        return (built_.inside() || lone(error)) && built_.room(0, error) &&
               (built_.number(value), whole(error));
    }
    bool whole(json::error_code& error) { return built_.inside() || complete(error); }

    bool leave(std::size_t)
    {
        place_ = place_ == place::items && object_ ? place::around : place::outside;
        return true;
    }

    // An element, or a member beside the items, is complete.
    bool complete(json::error_code& error)
    {
        auto value = built_.take();
        built_.reset();
        if (place_ == place::items) {
            ++elements_;
            auto taken = each_(value.get_object());
            if (taken) return true;
            refused_ = taken.error();
            error = json::error::extra_data;
            return false;
        }
        if (around_.size() >= element_values_limit) return refuse("it has too many members", error);
        around_[key_] = std::move(value);
        key_.clear();
        return true;
    }

    list_reader::element_handler each_;
    value_builder built_;
    std::optional<policy::failure> refused_;
    json::object around_;
    std::string key_;
    std::size_t elements_ = 0;
    place place_ = place::outside;
    bool object_ = false;
    bool seen_items_ = false;
};

json::parse_options limited()
{
    json::parse_options options;
    options.max_depth = json_depth;
    return options;
}

policy::failure not_json(char first, const json::error_code& error)
{
    if (first == 0) return unexpected_answer("it has no content");
    if (first == '<') return unexpected_answer("it is an HTML page (of a login or a proxy?), not JSON");
    if (error == json::error::array_too_large) return unexpected_answer("it is too large");
    if (error == json::error::too_deep) return unexpected_answer("it is nested too deeply");
    if (error == json::error::incomplete) return unexpected_answer("it is truncated");
    return unexpected_answer("it is not JSON (" + error.message() + ")");
}

// The first character that is not blank; 0 if there is none.
char first_of(std::string_view text)
{
    const auto first = text.find_first_not_of(" \t\r\n");
    return first == std::string_view::npos ? 0 : text[first];
}

}  // namespace

policy::failure unexpected_answer(std::string context)
{
    return {.code = policy::errc::bad_answer, .context = std::move(context), .kind = policy::retry::later};
}

policy::result<json::value> parse_json(std::string_view text, json::storage_ptr storage)
{
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    json::basic_parser<document_handler> parser(limited(), std::move(storage));
    json::error_code error;
    const auto used = parser.write_some(false, text.data(), text.size(), error);
    if (!error && used < text.size()) error = json::error::extra_data;
    if (error) return not_json(first_of(text), error);
    return parser.handler().built.take();
}

policy::result<json::object> parse_object(std::string_view text, json::storage_ptr storage)
{
    auto value = parse_json(text, std::move(storage));
    if (!value) return value.error();
    if (!value->is_object()) return unexpected_answer("it is not a JSON object");
    return std::move(value->get_object());
}

std::string text_of(const json::object& object, std::string_view key)
{
    const auto* member = object.if_contains(json::string_view(key.data(), key.size()));
    if (member == nullptr) return {};
    if (const auto* text = member->if_string()) return std::string(text->data(), text->size());
    if (const auto* number = member->if_int64()) return std::to_string(*number);
    if (const auto* number = member->if_uint64()) return std::to_string(*number);
    if (const auto* number = member->if_double()) return number_text(*number);
    return {};
}

const json::object* object_of(const json::object& object, std::string_view key)
{
    const auto* member = object.if_contains(json::string_view(key.data(), key.size()));
    return member == nullptr ? nullptr : member->if_object();
}

class list_reader::parser {
public:
    explicit parser(element_handler each) : json_(limited(), std::move(each)) {}

    policy::result<void> write(std::string_view piece, bool more)
    {
        if (failed_) return *failed_;
        if (start_.size() < byte_order_mark.size()) {  // a byte order mark may arrive byte by byte
            start_.append(piece);
            if (more && start_.size() < byte_order_mark.size()) return {};
            piece = start_;
            if (piece.starts_with(byte_order_mark)) piece.remove_prefix(byte_order_mark.size());
        }
        if (first_ == 0) first_ = first_of(piece);
        json::error_code error;
        const auto used = json_.write_some(more, piece.data(), piece.size(), error);
        if (!error && used < piece.size()) error = json::error::extra_data;
        if (start_.size() > byte_order_mark.size()) start_.resize(byte_order_mark.size());
        if (!error) return {};
        failed_ = json_.handler().refused() ? *json_.handler().refused() : not_json(first_, error);
        return *failed_;
    }

    policy::result<summary> finish()
    {
        if (auto ended = write({}, false); !ended) return ended.error();
        return json_.handler().summary();
    }

private:
    json::basic_parser<list_handler> json_;
    std::optional<policy::failure> failed_;
    std::string start_;
    char first_ = 0;
};

list_reader::list_reader(element_handler each) : parser_(std::make_unique<parser>(std::move(each))) {}
list_reader::list_reader(list_reader&&) noexcept = default;
list_reader::~list_reader() = default;

policy::result<void> list_reader::write(std::string_view piece)
{
    return parser_->write(piece, true);
}

policy::result<list_reader::summary> list_reader::finish()
{
    return parser_->finish();
}

}  // namespace platform
