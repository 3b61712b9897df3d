#pragma once

#include "agent/platform/oauth.hpp"
#include "crypto/digest.hpp"
#include "tests/support/recording_process.hpp"
#include "tests/support/run_coroutine.hpp"
#include "tests/support/scripted_http.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <optional>
#include <string>
#include <utility>

// An OAuth grant with fakes around it: a scripted login server, a token store in memory, virtual time.

namespace support {

// Keeps the text of the last save; can be told to fail a save.
class memory_token_store final : public platform::token_store {
public:
    policy::result<std::optional<platform::stored_tokens>> load() override
    {
        if (!text) return std::optional<platform::stored_tokens>();
        return std::optional(platform::stored_tokens{
            .text = crypto::secret(std::string_view(*text)), .in_place = in_place, .copied = copied});
    }

    policy::result<void> save(const crypto::secret& record) override
    {
        ++saves;
        if (refusals > 0) {
            --refusals;
            return policy::failure{.code = policy::errc::disk_full, .context = "No space left on device"};
        }
        text = std::string(record.view());
        return {};
    }

    policy::result<void> make_room() override
    {
        if (on_make_room) std::exchange(on_make_room, {})();
        if (room) return {};
        return policy::failure{.code = policy::errc::disk_full, .context = "No space left on device"};
    }

    platform::token_record record() const { return platform::read_tokens(text.value()).value(); }
    void set(const platform::token_record& record)
    {
        text = std::string(platform::write_tokens(record).view());
    }

    std::optional<std::string> text;
    bool in_place = true;
    int saves = 0;
    int refusals = 0;
    bool room = true;
    bool copied = false;
    std::function<void()> on_make_room;
};

// An unsigned JWT with these claims.
inline std::string jwt(const std::string& claims)
{
    return crypto::base64(R"({"alg":"none"})") + "." + crypto::base64(claims) + ".c2lnbmF0dXJl";
}

struct oauth_fixture {
    static constexpr long long week = 604799;

    oauth_fixture()
    {
        given_environment({{"CLIENT_SECRET", "s3cret-value"}});
        make();
    }

    ~oauth_fixture()
    {
        BOOST_TEST(http.unexpected.empty());
        BOOST_TEST(http.unused() == 0u);
    }

    void given_environment(platform::secret_reader::variables variables)
    {
        secrets.emplace(process, context.get_executor(), std::move(variables));
    }

    // Recreates the grant as after a restart: only what was saved is left.
    void make()
    {
        tokens.emplace(platform::oauth_world{http, clock, store, *secrets, context.get_executor(),
                                             context.get_executor()},
                       settings, "web-01");
    }

    template <class T>
    T run(io::awaitable<T> work)
    {
        return run_coroutine(context, clock, std::move(work));
    }

    scripted_http::step& expect_post() { return http.expect("POST", settings.auth_url + "/auth/oauthtoken"); }

    static std::string pair_body(const std::string& access, const std::string& refresh,
                                 long long expires_in = week)
    {
        return R"({"access_token": ")" + access + R"(", "token_type": "Bearer", "expires_in": )" +
               std::to_string(expires_in) + R"(, "refresh_token": ")" + refresh + R"(", "scope": "user"})";
    }

    // Logged in with access token a1 and refresh token r1, both obtained now.
    void given_login(long long expires_in = week)
    {
        expect_post().answer(200, pair_body("a1", "r1", expires_in));
        BOOST_REQUIRE(run(tokens->login_with_code(crypto::secret("code-0"), false)));
        http.requests.clear();
    }

    std::string current()
    {
        const auto token = run(tokens->current());
        return token ? std::string(token->view())
                     : std::string("failed: ") + policy::word_of(token.error().code);
    }

    std::string after_refusal(const char* refused)
    {
        const auto token = run(tokens->after_refusal(crypto::secret(refused)));
        return token ? std::string(token->view())
                     : std::string("failed: ") + policy::word_of(token.error().code);
    }

    platform::login_status status() { return run(tokens->status()).value(); }

    int open_attempts(const char* refresh_token) const
    {
        const auto record = store.record();
        const auto* found = record.find(platform::fingerprint_of(crypto::secret(refresh_token)));
        return found == nullptr || found->spent ? 0 : found->attempts;
    }

    boost::asio::io_context context;
    manual_clock clock;
    scripted_http http;
    memory_token_store store;
    recording_process process;
    std::optional<platform::secret_reader> secrets;
    policy::identity_settings settings{
        .auth_url = "https://login.example.com/SAAS/t/orion-123",
        .client_id = "exposure-automation",
        .client_secret =
            policy::secret_source{
                .from = policy::secret_source::origin::environment, .name = "CLIENT_SECRET", .argv = {}},
        .redirect_url = "http://localhost",
        .access_token = std::nullopt};
    std::optional<platform::oauth_tokens> tokens;
};

}  // namespace support
