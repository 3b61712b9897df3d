#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/disk/files.hpp"
#include "agent/io/log.hpp"
#include "agent/platform/token_endpoint.hpp"
#include "agent/service/configuration.hpp"
#include "config/parse.hpp"
#include "crypto/secret.hpp"
#include "policy/limits.hpp"
#include "policy/result.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <fcntl.h>
#include <filesystem>
#include <grp.h>
#include <iostream>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// init: writes the first configuration, from questions or flags; what can be tested is tested
// before it is written.

namespace cli {
namespace {

constexpr const char* service_user = "exposure-agent";
constexpr mode_t configuration_mode = 0644;
constexpr mode_t shared_secret_mode = 0640;  // root writes, the service reads
constexpr mode_t own_secret_mode = 0600;

// A YAML scalar: plain where no YAML reader can mistake it for anything else, else quoted.
std::string scalar(const std::string& text)
{
    constexpr std::array<std::string_view, 10> words{"yes", "no",  "true", "false", "null",
                                                     "on",  "off", "y",    "n",     "~"};
    const auto is_plain = [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '/' || c == ':' || c == '@' || c == '-';
    };
    std::string lower = text;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool plain = !text.empty() &&
                       (std::isalpha(static_cast<unsigned char>(text[0])) != 0 || text[0] == '/') &&
                       std::ranges::all_of(text, is_plain) && !text.ends_with(':') &&
                       std::ranges::find(words, lower) == words.end();
    return plain ? text : boost::json::serialize(boost::json::string(text));
}

std::string render(const init_options& o)
{
    const auto line = [](const std::string& indent, const char* key, const std::string& value) {
        return value.empty() ? std::string() : indent + key + ": " + scalar(value) + "\n";
    };
    return "# Configuration of exposure-agent; every key: man 5 exposure-agent.yaml\n"
           "version: 1\n\n"
           "identity:\n" +
           line("  ", "auth_url", o.auth_url) + line("  ", "client_id", o.client_id) +
           "  client_secret: {file: " + scalar(o.client_secret_file) + "}\n" +
           line("  ", "redirect_url", o.redirect_url) +
           (o.ca_file.empty() ? "" : "\nnetwork:\n" + line("  ", "ca_file", o.ca_file)) + "\ndefaults:\n" +
           line("  ", "contact", o.contact) + "\nexposures:\n  - name: " + scalar(o.exposure) + "\n" +
           line("    ", "variant", o.variant) + line("    ", "base_url", o.base_url) +
           line("    ", "tenant", o.tenant) + line("    ", "broker", o.broker) +
           "    users:\n      - name: " + scalar(o.user) + "\n" +
           line("        ", "consumer_group", o.consumer_group);
}

// Fills unanswered questions with placeholders, so that one answer can be validated alone.
init_options filled(init_options o)
{
    const auto fill = [](std::string& value, const char* text) {
        if (value.empty()) value = text;
    };
    fill(o.auth_url, "https://login.example.com/SAAS/t/tenant");
    fill(o.client_id, "client");
    fill(o.client_secret_file, "/etc/exposure-agent/client-secret");
    fill(o.tenant, "tenant");
    fill(o.variant, "log");
    fill(o.base_url, "https://les.example.com");
    fill(o.exposure, "logs");
    fill(o.user, "user");
    fill(o.consumer_group, "group");
    fill(o.contact, "team@example.com");
    return o;
}

config::outcome parsed(const init_options& o)
{
    return config::parse(render(filled(o)), "init", service::this_host());
}

// Why an answer is invalid; empty if it is valid.
std::string mistake_in(std::string init_options::*which, const std::string& answer)
{
    init_options alone;
    alone.*which = answer;
    const auto outcome = parsed(alone);
    return outcome.errors.empty() ? "" : outcome.errors.front().text;
}

// Tests

policy::result<void> try_address(const init_options& o, std::string url)
{
    const auto desired = parsed(o).state;
    if (!desired) return {};  // already reported
    service::application app(std::make_shared<const policy::desired_state>(*desired));
    policy::result<void> tried;
    app.run(
        [](service::application& a, std::string where, policy::result<void>& into) -> io::awaitable<void> {
            io::http_request request{.method = "GET", .url = where, .idempotent = true};
            const auto answer = co_await a.http().exchange(std::move(request));
            if (!answer) into = answer.error();
        }(app, std::move(url), tried));
    return tried;
}

policy::result<crypto::secret> secret_in(const std::string& file)
{
    auto text = disk::read_file(file, policy::limits::token_bytes);
    if (!text) return text.error();
    if (!*text || (*text)->empty())
        return policy::failure{.code = policy::errc::usage,
                               .context = file + (*text ? " is empty" : ": not found"),
                               .kind = policy::retry::never};
    std::erase(**text, '\n');
    return crypto::secret(std::move(**text));
}

// Sends an invalid refresh token: a server that accepts the client refuses the token, otherwise the client.
policy::result<void> try_client(const init_options& o, const crypto::secret& typed)
{
    const auto desired = parsed(o).state;
    if (!desired) return {};
    auto secret =
        typed.empty() ? secret_in(o.client_secret_file) : policy::result<crypto::secret>(typed.clone());
    if (!secret) return secret.error();
    service::application app(std::make_shared<const policy::desired_state>(*desired));
    policy::result<void> tried;
    app.run([](service::application& a, crypto::secret s, policy::result<void>& into) -> io::awaitable<void> {
        platform::token_endpoint endpoint(a.http(), a.clock());
        crypto::secret nobodys("exposure-agent-init");
        auto identity = a.desired().identity;
        platform::client_credentials client{.id = identity.client_id, .secret = std::move(s)};
        auto outcome = co_await endpoint.refresh(std::move(identity), std::move(client), std::move(nobodys));
        if (outcome.end != platform::exchange_end::granted &&
            outcome.end != platform::exchange_end::grant_refused)
            into = outcome.failure;
    }(app, std::move(*secret), tried));
    return tried;
}

// Questions

std::string last_part(const std::string& url)
{
    const auto slash = url.rfind('/');
    return slash == std::string::npos ? "" : url.substr(slash + 1);
}

struct question {
    const char* flag;
    const char* prompt;
    std::string init_options::*answer;
    std::string proposal;
    bool optional = false;
};

class interview {
public:
    interview(init_options given, bool interactive) : o_(std::move(given)), interactive_(interactive) {}

    policy::result<init_options> run()
    {
        ask({"--auth-url", "Address of the login server (ends with /SAAS/t/TENANT)",
             &init_options::auth_url});
        attempt([this] { return try_address(o_, o_.auth_url); }, &init_options::auth_url,
                "Address of the login server");
        ask({"--client-id", "OAuth client id", &init_options::client_id});
        ask_secret();
        attempt([this] { return try_client(o_, secret_); }, &init_options::client_id, "OAuth client id");
        ask({"--redirect-url", "Redirect address of the OAuth client", &init_options::redirect_url,
             "http://localhost"});
        ask({"--tenant", "Tenant", &init_options::tenant, last_part(o_.auth_url)});
        ask({"--variant", "What to consume: log, health or lifecycle", &init_options::variant, "log"});
        ask({"--base-url", "Address of the event exposure service", &init_options::base_url});
        attempt([this] { return try_address(o_, o_.base_url); }, &init_options::base_url,
                "Address of the event exposure service");
        ask({"--exposure", "Name for this exposure", &init_options::exposure,
             o_.variant == "log" ? "logs" : o_.variant});
        ask({"--user", "Name for the consumer", &init_options::user});
        ask({"--consumer-group", "Kafka consumer group", &init_options::consumer_group, o_.user});
        ask({"--contact", "E-mail address of the team", &init_options::contact});
        ask({"--broker", "Kafka broker HOST:PORT (empty: none)", &init_options::broker, "", true});
        if (failed_) return *failed_;
        if (!missing_.empty())
            return policy::failure{.code = policy::errc::usage,
                                   .context = "init cannot ask here; add " + missing_,
                                   .kind = policy::retry::never};
        return o_;
    }

    // The secret that was typed; empty if it is in its file already.
    const crypto::secret& typed_secret() const { return secret_; }

private:
    void ask(const question& q)
    {
        auto& answer = o_.*q.answer;
        const bool given = !answer.empty();
        while (!failed_) {
            if (!given && interactive_) {
                std::cerr << q.prompt << (q.proposal.empty() ? "" : " [" + q.proposal + "]") << ": "
                          << std::flush;
                if (!std::getline(std::cin, answer)) return fail("unexpected end of input");
            }
            if (answer.empty()) answer = q.proposal;
            if (answer.empty() && (q.optional || !interactive_)) {
                if (!q.optional) missing_ += (missing_.empty() ? "" : ", ") + std::string(q.flag);
                return;
            }
            const auto mistake = answer.empty() ? "an answer is required" : mistake_in(q.answer, answer);
            if (mistake.empty()) return;
            if (given || !interactive_) return fail(std::string(q.flag) + ": " + mistake);
            std::cerr << io::printable(mistake) << "\n";
            answer.clear();
        }
    }

    void ask_secret()
    {
        if (failed_ || !o_.client_secret_file.empty()) return;
        if (!interactive_) {
            missing_ += (missing_.empty() ? "" : ", ") + std::string("--client-secret-file");
            return;
        }
        while (secret_.empty() && std::cin)
            secret_ = read_hidden("OAuth client secret (not shown)");
        if (secret_.empty()) return fail("unexpected end of input");
        o_.client_secret_file = (std::filesystem::path(o_.output).parent_path() / "client-secret").string();
    }

    // Tests against the real service; a person may correct the answer.
    template <class Try>
    void attempt(Try&& once, std::string init_options::*answer, const char* prompt)
    {
        while (!failed_ && missing_.empty()) {
            const policy::result<void> tried = once();
            if (tried) return;
            if (!interactive_) {
                failed_ = tried.error();
                return;
            }
            std::cerr << io::printable(tried.error().context) << "\n";
            if (tried.error().code == policy::errc::untrusted) {
                o_.ca_file.clear();
                ask({"--ca-file", "File with the CA of the server (empty: none)", &init_options::ca_file, "",
                     true});
                if (!o_.ca_file.empty()) continue;
            }
            if (confirmed("Keep this answer?", false)) return;
            (o_.*answer).clear();
            ask({"", prompt, answer});
        }
    }

    void fail(std::string why)
    {
        failed_ = policy::failure{
            .code = policy::errc::usage, .context = std::move(why), .kind = policy::retry::never};
    }

    init_options o_;
    bool interactive_;
    crypto::secret secret_;
    std::string missing_;  // missing flags
    std::optional<policy::failure> failed_;
};

// For root on a host with the package installed: the service's group may read the file.
disk::access secret_access()
{
    if (::geteuid() == 0)
        if (auto group = disk::access_for({.group = service_user, .mode = shared_secret_mode})) return *group;
    return {.mode = own_secret_mode};
}

policy::result<void> write_all(const init_options& o, const crypto::secret& typed)
{
    const auto parent = std::filesystem::path(o.output).parent_path();
    std::error_code error;
    std::filesystem::create_directories(parent, error);
    if (error)
        return policy::failure{.code = policy::errc::disk,
                               .context = "cannot create " + parent.string() + ": " + error.message()};
    if (!typed.empty()) {
        std::string line(typed.view());
        line += '\n';
        auto written = disk::write_file(o.client_secret_file, line, secret_access());
        crypto::wipe(line);
        if (!written) return written.error();
    }
    return disk::write_file(o.output, render(o), {.mode = configuration_mode});
}

// Whether the service's user can read a file that root named; true if it cannot be tried here.
bool service_can_read(const std::string& file)
{
    const auto* user = ::geteuid() == 0 ? ::getpwnam(service_user) : nullptr;
    const pid_t child = user ? ::fork() : -1;
    if (child == 0) {
        const bool dropped =
            ::setgroups(0, nullptr) == 0 && ::setgid(user->pw_gid) == 0 && ::setuid(user->pw_uid) == 0;
        ::_exit(!dropped || ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK) >= 0 ? 0 : 1);
    }
    int status = 0;
    return child < 0 || ::waitpid(child, &status, 0) != child || status == 0;
}

void say_what_the_service_cannot_read(const init_options& o)
{
    for (const auto& file : {o.client_secret_file, o.ca_file})
        if (!file.empty() && !service_can_read(file))
            std::cerr << io::printable(file) << ": the service (user " << service_user
                      << ") cannot read it. Copy it and change its path in " << io::printable(o.output)
                      << ": install -m 0640 -g " << service_user << " " << io::printable(file)
                      << " /etc/exposure-agent/ (warning)\n";
}

void say_what_is_next(const init_options& o, bool secret_written)
{
    const auto with = o.output == globals{}.config ? std::string() : " -c " + o.output;
    std::cout << "Wrote " << o.output << (secret_written ? " and " + o.client_secret_file : "") << ".\n"
              << "Next:\n"
              << "  exposure-agent" << with << " login        # once, in a browser\n"
              << "  exposure-agent" << with << " reconcile"
              << (with.empty() ? "    # or: systemctl enable --now exposure-agent\n" : "\n")
              << "  exposure-agent" << with << " status\n";
    if (!with.empty())
        std::cout << "The service reads " << globals{}.config << "; copy the file there for it.\n";
}

}  // namespace

int init(const globals& common, const init_options& given)
{
    auto options = given;
    if (options.output.empty()) options.output = common.config;
    options.output = std::filesystem::absolute(options.output).string();
    if (!options.client_secret_file.empty())
        options.client_secret_file = std::filesystem::absolute(options.client_secret_file).string();
    struct stat facts {};
    if (!options.force && ::lstat(options.output.c_str(), &facts) == 0)
        return report_failure({.code = policy::errc::refused,
                               .context = options.output +
                                          " already exists; nothing was changed. To replace it, "
                                          "add --force"});
    interview questions(options, !common.no_input && ::isatty(STDIN_FILENO) == 1);
    const auto answers = questions.run();
    if (!answers) return report_failure(answers.error());
    if (auto written = write_all(*answers, questions.typed_secret()); !written)
        return report_failure(written.error());
    const auto loaded = service::read_configuration(answers->output, service::this_host());
    for (const auto& warning : loaded.warnings)
        std::cerr << io::printable(config::to_string(warning)) << " (warning)\n";
    say_what_the_service_cannot_read(*answers);
    say_what_is_next(*answers, !questions.typed_secret().empty());
    return policy::exit_code::done;
}

}  // namespace cli
