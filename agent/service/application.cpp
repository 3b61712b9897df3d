#include "agent/service/application.hpp"

#include "agent/deploy/broker_probe.hpp"
#include "agent/deploy/hooks.hpp"
#include "agent/deploy/spool.hpp"
#include "agent/disk/publisher.hpp"
#include "agent/disk/state_database.hpp"
#include "agent/disk/state_directory.hpp"
#include "agent/io/async.hpp"
#include "agent/io/clock.hpp"
#include "agent/io/environment.hpp"
#include "agent/io/http_client.hpp"
#include "agent/io/log.hpp"
#include "agent/io/process.hpp"
#include "agent/io/systemd.hpp"
#include "agent/platform/access_token.hpp"
#include "agent/platform/exposure_client.hpp"
#include "agent/platform/oauth.hpp"
#include "agent/platform/secret_reader.hpp"
#include "policy/result.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <thread>

namespace service {
namespace {

constexpr const char* units_runtime_directory = "/run/exposure-agent";

// The service's RuntimeDirectory= (systemd.exec(5)); one-shot commands outside the unit use the same one.
std::filesystem::path runtime_directory()
{
    const auto given = io::environment("RUNTIME_DIRECTORY").value_or("");
    return given.empty() ? units_runtime_directory : given.substr(0, given.find(':'));
}

// Keeps the token record's text on disk, because agent/platform does not depend on agent/disk.
class tokens_on_disk final : public platform::token_store {
public:
    explicit tokens_on_disk(disk::state_database& kept) : kept_in_(kept) {}

    policy::result<std::optional<platform::stored_tokens>> load() override
    {
        auto kept = kept_in_.load_tokens();
        if (!kept) return kept.error();
        if (!*kept) return std::optional<platform::stored_tokens>();
        return std::optional(platform::stored_tokens{
            .text = std::move((*kept)->text), .in_place = (*kept)->in_place, .copied = (*kept)->copied});
    }
    policy::result<void> save(const crypto::secret& text) override { return kept_in_.save_tokens(text); }
    policy::result<void> make_room() override { return kept_in_.make_room_now(); }

private:
    disk::state_database& kept_in_;
};

// At least four, whatever the number of cores: they wait for fsync, which file systems do several at a time.
std::size_t pool_threads()
{
    return std::max(4U, std::thread::hardware_concurrency());
}

// For keys and published directories: this many directories may hang before the next one has to wait.
constexpr std::size_t output_threads = 16;

std::unique_ptr<deploy::hooks> make_hooks(const std::filesystem::path& spool, io::process& process,
                                          io::clock& clock)
{
    if (!spool.empty()) return std::make_unique<deploy::spooled_hooks>(clock, spool);
    return std::make_unique<deploy::hooks_runner>(process);
}

constexpr int save_attempts = 60;  // saving tokens that the disk refuses is worth a slow stop
constexpr auto save_pause = std::chrono::seconds(1);
constexpr auto extension = std::chrono::seconds(10);  // of systemd's stop timeout, requested repeatedly

// Waits for a running token exchange, and saves a refresh token that is only in memory before the end.
io::awaitable<void> save_tokens(platform::oauth_tokens* tokens)
{
    if (!tokens) co_return;
    boost::asio::steady_timer pause(co_await boost::asio::this_coro::executor);
    for (int attempt = 0; attempt < save_attempts; ++attempt) {
        const auto saved = co_await tokens->flush();
        if (saved) co_return;
        if (attempt == 0)
            io::log(io::severity::error, "the tokens could not be saved: " + saved.error().context);
        pause.expires_after(save_pause);
        co_await pause.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
}

// From the stop request to the end of the process.
struct ending {
    explicit ending(boost::asio::any_io_executor executor) : timer(std::move(executor)) {}

    boost::asio::steady_timer timer;
    bool over = false;
};

io::awaitable<bool> pause(ending& e, std::chrono::seconds time)
{
    e.timer.expires_after(time);
    co_await e.timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    co_return !e.over;
}

void leave_behind()
{
    io::log(io::severity::error, "stopped with unfinished work; the next start resumes it");
    std::_Exit(policy::exit_code::failed);
}

// A hanging disk or external program must not hold up the stop.
io::awaitable<void> end_in_time(ending& e, platform::oauth_tokens* tokens)
{
    const bool waits = co_await pause(e, stop_limit);
    if (!waits) co_return;
    const bool settling = tokens && tokens->is_settling();
    co_await save_tokens(tokens);
    if (e.over) co_return;
    if (settling) {  // work that waited for the tokens can end only now
        const bool goes_on = co_await pause(e, stop_limit);
        if (!goes_on) co_return;
    }
    leave_behind();
}

io::awaitable<void> ask_for_time(ending& e)
{
    for (bool waits = true; waits;) {
        io::notify::extend_timeout(extension);
        waits = co_await pause(e, extension / 2);
    }
}

io::awaitable<void> save_tokens_after(io::awaitable<void> work, platform::oauth_tokens* tokens)
{
    co_await std::move(work);
    co_await save_tokens(tokens);
}

io::task<crypto::secret> user_and_password(platform::secret_reader& secrets, policy::proxy_credentials auth)
{
    const auto password = co_await secrets.read(auth.password, "network.proxy_auth.password");
    if (!password) co_return password.error();
    std::string pair;
    pair.reserve(auth.username.size() + 1 + password->view().size());
    pair.append(auth.username).append(":").append(password->view());
    co_return crypto::secret(std::move(pair));
}

// Reads the password for each new connection through the proxy, so that a change applies to the next one.
io::proxy_credentials proxy_login(platform::secret_reader& secrets, const policy::network_settings& network)
{
    if (!network.proxy_auth) return {};
    return [&secrets, auth = *network.proxy_auth] { return user_and_password(secrets, auth); };
}

}  // namespace

struct application::parts {
    parts(std::shared_ptr<const policy::desired_state> wanted, const application_options& options)
        : desired(std::move(wanted)),
          timeout(options.timeout),
          paths(desired->state_dir),
          stop(context.get_executor()),
          clock(stop),
          network(desired->network, io::read_proxy_environment(), stop),
          given_http(options.runs_on ? options.runs_on->http(stop) : nullptr),
          http(given_http ? *given_http : network),
          process(options.runs_on ? options.runs_on->process(stop)
                                  : std::make_unique<io::process_posix>(stop)),
          pool(options.runs_on ? options.runs_on->workers : start(own_pool, pool_threads())),
          outputs(options.runs_on ? options.runs_on->workers : start(own_outputs, output_threads)),
          secrets(*process, pool, platform::own_environment()),
          store(paths, runtime_directory()),
          token_store(store),
          hooks(make_hooks(options.spool, *process, clock)),
          verifier(*process)
    {
        if (options.runs_on) store.write_on(options.runs_on->writer);
        network.configure(desired->network, proxy_login(secrets, desired->network));
    }

    std::shared_ptr<const policy::desired_state> desired;
    std::optional<policy::duration> timeout;
    disk::paths paths;
    boost::asio::io_context context{1};
    io::stop_event stop;
    std::optional<boost::asio::thread_pool> own_pool;
    std::optional<boost::asio::thread_pool> own_outputs;
    io::real_clock clock;
    io::http_client network;
    std::unique_ptr<io::http> given_http;
    io::http& http;
    std::unique_ptr<io::process> process;
    boost::asio::any_io_executor pool;
    boost::asio::any_io_executor outputs;
    platform::secret_reader secrets;
    disk::state_database store;
    tokens_on_disk token_store;
    disk::file_publisher publisher;
    std::unique_ptr<deploy::hooks> hooks;
    deploy::broker_probe verifier;
    std::unique_ptr<platform::oauth_tokens> oauth;
    std::unique_ptr<platform::external_tokens> external;
    std::unique_ptr<platform::access_tokens> borrowed;
    std::unique_ptr<platform::api_channel> channel;
    std::unique_ptr<platform::exposure_client> api;
    std::unique_ptr<reconcile::ports> ports;
    std::unique_ptr<reconcile::state> state;
    std::optional<disk::state_lock> lock;

private:
    static boost::asio::any_io_executor start(std::optional<boost::asio::thread_pool>& threads,
                                              std::size_t number)
    {
        return threads.emplace(number).get_executor();
    }
};

application::application(std::shared_ptr<const policy::desired_state> desired, application_options options)
    : parts_(std::make_unique<parts>(std::move(desired), options))
{
    auto& p = *parts_;
    const auto& identity = p.desired->identity;
    const auto owner = p.desired->owner.value_or(disk::this_installation().owner);
    if (identity.access_token) {
        p.external =
            std::make_unique<platform::external_tokens>(*identity.access_token, p.secrets, p.clock, owner);
    } else {
        p.oauth = std::make_unique<platform::oauth_tokens>(
            platform::oauth_world{p.http, p.clock, p.token_store, p.secrets, executor(), pool()}, identity,
            owner);
    }
    if (options.borrowed_tokens && p.oauth) p.borrowed = options.borrowed_tokens(*this);
    p.channel = std::make_unique<platform::api_channel>(p.http, tokens(), p.clock, std::move(options.watch));
    p.api = std::make_unique<platform::exposure_client>(*p.channel);
    p.ports = std::make_unique<reconcile::ports>(
        reconcile::ports{p.clock, *p.api, p.store, p.publisher, *p.hooks, p.verifier, outputs()});
    p.state = std::make_unique<reconcile::state>(*p.ports, p.desired);
}

application::~application()
{
    if (parts_->own_outputs) parts_->own_outputs->join();
    if (parts_->own_pool) parts_->own_pool->join();
}

policy::result<void> application::take_state_directory(disk::state_lock::owner who)
{
    if (auto ready = disk::prepare_state_directory(parts_->paths); !ready) return ready.error();
    auto lock = disk::state_lock::acquire(parts_->paths, who);
    if (!lock) return lock.error();
    parts_->lock.emplace(std::move(*lock));
    return parts_->store.open();
}

void application::run(io::awaitable<void> work)
{
    auto& p = *parts_;
    const auto executor = p.context.get_executor();
    ending end(executor);
    ending extending(executor);
    const auto on_stop = p.stop.on_request([&] {
        io::spawn(executor, "end", end_in_time(end, p.oauth.get()), p.stop);
        io::spawn(executor, "notify", ask_for_time(extending), p.stop);
    });
    boost::asio::signal_set signals(p.context, SIGINT, SIGTERM);
    signals.async_wait([&](boost::system::error_code ec, int) {
        if (ec) return;
        signals.clear();  // the next signal ends the program even if this thread is stuck
        p.stop.request();
    });
    boost::asio::steady_timer limit(executor);
    if (p.timeout) {
        limit.expires_after(*p.timeout);
        limit.async_wait([&](boost::system::error_code ec) {
            if (!ec) p.stop.request();
        });
    }
    std::exception_ptr bug;
    boost::asio::co_spawn(p.context, save_tokens_after(std::move(work), p.oauth.get()),
                          [&](std::exception_ptr error) {
                              bug = error;
                              signals.cancel();
                              limit.cancel();
                              for (auto* each : {&end, &extending}) {
                                  each->over = true;
                                  each->timer.cancel();
                              }
                              p.network.close_kept();
                          });
    parts_->context.run();
    parts_->context.restart();
    if (bug) std::rethrow_exception(bug);
}

void application::close_connections()
{
    parts_->network.close_kept();
}

void application::configure(std::shared_ptr<const policy::desired_state> desired)
{
    auto& p = *parts_;
    p.desired = desired;
    p.state->replace_desired(desired);
    p.network.configure(desired->network, proxy_login(p.secrets, desired->network));
    if (p.oauth) p.oauth->configure(desired->identity);
}

const policy::desired_state& application::desired() const
{
    return *parts_->desired;
}

disk::paths application::paths() const
{
    return parts_->paths;
}

boost::asio::any_io_executor application::executor()
{
    return parts_->context.get_executor();
}

boost::asio::any_io_executor application::pool()
{
    return parts_->pool;
}

boost::asio::any_io_executor application::outputs()
{
    return parts_->outputs;
}

io::stop_event& application::stop()
{
    return parts_->stop;
}

io::clock& application::clock()
{
    return parts_->clock;
}

io::http& application::http()
{
    return parts_->http;
}

io::process& application::process()
{
    return *parts_->process;
}

reconcile::state& application::state()
{
    return *parts_->state;
}

deploy::hooks& application::hooks()
{
    return *parts_->hooks;
}

platform::api_channel& application::channel()
{
    return *parts_->channel;
}

platform::exposure_api& application::api()
{
    return *parts_->api;
}

disk::state_database& application::store()
{
    return parts_->store;
}

platform::access_tokens& application::tokens()
{
    if (parts_->borrowed) return *parts_->borrowed;
    if (parts_->external) return *parts_->external;
    return *parts_->oauth;
}

platform::oauth_tokens* application::oauth()
{
    return parts_->oauth.get();
}

io::task<platform::login_status> application::login_status()
{
    if (parts_->external) co_return parts_->external->status();
    co_return co_await parts_->oauth->status();
}

}  // namespace service
