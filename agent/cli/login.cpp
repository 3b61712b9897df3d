#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/disk/files.hpp"
#include "agent/platform/authorize.hpp"
#include "crypto/digest.hpp"
#include "policy/dates.hpp"
#include "policy/limits.hpp"
#include "policy/result.hpp"

#include <boost/json.hpp>

#include <iostream>

// login, logout, token: the login of a person, needed only once.

namespace cli {
namespace {

namespace verb = service::verb;

constexpr std::size_t state_bytes = 16;
constexpr std::size_t verifier_bytes = 32;  // gives 43 characters; RFC 7636 section 4.1 requires 43 to 128

policy::failure external_source()
{
    return {.code = policy::errc::usage,
            .context =
                "identity.access_token names an external source, which refreshes the token itself; no login "
                "is needed",
            .kind = policy::retry::never};
}

policy::result<crypto::secret> read_seed(const std::string& file)
{
    auto text = disk::read_file(file, policy::limits::token_bytes);
    if (!text) return text.error();
    if (!*text) return policy::failure{.code = policy::errc::usage, .context = file + " does not exist"};
    crypto::secret whole(std::move(**text));
    auto view = whole.view();
    while (!view.empty() && (view.back() == '\n' || view.back() == '\r' || view.back() == ' '))
        view.remove_suffix(1);
    if (view.empty())
        return policy::failure{.code = policy::errc::usage,
                               .context = file + " is empty; it must hold a refresh token"};
    return crypto::secret(view);
}

std::string read_line()
{
    std::string line;
    std::getline(std::cin, line);
    return line;
}

// A login that was started, with what is needed to redeem its code.
struct begun_login {
    std::string state;
    crypto::secret verifier;  // empty: without PKCE
};

// Stored with the tokens, so that a later `login --code` can redeem its code, too.
int begin(const globals& common, const begun_login& begun)
{
    auto quiet = common;
    quiet.json = false;
    verb::login request;
    request.begin = true;
    request.verifier = begun.verifier.clone();
    request.state = begun.state;
    return perform(quiet, std::move(request));
}

// Gets the redirect from the browser: through the loopback address, from a terminal, or from a pipe.
policy::result<std::string> ask_for_redirected(const policy::identity_settings& identity,
                                               const begun_login& begun)
{
    const auto challenge = begun.verifier.empty() ? std::string() : platform::challenge_of(begun.verifier);
    std::cerr << "Open this address in a browser and log in as the service user that will call the API:\n\n  "
              << platform::authorize_url(identity, begun.state, challenge) << "\n\n";
    if (platform::listening_port(identity.redirect_url)) {
        std::cerr << "Waiting for the browser on " << identity.redirect_url << " ...\n";
        return platform::listen_for_redirect(identity.redirect_url, begun.state);
    }
    std::cerr << "Paste the address to which the browser was redirected, or the code in it: " << std::flush;
    return read_line();
}

int login_with(const globals& common, policy::result<std::string> redirected, bool force,
               const begun_login* begun)
{
    if (!redirected) return report_failure(redirected.error());
    auto read = platform::parse_redirected(*redirected);
    crypto::wipe(*redirected);
    if (!read) return report_failure(read.error());
    verb::login request;
    request.state = read->state;
    request.code = read->code.clone();
    request.force = force;
    if (begun) {
        if (auto same = platform::check_state(*read, begun->state); !same)
            return report_failure(same.error());
        request.state = begun->state;
        request.verifier = begun->verifier.clone();
    }
    return perform(common, std::move(request));
}

int login_in_a_browser(const globals& common, const policy::identity_settings& identity,
                       const login_options& options)
{
    if (common.no_input && !platform::listening_port(identity.redirect_url))
        return report_failure(
            {.code = policy::errc::usage,
             .context = "--no-input: give the code with --code, or a refresh token with --refresh-token-file",
             .kind = policy::retry::never});
    begun_login begun{.state = crypto::random_hex(state_bytes), .verifier = {}};
    if (!options.no_pkce) begun.verifier = crypto::secret(crypto::random_hex(verifier_bytes));
    if (const int code = begin(common, begun); code != policy::exit_code::done) return code;
    return login_with(common, ask_for_redirected(identity, begun), options.force, &begun);
}

}  // namespace

int login(const globals& common, const login_options& options)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    if (desired->identity.access_token) return report_failure(external_source());
    if (!options.refresh_token_file.empty()) {
        auto seed = read_seed(options.refresh_token_file);
        if (!seed) return report_failure(seed.error());
        verb::login request;
        request.refresh_token = std::move(*seed);
        request.force = options.force;
        return perform(common, std::move(request));
    }
    if (options.code.empty()) return login_in_a_browser(common, desired->identity, options);
    return login_with(common, options.code == "-" ? read_line() : options.code, options.force, nullptr);
}

int logout(const globals& common)
{
    return perform(common, verb::logout{});
}

int token(const globals& common)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    service::application app(desired);
    policy::result<platform::login_status> status = policy::failure{};
    app.run([](service::application& a, policy::result<platform::login_status>& into) -> io::awaitable<void> {
        into = co_await a.login_status();
    }(app, status));
    if (!status) return report_failure(status.error());

    const auto text = [](const std::optional<policy::instant>& at) {
        return at ? policy::format_utc(*at) : std::string("-");
    };
    if (common.json) {
        const auto value = [](const std::optional<policy::instant>& at) {
            return at ? boost::json::value(policy::format_utc(*at)) : boost::json::value(nullptr);
        };
        std::cout << boost::json::serialize(boost::json::object{
                         {"schema", "exposure-agent.token/v1"},
                         {"login", policy::word_of(status->state)},
                         {"source", desired->identity.access_token ? "external" : "oauth"},
                         {"access_token_expires_at", value(status->access_token_expires_at)},
                         {"last_refresh_at", value(status->last_refresh_at)},
                         {"subject", status->subject.empty() ? boost::json::value(nullptr)
                                                             : boost::json::value(status->subject)}})
                  << "\n";
        return policy::exit_code::done;
    }
    std::cout << "login                 " << policy::word_of(status->state)
              << (status->subject.empty() ? "" : " (" + status->subject + ")") << "\n"
              << "source                " << (desired->identity.access_token ? "external" : "oauth") << "\n"
              << "access token expires  " << text(status->access_token_expires_at) << "\n"
              << "last refresh          " << text(status->last_refresh_at) << "\n";
    if (!status->sentence.empty()) std::cout << status->sentence << "\n";
    return policy::exit_code::done;
}

}  // namespace cli
