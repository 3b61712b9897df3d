#pragma once

#include "policy/result.hpp"
#include "policy/stored.hpp"

#include <boost/json.hpp>

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// Internal to this room: one list of fields per record, walked by a writer and by a reader, so that what is
// written and what is read cannot drift apart. A record is a type with `fields_of(codec&, T&)`. What is empty
// or false is left out; what is missing keeps its default. Times are Unix seconds.

namespace disk::json {

// The words of an enumeration in a file; nullopt for a word that this version does not know.
template <class E>
struct words;

template <class T>
concept worded = std::is_enum_v<T>;

template <class T>
concept number = std::integral<T> && !std::same_as<T, bool>;

class writer {
public:
    explicit writer(boost::json::object& to) : to_(to) {}

    template <class T>
    void operator()(std::string_view key, const T& value)
    {
        if (!is_default(value)) to_.emplace(key, encode(value));
    }

private:
    static bool is_default(const std::string& v) { return v.empty(); }
    static bool is_default(bool v) { return !v; }
    template <class T>
    static bool is_default(const std::optional<T>& v)
    {
        return !v;
    }
    template <class T>
    static bool is_default(const std::vector<T>& v)
    {
        return v.empty();
    }
    template <class T>
    static bool is_default(const T&)
    {
        return false;
    }

    boost::json::value encode(const std::string& v)
    {
        return boost::json::value(std::string_view(v), to_.storage());
    }
    boost::json::value encode(bool v) { return boost::json::value(v, to_.storage()); }
    boost::json::value encode(const number auto& v) { return boost::json::value(v, to_.storage()); }
    boost::json::value encode(policy::instant v)
    {
        return boost::json::value(v.time_since_epoch().count(), to_.storage());
    }
    boost::json::value encode(policy::duration v) { return boost::json::value(v.count(), to_.storage()); }
    template <worded E>
    boost::json::value encode(const E& v)
    {
        return boost::json::value(std::string_view(words<E>::of(v)), to_.storage());
    }
    template <class T>
    boost::json::value encode(const std::optional<T>& v)
    {
        return encode(*v);
    }
    template <class T>
    boost::json::value encode(const std::vector<T>& v)
    {
        boost::json::array all(to_.storage());
        all.reserve(v.size());
        for (const auto& one : v)
            all.push_back(encode(one));
        return all;
    }
    template <class T>
    boost::json::value encode(const T& record)
    {
        boost::json::object object(to_.storage());
        writer inner(object);
        fields_of(inner, record);
        return object;
    }

    boost::json::object& to_;
};

// The first thing that does not fit is kept in `wrong`, as a sentence's end; what comes after it is not read.
class reader {
public:
    reader(const boost::json::object& from, std::string& wrong) : from_(from), wrong_(wrong) {}

    template <class T>
    void operator()(std::string_view key, T& value)
    {
        const auto* found = from_.if_contains(key);
        if (!wrong_.empty() || !found || found->is_null()) return;
        if (!decode(*found, value) && wrong_.empty()) wrong_ = "\"" + std::string(key) + "\" does not fit";
    }

private:
    static bool decode(const boost::json::value& from, std::string& to)
    {
        const auto* text = from.if_string();
        if (text) to.assign(text->data(), text->size());
        return text;
    }
    static bool decode(const boost::json::value& from, bool& to)
    {
        if (from.is_bool()) to = from.get_bool();
        return from.is_bool();
    }
    template <number T>
    static bool decode(const boost::json::value& from, T& to)
    {
        boost::json::error_code unfit;
        if (!from.is_number()) return false;
        to = from.to_number<T>(unfit);
        return !unfit;
    }
    static bool decode(const boost::json::value& from, policy::duration& to)
    {
        policy::duration::rep seconds = 0;
        const bool fits = decode(from, seconds);
        to = policy::duration(seconds);
        return fits;
    }
    static bool decode(const boost::json::value& from, policy::instant& to)
    {
        policy::duration since{};
        const bool fits = decode(from, since);
        to = policy::instant(since);
        return fits;
    }
    template <worded E>
    static bool decode(const boost::json::value& from, E& to)
    {
        std::string word;
        const auto known = decode(from, word) ? words<E>::from(word) : std::nullopt;
        if (known) to = *known;
        return known.has_value();
    }
    template <class T>
    bool decode(const boost::json::value& from, std::optional<T>& to)
    {
        return decode(from, to.emplace());
    }
    template <class T>
    bool decode(const boost::json::value& from, std::vector<T>& to)
    {
        const auto* all = from.if_array();
        if (!all) return false;
        to.reserve(all->size());
        for (const auto& one : *all)
            if (!decode(one, to.emplace_back())) return false;
        return true;
    }
    template <class T>
    bool decode(const boost::json::value& from, T& record)
    {
        const auto* object = from.if_object();
        if (!object) return false;
        reader inner(*object, wrong_);
        fields_of(inner, record);
        return wrong_.empty();
    }

    const boost::json::object& from_;
    std::string& wrong_;
};

inline constexpr int schema =
    1;  // of every file in the private store; a newer one is refused, never guessed at

template <class T>
std::string write(const T& record)
{
    boost::json::monotonic_resource arena;
    boost::json::object object(&arena);
    object.emplace("schema", schema);
    writer to(object);
    fields_of(to, record);
    return boost::json::serialize(object) + "\n";
}

// errc::disk, retry::never: not JSON, cut off, a field that does not fit, or a newer schema.
template <class T>
policy::result<T> read(std::string_view text)
{
    const auto refuse = [](std::string why) {
        return policy::failure{policy::errc::disk, std::move(why), policy::retry::never, std::nullopt};
    };
    std::array<unsigned char, 16 << 10> first;  // holds a record of usual size without the heap
    boost::json::monotonic_resource arena(first.data(), first.size());
    boost::json::error_code broken;
    boost::json::parse_options options;
    options.allow_invalid_utf8 = true;  // sentences quote what others wrote
    const auto parsed = boost::json::parse(text, broken, &arena, options);
    if (broken || !parsed.is_object()) return refuse("it is damaged or cut off");

    int found = 0;
    std::string wrong;
    reader from(parsed.get_object(), wrong);
    from("schema", found);
    if (found > schema)
        return refuse("a newer exposure-agent wrote it (schema " + std::to_string(found) +
                      ", this one knows " + std::to_string(schema) + ")");
    if (found < 1) return refuse("it has no schema number");
    T record;
    fields_of(from, record);
    if (!wrong.empty()) return refuse(wrong);
    return record;
}

}  // namespace disk::json
