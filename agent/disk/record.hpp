#pragma once

#include "crypto/secret.hpp"
#include "policy/dates.hpp"
#include "policy/desired.hpp"
#include "policy/naming.hpp"
#include "policy/result.hpp"

#include <boost/describe.hpp>
#include <boost/json.hpp>
#include <boost/mp11.hpp>

#include <array>
#include <concepts>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

// Described structs (Boost.Describe) as JSON and back: stored records, and the messages of the control
// socket. Exactly the described members are written; a missing one keeps its default. Times are Unix seconds,
// enumerators their names.

namespace disk::record {

template <class T>
concept described = boost::describe::has_describe_members<T>::value && !std::is_union_v<T>;

template <class T>
concept described_enum = boost::describe::has_describe_enumerators<T>::value;

template <class T>
concept number = std::integral<T> && !std::same_as<T, bool>;

template <described T>
using members_of =
    boost::describe::describe_members<T, boost::describe::mod_public | boost::describe::mod_inherited>;

// Empty and false values: left out of a stored record, written in an answer. Unset optionals: never written.
enum class defaults { left_out, written };

class writer {
public:
    explicit writer(boost::json::storage_ptr storage, defaults which = defaults::left_out)
        : storage_(std::move(storage)), defaults_(which)
    {
    }

    boost::json::value encode(const std::string& v) const
    {
        return boost::json::value(std::string_view(v), storage_);
    }
    boost::json::value encode(const crypto::secret& v) const
    {
        return boost::json::value(v.view(), storage_);
    }
    boost::json::value encode(bool v) const { return boost::json::value(v, storage_); }
    boost::json::value encode(const number auto& v) const { return boost::json::value(v, storage_); }
    boost::json::value encode(policy::instant v) const
    {
        return boost::json::value(v.time_since_epoch().count(), storage_);
    }
    boost::json::value encode(policy::duration v) const { return boost::json::value(v.count(), storage_); }
    boost::json::value encode(const described_enum auto& v) const
    {
        return boost::json::value(std::string_view(boost::describe::enum_to_string(v, "")), storage_);
    }
    template <class T>
    boost::json::value encode(const std::optional<T>& v) const
    {
        return encode(*v);
    }
    template <class T>
    boost::json::value encode(const std::vector<T>& v) const
    {
        boost::json::array all(storage_);
        all.reserve(v.size());
        for (const auto& one : v)
            all.push_back(encode(one));
        return all;
    }
    template <class T>
    boost::json::value encode(const std::set<T>& v) const
    {
        return encode(std::vector<T>(v.begin(), v.end()));
    }
    // EXPOSURE/USER each
    boost::json::value encode(const std::set<policy::user_name>& v) const
    {
        boost::json::array all(storage_);
        for (const auto& name : v)
            all.push_back(encode(name.text()));
        return all;
    }
    boost::json::value encode(const std::map<std::string, std::string>& v) const
    {
        boost::json::object object(storage_);
        for (const auto& [name, text] : v)
            object.emplace(name, encode(text));
        return object;
    }
    boost::json::value encode(const policy::lead& v) const
    {
        return std::visit([this](const auto& one) { return encode(one); }, v);
    }
    template <described T>
    boost::json::value encode(const T& v) const
    {
        [[maybe_unused]] static const T fresh{};
        boost::json::object object(storage_);
        boost::mp11::mp_for_each<members_of<T>>([&](auto member) {
            const auto& held = v.*member.pointer;
            const bool left_out = is_none(held) || (defaults_ == defaults::left_out && is_default(held) &&
                                                    is_default(fresh.*member.pointer));
            if (!left_out) object.emplace(member.name, encode(held));
        });
        return object;
    }

private:
    static bool is_default(const std::string& v) { return v.empty(); }
    static bool is_default(bool v) { return !v; }
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
    template <class T>
    static bool is_none(const std::optional<T>& v)
    {
        return !v;
    }
    template <class T>
    static bool is_none(const T&)
    {
        return false;
    }

    boost::json::storage_ptr storage_;
    defaults defaults_;
};

// The first member that does not fit is recorded in `wrong`; reading stops there.
class reader {
public:
    const std::string& wrong() const { return wrong_; }

    bool decode(const boost::json::value& from, std::string& to) const
    {
        const auto* text = from.if_string();
        if (text) to.assign(text->data(), text->size());
        return text;
    }
    bool decode(const boost::json::value& from, crypto::secret& to) const
    {
        const auto* text = from.if_string();
        if (text) to = crypto::secret(std::string_view(*text));
        return text;
    }
    bool decode(const boost::json::value& from, bool& to) const
    {
        if (from.is_bool()) to = from.get_bool();
        return from.is_bool();
    }
    template <number T>
    bool decode(const boost::json::value& from, T& to) const
    {
        boost::json::error_code unfit;
        if (!from.is_number()) return false;
        to = from.to_number<T>(unfit);
        return !unfit;
    }
    bool decode(const boost::json::value& from, policy::duration& to) const
    {
        policy::duration::rep seconds = 0;
        const bool fits = decode(from, seconds);
        to = policy::duration(seconds);
        return fits;
    }
    bool decode(const boost::json::value& from, policy::instant& to) const
    {
        policy::duration since{};
        const bool fits = decode(from, since);
        to = policy::instant(since);
        return fits;
    }
    bool decode(const boost::json::value& from, described_enum auto& to) const
    {
        std::string word;
        return decode(from, word) && boost::describe::enum_from_string(word.c_str(), to);
    }
    // An unknown code means only that something failed.
    bool decode(const boost::json::value& from, policy::errc& to) const
    {
        std::string word;
        if (!decode(from, word)) return false;
        if (!boost::describe::enum_from_string(word.c_str(), to)) to = policy::errc::internal;
        return true;
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
    bool decode(const boost::json::value& from, std::set<T>& to)
    {
        std::vector<T> all;
        const bool fits = decode(from, all);
        to = std::set<T>(all.begin(), all.end());
        return fits;
    }
    bool decode(const boost::json::value& from, std::set<policy::user_name>& to)
    {
        const auto* all = from.if_array();
        if (!all) return false;
        for (const auto& one : *all) {
            std::string text;
            const auto name = decode(one, text) ? policy::parse_user_name(text) : std::nullopt;
            if (!name) return false;
            to.insert(*name);
        }
        return true;
    }
    bool decode(const boost::json::value& from, std::map<std::string, std::string>& to) const
    {
        const auto* object = from.if_object();
        if (!object) return false;
        for (const auto& [name, text] : *object)
            if (!decode(text, to[std::string(name)])) return false;
        return true;
    }
    bool decode(const boost::json::value& from, policy::lead& to)
    {
        if (from.is_object()) return decode(from, to.emplace<policy::percent>());
        return decode(from, to.emplace<policy::duration>());
    }
    template <described T>
    bool decode(const boost::json::value& from, T& to)
    {
        const auto* object = from.if_object();
        if (!object) return false;
        boost::mp11::mp_for_each<members_of<T>>([&](auto member) {
            const auto* found = object->if_contains(member.name);
            if (!wrong_.empty() || !found || found->is_null()) return;
            if (!decode(*found, to.*member.pointer) && wrong_.empty())
                wrong_ = "\"" + std::string(member.name) + "\" is invalid";
        });
        return wrong_.empty();
    }

private:
    std::string wrong_;
};

template <described T>
std::string write(const T& value)
{
    boost::json::monotonic_resource arena;
    return boost::json::serialize(writer(&arena).encode(value));
}

// errc::disk, retry::never: not JSON, truncated, or a member that does not fit.
template <described T>
policy::result<T> read(std::string_view text)
{
    const auto refuse = [](std::string why) {
        return policy::failure{
            .code = policy::errc::disk, .context = std::move(why), .kind = policy::retry::never};
    };
    std::array<unsigned char, 16 << 10> first;  // holds a record of usual size without a heap allocation
    boost::json::monotonic_resource arena(first.data(), first.size());
    boost::json::error_code broken;
    boost::json::parse_options options;
    options.allow_invalid_utf8 = true;  // messages quote text of others
    const auto parsed = boost::json::parse(text, broken, &arena, options);
    if (broken || !parsed.is_object()) return refuse("it is not complete JSON");
    T value;
    reader from;
    if (!from.decode(parsed, value)) return refuse(from.wrong());
    return value;
}

}  // namespace disk::record
