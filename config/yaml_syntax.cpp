#include "config/yaml.hpp"
#include "policy/limits.hpp"
#include "policy/text.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace config {
namespace {

constexpr std::size_t deepest_nesting = 32;   // the longest key path needs 10
constexpr std::size_t most_values = 250'000;  // ten thousand users with every key set
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

// YAML 1.2 section 5.1, except NEL
bool is_printable(char32_t c)
{
    if (c < 0x20) return c == '\n' || c == '\r' || c == '\t';
    return c != 0x7f && !(c >= 0x80 && c < 0xa0) && c != 0xfeff && c != 0xfffe && c != 0xffff;
}

bool check_characters(std::string_view text, diagnostics& found)
{
    place at;
    const auto wrong = [&](const char* what) {
        found.error(at, what);
        return false;
    };
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
        return wrong("the file is UTF-16; save it as UTF-8");
    for (std::size_t i = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0; i < text.size();) {
        const auto c = policy::decode_utf8(text, i);
        if (c.length == 0) return wrong("this is not UTF-8 text; save the file as UTF-8");
        if (!is_printable(c.value)) return wrong("a control character is not allowed here; remove it");
        if (c.value == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'))
            return wrong("a carriage return without a line feed; end lines with LF or CRLF");
        at = c.value == '\n' ? place{at.line + 1, 1} : place{at.line, at.column + 1};
        i += c.length;
    }
    return true;
}

// Tracks the block structure by columns and the flow structure by brackets.
// Scalars are skipped, not interpreted: that is left to yaml-cpp.
class scanner {
public:
    scanner(std::string_view text, diagnostics& found) : text_(text), found_(found)
    {
        if (text_.starts_with(byte_order_mark)) text_.remove_prefix(byte_order_mark.size());
    }

    bool run()
    {
        while (!failed_ && at_ < text_.size())
            line();
        return !failed_;
    }

private:
    struct level {
        std::size_t column;
        bool list;
    };
    struct bracket {
        char opened;
        std::size_t at;
        place where;
        enum { entry, key, value, done } next = entry;
    };

    // --- Position

    char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n'; }
    bool at_end_of_line(std::size_t ahead = 0) const
    {
        return peek(ahead) == '\n' || (peek(ahead) == '\r' && peek(ahead + 1) == '\n');
    }
    bool ends_word(std::size_t ahead) const { return is_blank(peek(ahead)) || at_end_of_line(ahead); }
    std::size_t column() const { return at_ - line_begin_; }
    place here() const
    {
        const auto before = text_.substr(line_begin_, at_ - line_begin_);
        const auto characters =
            std::count_if(before.begin(), before.end(), [](char c) { return !policy::is_continuation(c); });
        return {line_, static_cast<int>(characters) + 1};
    }

    bool fail(place where, std::string what)
    {
        if (!failed_) found_.error(where, std::move(what));
        failed_ = true;
        at_ = text_.size();
        return false;
    }
    bool fail(std::string what) { return fail(here(), std::move(what)); }

    void skip_blanks()
    {
        while (is_blank(peek()) && at_ < text_.size())
            ++at_;
    }
    void next_line()
    {
        at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
        line_begin_ = at_;
        ++line_;
    }

    // A `#` starts a comment at the beginning of a line and after a blank.
    bool at_comment() const
    {
        return peek() == '#' && at_ < text_.size() && (at_ == line_begin_ || is_blank(text_[at_ - 1]));
    }
    bool nothing_left() const { return at_end_of_line() || at_comment(); }
    bool at_document_marker() const
    {
        const auto word = text_.substr(std::min(at_, text_.size()), 3);
        return at_ == line_begin_ && (word == "---" || word == "...") && ends_word(3);
    }
    bool at_indicator(char c) const { return peek() == c && at_ < text_.size() && ends_word(1); }

    // --- Block structure

    void line()
    {
        if (at_document_marker()) {
            const bool begins = peek() == '-';
            levels_.clear();
            expecting_ = true;
            plain_open_ = false;
            at_ += 3;
            skip_blanks();
            if (nothing_left()) return next_line();
            if (!begins) return void(fail("text after the end of the document (...); remove it"));
            fresh_ = true;
            return content(false);
        }
        if (peek() == '%' && levels_.empty() && expecting_) return next_line();

        while (peek() == ' ' && at_ < text_.size())
            ++at_;
        const bool tab = peek() == '\t';
        const auto indented = at_;
        skip_blanks();
        if (nothing_left()) {
            if (at_comment()) plain_open_ = false;
            return next_line();
        }
        if (tab) {
            at_ = indented;
            return void(fail("a tab in the indentation; YAML allows spaces only"));
        }
        if (plain_open_ && (levels_.empty() || column() > levels_.back().column)) return continuation();
        plain_open_ = false;

        bool left = false;
        for (; !levels_.empty() && levels_.back().column > column(); left = true)
            levels_.pop_back();
        if (left && (levels_.empty() || levels_.back().column != column()))
            return void(fail("the indentation matches no line above; align the line with its neighbors"));
        if (left) expecting_ = false;
        fresh_ = false;
        content(false);
    }

    // The next line of a plain scalar. If it looks like a key or a list item, it was meant as one.
    void continuation()
    {
        if (at_indicator('-')) return void(fail("a list item is not allowed here; check the indentation"));
        for (; !nothing_left(); ++at_)
            if (at_indicator(':')) return void(fail("a key is not allowed here; check the indentation"));
        if (at_comment()) plain_open_ = false;
        next_line();
    }

    // Enters the list or mapping whose entry starts at column `where`.
    bool enter(bool list, std::size_t where)
    {
        if (!list && !fresh_ && levels_.size() > 1 && levels_.back().list && levels_.back().column == where &&
            !levels_[levels_.size() - 2].list && levels_[levels_.size() - 2].column == where)
            levels_.pop_back();  // a list may start at its key's own column; here it ends
        const bool inside = !fresh_ && !levels_.empty() && levels_.back().column == where;
        if (!inside || levels_.back().list != list) {
            const bool aligned = inside && list && !levels_.back().list;  // a list at its key's column
            if (!expecting_ || (inside && !aligned))
                return fail(list ? "a list item is not allowed here; check the indentation"
                                 : "a key is not allowed here; check the indentation");
            levels_.push_back({where, list});
            if (levels_.size() > deepest_nesting) return too_deep();
        }
        return true;
    }
    bool too_deep()
    {
        return fail("this is nested deeper than any key of this file; check the brackets here");
    }

    // Reads from here to the end of the line. `in_value`: after a `key: ` on this line.
    void content(bool in_value)
    {
        while (!failed_) {
            if (nothing_left()) {
                expecting_ = true;
                return next_line();
            }
            if (++values_ > most_values) return void(fail("the file has too many values; split it"));
            const auto where = column();
            const auto begin = here();
            if (at_indicator('-')) {
                if (in_value)
                    return void(
                        fail("a list cannot start behind a key; start it on the next line, or write [ … ]"));
                if (!enter(true, where)) return;
                ++at_;
                skip_blanks();
                expecting_ = fresh_ = true;
                continue;
            }
            if (at_indicator('?')) return void(fail("a key must be a word; write KEY: VALUE"));
            if (!properties()) return;
            if (nothing_left()) {
                expecting_ = true;
                return next_line();
            }
            if (peek() == '|' || peek() == '>') return block_scalar(in_value, where, begin);

            const auto first_line = line_;
            const char first = peek();
            const bool plain = first != '"' && first != '\'' && first != '[' && first != '{';
            if (!(plain ? plain_scalar(begin) : first == '[' || first == '{' ? flow() : quoted_scalar(true)))
                return;
            if (!plain) skip_blanks();
            if (at_indicator(':')) {
                if (first_line != line_ || first == '[' || first == '{')
                    return void(fail(begin, "a key must be a word on one line"));
                if (in_value)
                    return void(fail(
                        "a second `: ` in this line; put the value in quotes, or check the indentation"));
                if (!enter(false, where)) return;
                ++at_;
                skip_blanks();
                in_value = true;
                fresh_ = false;
                continue;
            }
            if (!nothing_left())
                return void(fail(first == '[' || first == '{'
                                     ? "text after the closing bracket; remove it"
                                     : "text after the closing quote; remove it, or put the "
                                       "whole value in one pair of quotes"));
            if (!scalar_allowed(in_value, where, begin)) return;
            plain_open_ = plain && !at_comment();
            expecting_ = false;
            return next_line();
        }
    }

    bool scalar_allowed(bool in_value, std::size_t where, place begin)
    {
        if (in_value || fresh_) return true;
        if (expecting_ && (levels_.empty() || levels_.back().column < where)) return true;
        return fail(begin,
                    "this line is neither `KEY: VALUE` nor `- ITEM`; check the quotes and the indentation");
    }

    // Skips anchors and tags; the tree builder reports them.
    bool properties()
    {
        while (peek() == '&' || peek() == '!') {
            if (peek() == '!' && ends_word(1))
                return fail("tags (!name) are not supported; write the value alone");
            while (!ends_word(0))
                ++at_;
            skip_blanks();
        }
        return true;
    }

    bool starts_plain(bool in_flow) const
    {
        const char c = peek();
        if (c == ':' && in_flow) return false;
        if (c == '-' || c == '?' || c == ':')
            return !ends_word(1) &&
                   !(in_flow && std::string_view(",[]{}").find(peek(1)) != std::string_view::npos);
        return std::string_view(",[]{}#|>@`%\"'").find(c) == std::string_view::npos;
    }

    bool refuse_start()
    {
        const char c = peek();
        if (c == ']' || c == '}')
            return fail(std::string("a closing bracket ") + c + " without an opening one; remove it");
        if (c == ':') return fail("a `:` without a key before it; remove it, or put the value in quotes");
        if (c == '#')
            return fail("a comment needs a space before its #; add one, or put the value in quotes");
        return fail(std::string("a value cannot start with ") + c + "; put it in quotes");
    }

    // Up to the end of the line, a comment or `: `.
    bool plain_scalar(place)
    {
        if (!starts_plain(false)) return refuse_start();
        while (!nothing_left() && !at_indicator(':'))
            ++at_;
        return true;
    }

    void block_scalar(bool in_value, std::size_t where, place begin)
    {
        if (!scalar_allowed(in_value, where, begin)) return;
        ++at_;
        while (peek() == '+' || peek() == '-' || (peek() >= '1' && peek() <= '9'))
            ++at_;
        const auto end = at_;
        skip_blanks();
        if (!nothing_left() || (at_comment() && at_ == end))
            return void(
                fail("text after | or >; start the text on the next line, or put the value in quotes"));
        next_line();
        const bool top = levels_.empty();
        const std::size_t parent = top ? 0 : levels_.back().column;
        while (at_ < text_.size()) {
            if (at_document_marker()) break;
            const auto spaces = std::min(text_.find_first_not_of(' ', at_), text_.size()) - at_;
            const bool empty = at_end_of_line(spaces);
            if (!empty && !top && spaces <= parent) break;
            next_line();
        }
        expecting_ = false;
    }

    // --- Quotes and brackets

    bool quoted_scalar(bool in_block)
    {
        const auto begin = here();
        const char quote = peek();
        const auto unclosed = [&] {
            return fail(begin,
                        std::string("the quote ") + quote + " that opens here is never closed; close it");
        };
        ++at_;
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == quote && quote == '\'' && peek(1) == '\'') {
                at_ += 2;
            } else if (c == quote) {
                ++at_;
                return true;
            } else if (c == '\\' && quote == '"' && !at_end_of_line(1)) {
                at_ += 2;
            } else if (c == '\n') {
                next_line();
                if (at_document_marker()) return unclosed();
                const auto spaces = std::min(text_.find_first_not_of(' ', at_), text_.size()) - at_;
                const bool empty = at_end_of_line(spaces);
                if (!empty && in_block && !levels_.empty() && spaces <= levels_.back().column)
                    return unclosed();
            } else {
                ++at_;
            }
        }
        return unclosed();
    }

    bool flow()
    {
        std::vector<bracket> open;
        bool plain_continues = false;  // the last scalar was plain and ended at its line's end
        do {
            if (at_ >= text_.size() || at_document_marker()) return never_closed(open);
            if (at_end_of_line() || at_comment()) {
                if (at_comment()) plain_continues = false;
                next_line();
                continue;
            }
            if (is_blank(peek())) {
                ++at_;
                continue;
            }
            if (!flow_token(open, plain_continues)) return false;
        } while (!open.empty());
        return true;
    }

    bool never_closed(const std::vector<bracket>& open)
    {
        const auto& last = open.back();
        return fail(last.where, std::string("the bracket ") + last.opened +
                                    " that opens here is never closed; add " +
                                    (last.opened == '[' ? "]" : "}"));
    }

    bool flow_token(std::vector<bracket>& open, bool& plain_continues)
    {
        const char c = peek();
        if (c == '[' || c == '{') {
            if (!open.empty() && !begins_value(open.back())) return misplaced(open);
            if (!open.empty()) finish_value(open.back());
            open.push_back({c, at_, here()});
            if (open.size() + levels_.size() > deepest_nesting) return too_deep();
            if (++values_ > most_values) return fail("the file has too many values; split it");
            ++at_;
            plain_continues = false;
            return true;
        }
        auto& in = open.back();
        if (c == ']' || c == '}') {
            if ((c == ']') != (in.opened == '['))
                return fail(std::string("the bracket ") + in.opened + " of line " +
                            std::to_string(in.where.line) + " is closed by " + c);
            open.pop_back();
            ++at_;
            plain_continues = false;
            return true;
        }
        if (c == ',') {
            if (in.next == bracket::entry) return fail("a comma without a value before it; remove it");
            in.next = bracket::entry;
            ++at_;
            plain_continues = false;
            return true;
        }
        const bool adjacent = at_ > 0 && (text_[at_ - 1] == '"' || text_[at_ - 1] == '\'');
        if (c == ':' &&
            (ends_word(1) || adjacent || std::string_view(",[]{}").find(peek(1)) != std::string_view::npos)) {
            if (in.next != bracket::key)
                return misplaced(open, "a `:` is not allowed here; put the value in quotes");
            in.next = bracket::value;
            ++at_;
            plain_continues = false;
            return true;
        }
        if (!begins_value(in)) {
            if (!plain_continues || !starts_plain(true)) return misplaced(open);
            in.next = bracket::done;
        } else {
            if (!properties()) return false;
            if (nothing_left() || std::string_view(",[]{}").find(peek()) != std::string_view::npos)
                return true;
            if (++values_ > most_values) return fail("the file has too many values; split it");
            finish_value(in);
        }
        if (peek() == '"' || peek() == '\'') {
            plain_continues = false;
            return quoted_scalar(false);
        }
        if (at_indicator('?')) return fail("a key must be a word; write KEY: VALUE");
        if (!starts_plain(true)) return refuse_start();
        while (!nothing_left() && std::string_view(",[]{}").find(peek()) == std::string_view::npos &&
               !(peek() == ':' &&
                 (ends_word(1) || std::string_view(",[]{}").find(peek(1)) != std::string_view::npos)))
            ++at_;
        plain_continues = at_end_of_line();
        return true;
    }

    static bool begins_value(const bracket& in)
    {
        return in.next == bracket::entry || in.next == bracket::value;
    }
    static void finish_value(bracket& in)
    {
        in.next = in.next == bracket::entry ? bracket::key : bracket::done;
    }

    // On a line that is not indented, the real error is the unclosed bracket before it.
    bool misplaced(const std::vector<bracket>& open, std::string what = {})
    {
        const auto spaces = std::min(text_.find_first_not_of(' ', line_begin_), text_.size()) - line_begin_;
        if (line_ != open.back().where.line && !levels_.empty() && spaces <= levels_.back().column)
            return never_closed(open);
        const char c = peek();
        if (!what.empty()) return fail(std::move(what));
        if (c == '{' && at_ > 0 && text_[at_ - 1] == '$')
            return fail("inside {…} and […] a value with ${…} needs quotes");
        return fail(c == '[' || c == '{'
                        ? std::string("a bracket ") + c + " inside a value; put the value in quotes"
                        : "a comma is missing before this value");
    }

    std::string_view text_;
    diagnostics& found_;
    std::size_t at_ = 0;
    std::size_t line_begin_ = 0;
    int line_ = 1;
    std::size_t values_ = 0;
    std::vector<level> levels_;
    bool expecting_ = true;    // a document, list item or key still has no value
    bool fresh_ = false;       // after a `- ` on this line: a new list or mapping starts here
    bool plain_open_ = false;  // the next line may continue a plain scalar
    bool failed_ = false;
};

}  // namespace

bool check_syntax(std::string_view text, diagnostics& found)
{
    if (text.size() > policy::limits::configuration_bytes) {
        found.error({}, "the file is larger than " +
                            std::to_string(policy::limits::configuration_bytes >> 20) + " MiB; split it");
        return false;
    }
    return check_characters(text, found) && scanner(text, found).run();
}

}  // namespace config
