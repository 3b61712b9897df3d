#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/disk/read_file.hpp"
#include "agent/platform/authorize.hpp"
#include "agent/platform/login_listener.hpp"
#include "crypto/digest.hpp"
#include "policy/dates.hpp"
#include "policy/exit_code.hpp"
#include "policy/limits.hpp"

#include <boost/json.hpp>

#include <iostream>

// login, logout, token: the grant of a person, once.

namespace cli {
namespace {

constexpr std::size_t state_bytes = 16;

policy::failure external_source()
{
    return {.code = policy::errc::usage,
            .context =
                "identity.access_token names an external source that keeps the token fresh: there is nothing "
                "to log in to",
            .kind = policy::retry::never};
}

policy::result<crypto::secret> read_seed(const std::string& file)
{
    auto text = disk::read_file(file, policy::limits::token_bytes);
    if (!text) return text.error();
    if (!*text)
        return policy::failure{.code = policy::errc::usage, .context = file + ": there is no such file"};
    crypto::secret whole(std::move(**text));
    auto view = whole.view();
    while (!view.empty() && (view.back() == '\n' || view.back() == '\r' || view.back() == ' '))
        view.remove_suffix(1);
    if (view.empty())
        return policy::failure{.code = policy::errc::usage,
                               .context = file + ": it is empty, a refresh token is wanted"};
    return crypto::secret(view);
}

std::string read_line()
{
    std::string line;
    std::getline(std::cin, line);
    return line;
}

// What came back from the browser: by the loopback address, from a terminal, or from a pipe.
policy::result<std::string> ask_for_redirected(const globals& common,
                                               const policy::identity_settings& identity,
                                               const std::string& url)
{
    std::cerr
        << "Open this address in a browser and log in as the (service) user that shall call the API:\n\n  "
        << url << "\n\n";
    if (auto port = platform::listening_port(identity.redirect_url)) {
        std::cerr << "Waiting for the browser on " << identity.redirect_url << " ...\n";
        return platform::listen_for_redirect(identity.redirect_url);
    }
    if (common.no_input)
        return policy::failure{
            .code = policy::errc::usage,
            .context = "--no-input: give the code with --code, or a refresh token with --refresh-token-file"};
    std::cerr << "Paste the address that the browser was sent to, or the code in it: " << std::flush;
    return read_line();
}

policy::result<crypto::secret> obtain_code(const globals& common, const policy::identity_settings& identity,
                                           const login_options& options)
{
    const auto state = crypto::random_hex(state_bytes);
    policy::result<std::string> text = options.code;
    if (options.code == "-") text = read_line();
    if (options.code.empty())
        text = ask_for_redirected(common, identity, platform::authorize_url(identity, state));
    if (!text) return text.error();
    auto redirected = platform::parse_redirected(*text);
    crypto::wipe(*text);
    if (!redirected) return redirected.error();
    if (options.code.empty())
        if (auto same = platform::check_state(*redirected, state); !same) return same.error();
    return std::move(redirected->code);
}

}  // namespace

int login(const globals& common, const login_options& options)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    if (desired->identity.access_token) return report_failure(external_source());
    boost::json::object arguments{{"force", options.force}};
    if (!options.refresh_token_file.empty()) {
        auto seed = read_seed(options.refresh_token_file);
        if (!seed) return report_failure(seed.error());
        arguments["refresh_token"] = seed->view();
    } else {
        auto code = obtain_code(common, desired->identity, options);
        if (!code) return report_failure(code.error());
        arguments["code"] = code->view();
    }
    return perform(common, "login", std::move(arguments));
}

int logout(const globals& common)
{
    return perform(common, "logout", {});
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
                         {"login", platform::name_of(status->state)},
                         {"source", desired->identity.access_token ? "external" : "oauth"},
                         {"access_token_expires_at", value(status->access_token_expires_at)},
                         {"last_refresh_at", value(status->last_refresh_at)},
                         {"subject", status->subject.empty() ? boost::json::value(nullptr)
                                                             : boost::json::value(status->subject)}})
                  << "\n";
        return policy::exit_code::done;
    }
    std::cout << "login                 " << platform::name_of(status->state)
              << (status->subject.empty() ? "" : " (" + status->subject + ")") << "\n"
              << "source                " << (desired->identity.access_token ? "external" : "oauth") << "\n"
              << "access token expires  " << text(status->access_token_expires_at) << "\n"
              << "last refresh          " << text(status->last_refresh_at) << "\n";
    if (!status->sentence.empty()) std::cout << status->sentence << "\n";
    return policy::exit_code::done;
}

}  // namespace cli
