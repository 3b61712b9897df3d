#include "config/yaml.hpp"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>
#include <utility>

namespace config {
namespace {

constexpr std::size_t longest_quote = 60;

}  // namespace

std::string to_string(const diagnostic& m)
{
    return m.file + ":" + std::to_string(m.line) + ":" + std::to_string(m.column) + ": " + m.text;
}

void diagnostics::error(place at, std::string text)
{
    errors_.push_back({at, std::move(text)});
}

void diagnostics::warn(place at, std::string text)
{
    warnings_.push_back({at, std::move(text)});
}

std::vector<diagnostic> diagnostics::errors(const std::string& file) const
{
    return sorted(errors_, file);
}

std::vector<diagnostic> diagnostics::warnings(const std::string& file) const
{
    return sorted(warnings_, file);
}

std::vector<diagnostic> diagnostics::sorted(std::vector<entry> all, const std::string& file)
{
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());

    std::vector<diagnostic> result;
    for (auto& one : all) {
        if (result.size() == limit) {
            result.push_back({file, one.at.line, one.at.column,
                              "and " + std::to_string(all.size() - limit) + " more after this"});
            break;
        }
        result.push_back({file, one.at.line, one.at.column, std::move(one.text)});
    }
    return result;
}

std::string quoted(const std::string& text)
{
    std::string shown = "\"";
    for (const unsigned char c : text.substr(0, longest_quote)) {
        if (c >= 0x20 && c != 0x7f) {
            shown += static_cast<char>(c);
            continue;
        }
        char code[5];
        std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned>(c));
        shown += code;
    }
    return shown + (text.size() > longest_quote ? "…\"" : "\"");
}

namespace {

place place_of(const YAML::Mark& mark)
{
    return {std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
}

// Builds the tree from the parser's events. Unlike YAML::Node, they preserve the positions of keys, duplicate
// keys, and which scalars were quoted.
class builder : public YAML::EventHandler {
public:
    explicit builder(diagnostics& found) : found_(found) {}

    node take() { return std::move(root_); }
    place begin() const { return begin_; }  // of the last document read

    void OnDocumentStart(const YAML::Mark& mark) override { begin_ = place_of(mark); }
    void OnDocumentEnd() override { ++documents_; }

    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override
    {
        no_anchor(mark, anchor);
        add({.at = place_of(mark)});
    }

    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override
    {
        if (first())
            found_.error(place_of(mark),
                         "aliases (*name) are not supported; write the value out, or use `defaults`");
        add({.at = place_of(mark), .faulty = true});
    }

    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& value) override
    {
        no_anchor(mark, anchor);
        no_tag(mark, tag);
        add({.what = node::kind::scalar, .at = place_of(mark), .text = value, .plain = tag == "?"});
    }

    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override
    {
        open(mark, tag, anchor, node::kind::list);
    }

    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override
    {
        open(mark, tag, anchor, node::kind::map);
    }

    void OnSequenceEnd() override { close(); }
    void OnMapEnd() override { close(); }

private:
    struct level {
        node under;
        std::set<std::string> seen = {};
        bool skip_value = false;  // its key is not usable
    };

    // A second document is reported once, not once per value.
    bool first() const { return documents_ == 0; }

    void no_anchor(const YAML::Mark& mark, YAML::anchor_t anchor)
    {
        if (anchor == YAML::NullAnchor || !first()) return;
        found_.error(place_of(mark),
                     "anchors (&name) are not supported; write the value out, or use `defaults`");
    }

    void no_tag(const YAML::Mark& mark, const std::string& tag)
    {
        if (tag.empty() || tag == "?" || tag == "!" || !first()) return;
        found_.error(place_of(mark), "tags (!name) are not supported; write the value alone");
    }

    void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, node::kind what)
    {
        no_anchor(mark, anchor);
        no_tag(mark, tag);
        levels_.push_back({.under = {.what = what, .at = place_of(mark)}, .seen = {}});
    }

    void close()
    {
        auto done = std::move(levels_.back().under);
        levels_.pop_back();
        add(std::move(done));
    }

    void add(node value)
    {
        if (!first()) return;
        if (levels_.empty()) {
            root_ = std::move(value);
            return;
        }
        auto& [under, seen, skip_value] = levels_.back();
        if (under.what == node::kind::list) {
            under.items.push_back(std::move(value));
        } else if (std::exchange(skip_value, false)) {
            return;
        } else if (under.keys.size() == under.items.size()) {
            skip_value = !usable_key(value, seen);
            if (!skip_value) under.keys.push_back(std::move(value));
        } else {
            // `key:` without a value: the parser marks the next token, but people look at the key
            const auto& key = under.keys.back();
            if (value.what == node::kind::null && value.at.line != key.at.line) value.at = key.at;
            under.items.push_back(std::move(value));
        }
    }

    bool usable_key(const node& key, std::set<std::string>& seen)
    {
        if (key.what != node::kind::scalar) {
            if (!key.faulty) found_.error(key.at, "a key must be a word");
            return false;
        }
        if (key.text == "<<" && key.plain) {
            found_.error(key.at, "merge keys (<<) are not supported; write the keys out, or use `defaults`");
            return false;
        }
        if (seen.insert(key.text).second) return true;
        found_.error(key.at, "key " + quoted(key.text) + " is given twice; remove one");
        return false;
    }

    diagnostics& found_;
    std::vector<level> levels_;
    node root_;
    place begin_;
    int documents_ = 0;
};

// A hint for the line at which the parser gave up.
std::string advice(const std::string& text, int line)
{
    std::istringstream lines(text);
    std::string content;
    for (int i = 0; i < line && std::getline(lines, content); ++i)
        continue;
    if (content.find("${") != std::string::npos) return "inside {…} and […] a value with ${…} needs quotes";
    if (content.find('\t') != std::string::npos) return "indent with spaces; YAML does not allow tabs";
    return "check the indentation, quotes and brackets here and above";
}

}  // namespace

const node* node::find(const std::string& key) const
{
    for (std::size_t i = 0; i < keys.size(); ++i)
        if (keys[i].text == key) return &items[i];
    return nullptr;
}

node read_tree(const std::string& text, diagnostics& found)
{
    if (!check_syntax(text, found)) return {.faulty = true};

    builder build(found);
    try {
        std::istringstream stream(text);
        YAML::Parser parser(stream);
        parser.HandleNextDocument(build);
        if (parser.HandleNextDocument(build))
            found.error(build.begin(), "a second document; only one is allowed");
    } catch (const YAML::DeepRecursion& e) {
        found = {};
        found.error(place_of(e.mark),
                    "this is nested deeper than any key of this file; check the brackets here");
        return {.faulty = true};
    } catch (const YAML::Exception& e) {
        const auto at = e.mark.is_null() ? place{} : place_of(e.mark);
        found = {};
        found.error(at, "this is not valid YAML: " + e.msg + "; " + advice(text, at.line));
        return {.faulty = true};
    }
    return build.take();
}

}  // namespace config
