#include "policy/dates.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>

namespace policy {

std::string format_utc(instant at)
{
    const auto day = std::chrono::floor<std::chrono::days>(at);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss time(at - day);
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                  static_cast<int>(time.seconds().count()));
    return text.data();
}

std::string format_duration(duration length)
{
    const auto seconds = length.count();
    if (seconds <= 0) return "0 s";
    if (seconds < 120) return std::to_string(seconds) + " s";
    if (seconds < 2 * 3600) return std::to_string(seconds / 60) + " min";
    if (seconds < 2 * 86400) return std::to_string(seconds / 3600) + " h";
    return std::to_string(seconds / 86400) + " d";
}

namespace {

using namespace std::chrono;

// From here on a number means milliseconds: as seconds it would be later than the year 5138.
constexpr std::int64_t first_milliseconds = 100'000'000'000;
constexpr std::size_t unix_digits = 15;  // milliseconds of the year 9999

bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

bool same_word(std::string_view a, std::string_view b)
{
    return std::ranges::equal(a, b, {}, lower, lower);
}

// Consumes a text from the front. A step that does not match consumes nothing.
class scanner {
public:
    explicit scanner(std::string_view text) : rest_(text) {}

    bool done() const { return rest_.empty(); }
    bool at_digit() const { return !done() && is_digit(rest_.front()); }

    bool take(char c)
    {
        if (done() || rest_.front() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }

    bool take_any(std::string_view choices)
    {
        return std::ranges::any_of(choices, [this](char c) { return take(c); });
    }

    bool blanks()
    {
        const auto before = rest_.size();
        while (take(' ')) {
        }
        return rest_.size() != before;
    }

    std::string_view digits() { return run(is_digit); }
    std::string_view word() { return run(is_letter); }

    // A number of at least `least` digits; reads at most `most`, whatever follows.
    std::optional<int> number(std::size_t least, std::size_t most)
    {
        std::size_t length = 0;
        int value = 0;
        while (length < std::min(most, rest_.size()) && is_digit(rest_[length]))
            value = value * 10 + (rest_[length++] - '0');
        if (length < least) return std::nullopt;
        rest_.remove_prefix(length);
        return value;
    }

private:
    template <class Accepts>
    std::string_view run(Accepts accepts)
    {
        const auto end = std::ranges::find_if_not(rest_, accepts);
        const auto taken = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
        rest_.remove_prefix(taken.size());
        return taken;
    }

    std::string_view rest_;
};

std::optional<sys_days> day_of(int y, int m, int d)
{
    const year_month_day date{year(y), month(static_cast<unsigned>(m)), day(static_cast<unsigned>(d))};
    if (!date.ok()) return std::nullopt;
    return sys_days(date);
}

// hh:mm[:ss[.fraction]], without colons in the basic format
std::optional<seconds> clock_time(scanner& in, bool basic = false)
{
    const auto h = in.number(2, 2);
    if (!h || *h > 23 || in.take(':') == basic) return std::nullopt;
    const auto m = in.number(2, 2);
    if (!m || *m > 59) return std::nullopt;
    if (basic ? !in.at_digit() : !in.take(':')) return hours(*h) + minutes(*m);
    const auto s = in.number(2, 2);
    if (!s || *s > 60) return std::nullopt;
    if (in.take_any(".,") && in.digits().size() > 9) return std::nullopt;
    return hours(*h) + minutes(*m) + seconds(*s);
}

// Z, GMT, UTC, UT, +hh:mm, +hhmm, +hh, or nothing: the offset to subtract to get UTC.
std::optional<seconds> offset(scanner& in)
{
    const bool east = in.take('+');
    if (!east && !in.take('-')) {
        const auto zone = in.word();
        constexpr std::array utc = {"", "z", "gmt", "utc", "ut"};
        if (std::ranges::none_of(utc, [&](const char* name) { return same_word(zone, name); }))
            return std::nullopt;
        return seconds(0);
    }
    const auto h = in.number(2, 2);
    if (!h || *h > 23) return std::nullopt;
    const bool colon = in.take(':');
    const auto m = in.number(2, 2);
    if (m ? *m > 59 : colon) return std::nullopt;
    const seconds ahead = hours(*h) + minutes(m.value_or(0));
    return east ? ahead : -ahead;
}

std::optional<int> month_named(std::string_view name)
{
    constexpr std::array names = {"jan", "feb", "mar", "apr", "may", "jun",
                                  "jul", "aug", "sep", "oct", "nov", "dec"};
    const auto found = std::ranges::find_if(names, [&](const char* known) { return same_word(name, known); });
    if (found == names.end()) return std::nullopt;
    return static_cast<int>(found - names.begin()) + 1;
}

bool is_weekday(std::string_view name)
{
    constexpr std::array names = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
    return std::ranges::any_of(names, [&](const char* known) { return same_word(name, known); });
}

// Only four-digit years can be formatted again.
bool is_writable(instant when)
{
    return when >= sys_days(year(0) / 1 / 1) && when < sys_days(year(10000) / 1 / 1);
}

std::optional<instant> at(std::optional<sys_days> day, std::optional<seconds> time,
                          std::optional<seconds> ahead)
{
    if (!day || !time || !ahead) return std::nullopt;
    const instant when = *day + *time - *ahead;
    return is_writable(when) ? std::optional(when) : std::nullopt;
}

// Seconds or milliseconds, with or without a fraction.
std::optional<instant> unix_time(scanner in)
{
    const auto text = in.digits();
    if (in.take('.') && in.digits().size() > 9) return std::nullopt;
    if (!in.done() || text.size() > unix_digits) return std::nullopt;
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    const instant when(seconds(value < first_milliseconds ? value : value / 1000));
    return is_writable(when) ? std::optional(when) : std::nullopt;
}

// 2026-11-20, 2026-11-20T18:39:10.123Z, 2026-11-20 18:39:10 +01:00; in the basic format 20261120T183910Z, but
// no date alone, which is a number of seconds
std::optional<instant> iso_8601(scanner in)
{
    const auto y = in.number(4, 4);
    if (!y) return std::nullopt;
    const bool basic = !in.take('-');
    const auto m = in.number(2, 2);
    if (!m || in.take('-') == basic) return std::nullopt;
    const auto d = in.number(2, 2);
    if (!d) return std::nullopt;
    const auto day = day_of(*y, *m, *d);
    if (in.done() && !basic) return at(day, seconds(0), seconds(0));
    if (!in.take_any("Tt ")) return std::nullopt;
    const auto time = clock_time(in, basic);
    in.blanks();
    const auto ahead = offset(in);
    return in.done() ? at(day, time, ahead) : std::nullopt;
}

// 20 Nov 2026 18:39:10 GMT: RFC 1123 after the weekday
std::optional<instant> day_first(scanner in)
{
    const auto d = in.number(1, 2);
    if (!d || !in.blanks()) return std::nullopt;
    const auto m = month_named(in.word());
    if (!m || !in.blanks()) return std::nullopt;
    const auto y = in.number(4, 4);
    if (!y || !in.blanks()) return std::nullopt;
    const auto time = clock_time(in);
    in.blanks();
    const auto ahead = offset(in);
    return in.done() ? at(day_of(*y, *m, *d), time, ahead) : std::nullopt;
}

// Nov 20 18:39:10 2026: asctime after the weekday; date(1) puts the zone before the year
std::optional<instant> month_first(scanner in)
{
    const auto m = month_named(in.word());
    if (!m || !in.blanks()) return std::nullopt;
    const auto d = in.number(1, 2);
    if (!d || !in.blanks()) return std::nullopt;
    const auto time = clock_time(in);
    in.blanks();
    const auto ahead = offset(in);
    in.blanks();
    const auto y = in.number(4, 4);
    return y && in.done() ? at(day_of(*y, *m, *d), time, ahead) : std::nullopt;
}

std::string_view trimmed(std::string_view text)
{
    constexpr std::string_view blanks = " \t\r\n";
    const auto first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace

std::optional<instant> parse_date(std::string_view text)
{
    text = trimmed(text);
    if (text.empty()) return std::nullopt;
    scanner in(text);
    if (in.at_digit()) {
        for (const auto read : {unix_time, iso_8601, day_first})
            if (const auto when = read(in)) return when;
        return std::nullopt;
    }
    scanner after_weekday = in;
    if (is_weekday(after_weekday.word())) {
        after_weekday.take(',');
        after_weekday.blanks();
        in = after_weekday;
    }
    return in.at_digit() ? day_first(in) : month_first(in);
}

}  // namespace policy
