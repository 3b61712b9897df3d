#include "agent/service/forecast_view.hpp"

#include "agent/disk/state_database.hpp"
#include "agent/io/async.hpp"
#include "agent/io/log.hpp"
#include "agent/platform/oauth.hpp"
#include "policy/dates.hpp"
#include "policy/naming.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace service {
namespace {

using policy::forecast_action;
using policy::forecast_entry;
using policy::instant;

// ---- the timeline as SVG; its units are pixels at full size

constexpr int width = 960;
constexpr int label_width = 230;
constexpr int right_margin = 20;
constexpr int first_row = 96;
constexpr int row_height = 30;
constexpr int bar_height = 12;
constexpr int legend_height = 64;
constexpr std::size_t label_characters = 30;
constexpr int most_months = 14;  // up to this many, each month has its name
constexpr auto weeks_below = std::chrono::days(70);
constexpr double short_gap = 1.5;  // between two certificates

constexpr const char* css = R"css(
.timeline{font-family:system-ui,sans-serif;font-size:13px}
.timeline text{fill:#1f2328}
.timeline .title{font-size:18px;font-weight:600}
.timeline .soft{fill:#59636e}
.timeline .paper{fill:#ffffff}
.timeline .stripe{fill:#f6f8fa}
.timeline .line{stroke:#d1d9e0;stroke-width:1}
.timeline .valid{fill:#2da44e}
.timeline .ended{fill:#cf222e}
.timeline .rotate{fill:#0969da;stroke:#ffffff;stroke-width:1.5}
.timeline .retire{stroke:#59636e;stroke-width:1.5}
.timeline .login{fill:#bf8700}
.timeline .expire{fill:#cf222e;stroke:#ffffff;stroke-width:1.5}
@media (prefers-color-scheme:dark){
.timeline text{fill:#e6edf3}
.timeline .soft{fill:#9198a1}
.timeline .paper{fill:#0d1117}
.timeline .stripe{fill:#151b23}
.timeline .line{stroke:#3d444d}
.timeline .valid{fill:#3fb950}
.timeline .ended{fill:#f85149}
.timeline .rotate{fill:#4493f8;stroke:#0d1117}
.timeline .retire{stroke:#9198a1}
.timeline .login{fill:#d29922}
.timeline .expire{fill:#f85149;stroke:#0d1117}
}
)css";

std::string number(double value)
{
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f", value);
    return text.data();
}

std::string day_of(instant at)
{
    return policy::format_utc(at).substr(0, 10);
}

std::string with_title(const std::string& shape, const std::string& title)
{
    return "<g><title>" + escape(title) + "</title>" + shape + "</g>\n";
}

class picture {
public:
    picture(const policy::forecast_result& all, std::string owner, bool with_css)
        : all_(all), owner_(std::move(owner)), with_css_(with_css)
    {
        for (const auto& user : all.users)
            rows_.push_back({user.name, user.served});
        const bool logins = std::ranges::any_of(all.entries, is_login);
        if (logins || rows_.empty()) rows_.push_back({{}, false});
    }

    std::string text()
    {
        begin();
        calendar();
        for (std::size_t i = 0; i < rows_.size(); ++i)
            row(i);
        legend();
        return out_ + "</svg>\n";
    }

private:
    struct line {
        policy::user_name name;  // empty: the login
        bool served = false;
    };

    static bool is_login(const forecast_entry& e) { return e.action == forecast_action::login; }

    int bottom() const { return first_row + static_cast<int>(rows_.size()) * row_height; }
    double x(instant at) const
    {
        const auto whole = std::max<double>(1, static_cast<double>((all_.until - all_.from).count()));
        const auto share = static_cast<double>((at - all_.from).count()) / whole;
        return label_width + std::clamp(share, 0.0, 1.0) * (width - label_width - right_margin);
    }

    void text_at(double left, int top, const std::string& text, const char* style,
                 const char* anchor = "start")
    {
        out_ += "<text x=\"" + number(left) + "\" y=\"" + std::to_string(top) + "\" class=\"" + style +
                "\" text-anchor=\"" + anchor + "\">" + escape(text) + "</text>\n";
    }

    void begin()
    {
        const int height = bottom() + legend_height;
        const std::string size = std::to_string(width) + " " + std::to_string(height);
        const std::string title =
            "Certificates of " + owner_ + ", " + day_of(all_.from) + " to " + day_of(all_.until);
        out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" viewBox=\"0 0 " + size +
               "\" width=\"" + std::to_string(width) + "\" height=\"" + std::to_string(height) +
               "\" role=\"img\" aria-label=\"" + escape(title + ": " + summary(all_)) + "\">\n<title>" +
               escape(title) + "</title>\n";
        if (with_css_) out_ += "<style>" + timeline_css() + "</style>\n";
        out_ += "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
        text_at(16, 30, title, "title");
        text_at(16, 52, summary(all_), "soft");
    }

    void tick(instant at, const std::string& name)
    {
        const auto left = number(x(at));
        out_ += "<line class=\"line\" x1=\"" + left + "\" x2=\"" + left + "\" y1=\"" +
                std::to_string(first_row - 10) + "\" y2=\"" + std::to_string(bottom()) + "\"/>\n";
        if (!name.empty() && x(at) < width - right_margin - 30)
            text_at(x(at) + 3, first_row - 14, name, "soft");
    }

    void calendar()
    {
        for (std::size_t i = 0; i < rows_.size(); i += 2)
            out_ += "<rect class=\"stripe\" x=\"0\" width=\"" + std::to_string(width) + "\" y=\"" +
                    std::to_string(first_row + static_cast<int>(i) * row_height) + "\" height=\"" +
                    std::to_string(row_height) + "\"/>\n";
        using namespace std::chrono;
        static constexpr std::array names = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                             "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
        if (all_.until - all_.from < weeks_below) {
            for (auto at = floor<days>(all_.from) + days(1); at <= all_.until; at += weeks(1))
                tick(at, day_of(at).substr(5));
            return;
        }
        const year_month_day start(floor<days>(all_.from));
        const auto count = ceil<months>(all_.until - all_.from).count();
        const auto every = (count - 1) / most_months + 1;
        int index = 0;
        for (auto month = start.year() / start.month() + months(1); sys_days(month / 1) <= all_.until;
             month += months(1), ++index) {
            const auto which = static_cast<unsigned>(month.month());
            std::string name = index % every == 0 ? names.at(which - 1) : "";
            const bool room = every == 1 && which < 12;  // January's label has the year and needs the room
            if (!name.empty() && (which == 1 || (index == 0 && room)))
                name += " " + std::to_string(static_cast<int>(month.year()));
            tick(sys_days(month / 1), name);
        }
    }

    void bar(double from, double to, int middle, const char* style, const std::string& title)
    {
        if (to - from < 0.5) return;
        out_ += with_title("<rect class=\"" + std::string(style) + "\" x=\"" + number(from) + "\" width=\"" +
                               number(to - from) + "\" y=\"" + std::to_string(middle - bar_height / 2) +
                               "\" height=\"" + std::to_string(bar_height) + "\" rx=\"2\"/>",
                           title);
    }

    void row(std::size_t index)
    {
        const auto& [name, served] = rows_[index];
        const int middle = first_row + static_cast<int>(index) * row_height + row_height / 2;
        auto label = name.user.empty() ? "log in (a person)" : io::printable(name.text());
        if (label.size() > label_characters) label = label.substr(0, label_characters - 3) + "...";
        text_at(16, middle + 4, label, "label");
        std::vector<const forecast_entry*> own;
        for (const auto& e : all_.entries)
            if (e.name == name && e.action != forecast_action::refresh) own.push_back(&e);
        bars(own, name, served, middle);
        for (const auto* e : own)
            mark(*e, middle);
    }

    // One bar per certificate; red while there is no valid one.
    void bars(const std::vector<const forecast_entry*>& own, const policy::user_name& name, bool served,
              int middle)
    {
        if (name.user.empty()) return;
        auto from = x(all_.from);
        const char* style = served ? "valid" : "ended";
        const auto flush = [&](instant at, const char* next) {
            const bool valid = std::string_view(style) == "valid";
            if (*style)
                bar(from, x(at) - (valid ? short_gap / 2 : 0), middle, style,
                    name.text() + (valid ? ": a valid certificate is in use" : ": no valid certificate"));
            from = x(at) + short_gap / 2;
            style = next;
        };
        for (const auto* e : own) {
            if (e->action == forecast_action::create || e->action == forecast_action::rotate)
                flush(e->at, "valid");
            else if (e->action == forecast_action::expire)
                flush(e->at, "ended");
            else if (e->action == forecast_action::remove)
                flush(e->at, "");
        }
        flush(all_.until, "");
    }

    void mark(const forecast_entry& e, int middle)
    {
        const auto left = number(x(e.at));
        const auto at = std::to_string(middle);
        const auto who = e.name.user.empty() ? std::string() : e.name.text() + ": ";
        out_ += with_title(shape(e.action, left, at), policy::format_utc(e.at) + " " + who +
                                                          policy::word_of(e.action) + ", " + e.sentence);
    }

    static std::string shape(forecast_action what, const std::string& left, const std::string& middle)
    {
        const std::string moved = "transform=\"translate(" + left + " " + middle + ")\"";
        switch (what) {
            case forecast_action::retire:
            case forecast_action::remove:
                return "<line class=\"retire\" " + moved + " x1=\"0\" x2=\"0\" y1=\"-11\" y2=\"11\"/>";
            case forecast_action::login:
                return "<path class=\"login\" " + moved + " d=\"M0-7 8 7H-8Z\"/>";
            case forecast_action::expire:
                return "<path class=\"expire\" " + moved + " d=\"M0-8 8 0 0 8-8 0Z\"/>";
            default:
                return "<circle class=\"rotate\" " + moved + " r=\"5.5\"/>";
        }
    }

    void legend()
    {
        const int middle = bottom() + 34;
        const auto entry = [&](double left, const std::string& symbol, const char* text) {
            out_ += symbol + "\n";
            text_at(left + 14, middle + 4, text, "soft");
        };
        const auto marked = [&](double left, forecast_action what, const char* text) {
            entry(left, shape(what, number(left), std::to_string(middle)), text);
        };
        const auto box = [&](double left, const char* style) {
            return "<rect class=\"" + std::string(style) + "\" x=\"" + number(left - 10) + "\" y=\"" +
                   std::to_string(middle - bar_height / 2) + "\" width=\"20\" height=\"" +
                   std::to_string(bar_height) + "\" rx=\"2\"/>";
        };
        entry(26, box(26, "valid"), "valid certificate");
        marked(168, forecast_action::rotate, "new certificate (automatic)");
        marked(386, forecast_action::retire, "old user deleted");
        marked(524, forecast_action::login, "a person logs in");
        marked(668, forecast_action::expire, "expires");
        entry(762, box(762, "ended"), "no valid certificate");
    }

    const policy::forecast_result& all_;
    std::string owner_;
    bool with_css_;
    std::vector<line> rows_;
    std::string out_;
};

std::size_t number_of(const policy::forecast_result& all, forecast_action what)
{
    return static_cast<std::size_t>(std::ranges::count(all.entries, what, &forecast_entry::action));
}

}  // namespace

io::task<policy::forecast_result> forecast_of(application& app, policy::instant until)
{
    const auto now = app.clock().now();
    auto desired = app.state().desired_snapshot();
    auto stored = app.state().stored();
    auto result =
        co_await io::offload(app.outputs(), [&] { return policy::forecast(*desired, stored, now, until); });
    if (!app.oauth()) co_return result;
    auto login = co_await app.oauth()->forecast(until);
    if (!login) co_return login.error();
    policy::add(result, std::move(*login));
    co_return result;
}

std::string escape(const std::string& text)
{
    std::string out;
    for (const char c : io::printable(text)) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

std::string timeline_svg(const policy::forecast_result& all, const std::string& owner, bool with_css)
{
    return picture(all, owner, with_css).text();
}

std::string timeline_css()
{
    return css;
}

std::string summary(const policy::forecast_result& all)
{
    const auto rotations = number_of(all, forecast_action::rotate) + number_of(all, forecast_action::create);
    const auto deletions = number_of(all, forecast_action::retire) + number_of(all, forecast_action::remove);
    const auto logins = number_of(all, forecast_action::login);
    const auto expired = number_of(all, forecast_action::expire);
    std::string text = policy::count(rotations, "new certificate") + " and " +
                       policy::count(deletions, "deletion") + ", automatic; ";
    text += logins == 0 ? "no login by a person" : policy::count(logins, "login") + " by a person";
    if (expired > 0)
        text += "; " + policy::count(expired, "certificate") + (expired == 1 ? " expires" : " expire") +
                " unless someone acts";
    return text;
}

}  // namespace service
