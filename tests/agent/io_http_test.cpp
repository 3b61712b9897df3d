#include "agent/io/async.hpp"
#include "agent/io/http_client.hpp"
#include "policy/limits.hpp"
#include "tests/support/run_coroutine.hpp"
#include "tests/support/scripted_server.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <condition_variable>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <netdb.h>
#include <sys/socket.h>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using policy::errc;
using support::run_coroutine;
using support::scripted_server;

// DNS for these tests: names under dns.example.com are resolved here.

namespace {

struct test_dns {
    std::mutex mutex;
    std::condition_variable changed;
    bool hold = false;
    int waiting = 0;

    void release()
    {
        std::unique_lock lock(mutex);
        hold = false;
        changed.notify_all();
        changed.wait(lock, [&] { return waiting == 0; });
    }
};

test_dns& dns()
{
    static test_dns instance;
    return instance;
}

int answer_here(const std::string& name, const addrinfo* hints, addrinfo** found)
{
    const auto next = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    if (name == "missing.dns.example.com") return EAI_NONAME;
    if (name == "slow.dns.example.com") {
        std::unique_lock lock(dns().mutex);
        ++dns().waiting;
        dns().changed.wait(lock, [] { return !dns().hold; });
        --dns().waiting;
        dns().changed.notify_all();
    }
    if (name == "two.dns.example.com") {
        // nothing listens on the first address
        const int error = next("127.9.9.9", nullptr, hints, found);
        return error ? error : next("127.0.0.1", nullptr, hints, &(*found)->ai_next);
    }
    return next("127.0.0.1", nullptr, hints, found);
}

}  // namespace

extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found)
{
    if (name && std::string_view(name).ends_with("dns.example.com")) return answer_here(name, hints, found);
    return reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"))(name, service, hints,
                                                                                         found);
}

namespace {

struct directory : test_support::temporary_directory {
    // Returns the full path.
    std::string write(const std::string& name, const std::string& content) const
    {
        const auto file = path() / name;
        std::ofstream(file, std::ios::binary) << content;
        return file.string();
    }
};

struct fixture {
    struct directory directory;
    support::test_ca ca;
    asio::io_context context;
    io::stop_event stop{context.get_executor()};
    policy::network_settings settings{.ca_file = directory.write("ca.pem", ca.pem()),
                                      .crl_file = {},
                                      .timeout = 5s,
                                      .connections = 8,
                                      .proxy = {}};

    support::server_identity good() { return ca.issue("DNS:localhost,DNS:*.dns.example.com,IP:127.0.0.1"); }

    io::http_client client() { return io::http_client(settings, {}, stop); }

    policy::result<io::http_response> run(io::http& http, io::http_request request)
    {
        return run_coroutine(context, http.exchange(std::move(request)));
    }
};

io::http_request get(std::string url)
{
    return {.method = "GET",
            .url = std::move(url),
            .headers = {},
            .authorization = {},
            .body = {},
            .idempotent = true};
}

io::http_request post(std::string url, std::string body = "{}")
{
    return {.method = "POST",
            .url = std::move(url),
            .headers = {{"Content-Type", "application/json"}},
            .authorization = crypto::secret("Bearer made-up"),
            .body = crypto::secret(std::move(body)),
            .idempotent = false};
}

io::http_request within(std::chrono::milliseconds limit, io::http_request request)
{
    request.limits = {limit, limit, limit};
    return request;
}

// Answers each request with its own head and body.
void echo(scripted_server::peer& peer)
{
    for (auto request = peer.read_request(); !request.empty(); request = peer.read_request())
        peer.answer(request);
}

bool contains(const std::string& text, std::string_view part)
{
    return text.find(part) != std::string::npos;
}

void check_failure(const policy::result<io::http_response>& outcome, errc code, std::string_view sentence)
{
    BOOST_REQUIRE(outcome.has_error());
    BOOST_TEST(policy::word_of(outcome.error().code) == policy::word_of(code));
    BOOST_TEST(contains(outcome.error().context, sentence), outcome.error().context << " lacks " << sentence);
    BOOST_TEST(!contains(outcome.error().context, "made-up"));
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(io_http, fixture)

BOOST_AUTO_TEST_CASE(a_request_is_sent_and_answered_over_tls)
{
    std::string name;
    scripted_server server(good(), [&](auto& peer) {
        echo(peer);
        name = peer.server_name();
    });
    auto http = client();
    const auto outcome = run(http, post(server.url("a.dns.example.com", "/x?y=1"), "{\"a\": 1}"));
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->status == 200u);
    BOOST_TEST(outcome->body ==
               "POST /x?y=1 HTTP/1.1\r\nHost: a.dns.example.com:" + std::to_string(server.port()) +
                   "\r\nContent-Type: application/json\r\nUser-Agent: exposure-agent\r\n"
                   "Content-Length: 8\r\nAuthorization: Bearer made-up\r\n\r\n{\"a\": 1}");
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(any_complete_answer_is_a_value)
{
    const struct {
        const char* what;
        std::string answer;
        unsigned status;
        const char* body;
        bool kept;
    } table[] = {
        {"content length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", true},
        {"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n",
         200, "ok!", true},
        {"chunked with trailer",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", 200, "ok",
         true},
        {"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
        {"empty", "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", 201, "", true},
        {"redirect",
         "HTTP/1.1 302 Found\r\nLocation: https://other.example.com/\r\nContent-Length: 0\r\n\r\n", 302, "",
         true},
        {"error", "HTTP/1.1 503 Unavailable\r\nContent-Length: 4\r\n\r\nlate", 503, "late", true},
        {"interim answers first",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
         200, "ok", true},
        {"asked to close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, "ok",
         false},
        {"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false},
        {"ends with the connection", "HTTP/1.1 200 OK\r\n\r\nall there is", 200, "all there is", false},
        {"ends with the connection, HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nall there is", 200, "all there is",
         false},
        {"a compressed error keeps its status",
         "HTTP/1.1 502 Bad Gateway\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", 502, "",
         true},
        {"says too much", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more", 200, "ok", false},
    };
    for (const auto& row : table) {
        BOOST_TEST_CONTEXT(row.what)
        {
            scripted_server server(good(), [&](auto& peer) {
                while (!peer.read_request().empty()) {
                    peer.write(row.answer);
                    if (contains(row.what, "ends with")) return peer.close_cleanly();
                }
            });
            auto http = client();
            for (int i = 0; i < 2; ++i) {
                const auto outcome = run(http, get(server.url("127.0.0.1")));
                BOOST_REQUIRE(outcome.has_value());
                BOOST_TEST(outcome->status == row.status);
                BOOST_TEST(outcome->body == row.body);
            }
            BOOST_TEST(server.connections() == (row.kept ? 1 : 2));
            http.close_kept();
        }
    }
}

BOOST_AUTO_TEST_CASE(header_names_are_lower_case_and_the_last_value_counts)
{
    scripted_server server([](auto& peer) {
        peer.read_request();
        peer.answer("", "200 OK", "X-One: 1\r\nx-one: 2\r\nRETRY-AFTER: 30\r\n");
    });
    auto http = client();
    const auto outcome = run(http, get(server.url("127.0.0.1")));
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->headers.at("x-one") == "2");
    BOOST_TEST(outcome->headers.at("retry-after") == "30");
}

BOOST_AUTO_TEST_CASE(answers_in_slow_pieces_are_put_together)
{
    scripted_server server(good(), [](auto& peer) {
        peer.read_request();
        for (const char c : std::string_view("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
            peer.write({&c, 1});
        peer.hang();
    });
    auto http = client();
    BOOST_TEST(run(http, get(server.url("localhost")))->body == "hello");
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(answers_that_cannot_be_believed)
{
    const std::string large(policy::limits::response_bytes + 1, 'x');
    const struct {
        const char* what;
        std::string answer;
        errc code;
        const char* sentence;
    } table[] = {
        {"nothing", "", errc::no_answer, "before it answered"},
        {"half a header", "HTTP/1.1 200 OK\r\nConte", errc::no_answer, "in the middle of its answer"},
        {"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", errc::no_answer,
         "in the middle of its answer"},
        {"half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", errc::no_answer,
         "in the middle of its answer"},
        {"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
         errc::no_answer, "in the middle of its answer"},
        {"interim only", "HTTP/1.1 100 Continue\r\n\r\n", errc::no_answer, "in the middle of its answer"},
        {"compressed", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
         errc::bad_answer, "compressed (Content-Encoding: gzip)"},
        {"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", errc::bad_answer, "not HTTP"},
        {"bad length", "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok", errc::bad_answer, "not HTTP"},
        {"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
         errc::bad_answer, "not HTTP"},
        {"announced too large", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", errc::bad_answer,
         "larger than 4 MiB"},
        {"grows too large", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000001\r\n" + large,
         errc::bad_answer, "larger than 4 MiB"},
        {"large header", "HTTP/1.1 200 OK\r\nX: " + std::string(policy::limits::response_header_bytes, 'x'),
         errc::bad_answer, "larger than 64 KiB"},
    };
    for (const auto& row : table) {
        BOOST_TEST_CONTEXT(row.what)
        {
            scripted_server server(good(), [&](auto& peer) {
                peer.read_request();
                peer.write(row.answer);
                peer.close_cleanly();
            });
            auto http = client();
            check_failure(run(http, post(server.url("127.0.0.1"))), row.code, row.sentence);
        }
    }
}

BOOST_AUTO_TEST_CASE(servers_that_are_not_trusted)
{
    support::test_ca other;
    const auto day = support::test_ca::day;
    const struct {
        const char* what;
        const char* host;
        support::server_identity identity;
        const char* sentence;
    } table[] = {
        {"unknown authority", "localhost", other.issue("DNS:localhost"),
         "is not trusted (unable to get local issuer certificate)"},
        {"another host", "localhost", ca.issue("DNS:a.example.com,DNS:b.example.com"),
         "for another host than localhost (it names a.example.com, b.example.com)"},
        {"another address", "127.0.0.1", ca.issue("DNS:localhost,IP:127.0.0.2"),
         "for another host than 127.0.0.1"},
        {"a name is no address", "127.0.0.1", ca.issue("DNS:127.0.0.1"), "for another host than 127.0.0.1"},
        {"wildcard too wide", "a.b.dns.example.com", ca.issue("DNS:*.dns.example.com"), "for another host"},
        {"expired", "localhost", ca.issue("DNS:localhost", -3 * day, -2 * day), "has expired on "},
        {"not yet valid", "localhost", ca.issue("DNS:localhost", day, 2 * day), "is not valid before "},
    };
    for (const auto& row : table) {
        BOOST_TEST_CONTEXT(row.what)
        {
            std::string heard;
            {
                scripted_server server(row.identity, [&](auto& peer) { heard = peer.read_request(); });
                auto http = client();
                check_failure(run(http, post(server.url(row.host))), errc::untrusted, row.sentence);
            }
            BOOST_TEST(heard.empty());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_revoked_certificate_is_refused_and_a_new_list_is_read_without_a_restart)
{
    const auto identity = good();
    scripted_server server(identity, echo);
    settings.crl_file = directory.write("crl.pem", ca.crl(identity.serial));
    auto http = client();
    check_failure(run(http, get(server.url("localhost"))), errc::untrusted, "has been revoked");
    directory.write("new.pem", ca.crl(0));
    std::filesystem::rename(directory.path() / "new.pem", *settings.crl_file);
    BOOST_TEST(run(http, get(server.url("localhost"))).has_value());
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(a_list_of_another_authority_proves_nothing)
{
    support::test_ca other;
    scripted_server server(good(), echo);
    settings.crl_file = directory.write("crl.pem", other.crl(0));
    auto http = client();
    check_failure(run(http, get(server.url("localhost"))), errc::untrusted, "network.crl_file");
}

BOOST_AUTO_TEST_CASE(files_of_trust_that_cannot_be_read_are_named)
{
    scripted_server server(good(), echo);
    settings.ca_file = "/nonexistent/ca.pem";
    auto missing = client();
    check_failure(run(missing, get(server.url("localhost"))), errc::untrusted,
                  "network.ca_file /nonexistent/ca.pem cannot be used");
    settings.ca_file = directory.write("empty.pem", "");
    auto empty = client();
    check_failure(run(empty, get(server.url("localhost"))), errc::untrusted, "network.ca_file");
}

BOOST_AUTO_TEST_CASE(without_a_ca_file_the_system_decides)
{
    scripted_server server(good(), echo);
    settings.ca_file.reset();
    auto http = client();
    check_failure(run(http, get(server.url("localhost"))), errc::untrusted, "is not trusted");
}

BOOST_AUTO_TEST_CASE(only_tls_1_2_and_later)
{
    scripted_server server([](auto& peer) { peer.write("HTTP/1.1 400 This is plain HTTP\r\n\r\n"); });
    auto http = client();
    check_failure(run(http, get("https://localhost:" + std::to_string(server.port()))), errc::untrusted,
                  "does not speak TLS on this port");
}

BOOST_AUTO_TEST_CASE(hosts_that_are_not_there)
{
    std::uint16_t port = 0;
    {
        scripted_server gone(echo);
        port = gone.port();
    }
    const auto at = [&](const std::string& host) { return "https://" + host + ":" + std::to_string(port); };
    auto http = client();
    check_failure(run(http, get(at("127.0.0.1"))), errc::not_connected,
                  at("127.0.0.1") + ": cannot connect (127.0.0.1: ");
    check_failure(run(http, get(at("missing.dns.example.com"))), errc::not_resolved,
                  "missing.dns.example.com cannot be resolved");
    check_failure(run(http, get("http://les.example.com")), errc::config, "plain http is for loopback only");
}

BOOST_AUTO_TEST_CASE(the_next_address_is_tried)
{
    scripted_server server(good(), echo);
    auto http = client();
    BOOST_TEST(run(http, get(server.url("two.dns.example.com"))).has_value());
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(every_phase_ends_in_time)
{
    const struct {
        const char* what;
        scripted_server::script script;
        bool tls;
        errc code;
        const char* sentence;
    } table[] = {
        {"TLS", [](auto& peer) { peer.hang(); }, true, errc::timed_out, "the TLS handshake took too long"},
        {"answer",
         [](auto& peer) {
             peer.read_request();
             peer.hang();
         },
         true, errc::no_answer, "no complete answer within the time limit"},
        {"rest of the answer",
         [](auto& peer) {
             peer.read_request();
             peer.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome");
             peer.hang();
         },
         true, errc::no_answer, "no complete answer within the time limit"},
        {"plain answer",
         [](auto& peer) {
             peer.read_request();
             peer.hang();
         },
         false, errc::no_answer, "no complete answer within the time limit"},
    };
    for (const auto& row : table) {
        BOOST_TEST_CONTEXT(row.what)
        {
            scripted_server server(row.tls ? std::optional(good()) : std::nullopt, row.script);
            auto http = client();
            check_failure(run(http, within(400ms, get(server.url("127.0.0.1")))), row.code, row.sentence);
            BOOST_TEST(server.connections() == 1);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_large_request_that_nobody_reads_ends_in_time)
{
    scripted_server server(good(), [](auto& peer) {
        peer.handshake();
        peer.wait_closed();
    });
    auto http = client();
    check_failure(run(http, within(600ms, post(server.url("127.0.0.1"), std::string(8 << 20, 'x')))),
                  errc::no_answer, "no complete answer");
}

BOOST_AUTO_TEST_CASE(connecting_ends_in_time)
{
    // A listener with a full backlog drops connection attempts, as a firewall does.
    asio::ip::tcp::acceptor full(context);
    full.open(asio::ip::tcp::v4());
    full.bind({asio::ip::address_v4::loopback(), 0});
    full.listen(0);
    std::list<asio::ip::tcp::socket> fill;
    for (int i = 0; i < 4; ++i) {
        auto& socket = fill.emplace_back(context);
        socket.open(asio::ip::tcp::v4());
        socket.async_connect(full.local_endpoint(), [](boost::system::error_code) {});
    }
    auto http = client();
    check_failure(
        run(http, within(150ms, get("https://127.0.0.1:" + std::to_string(full.local_endpoint().port())))),
        errc::timed_out, "connection timed out");
}

BOOST_AUTO_TEST_CASE(a_lookup_that_hangs_is_abandoned_and_holds_up_no_other)
{
    scripted_server server(good(), echo);
    dns().hold = true;
    auto http = client();
    check_failure(run(http, within(100ms, get(server.url("slow.dns.example.com")))), errc::timed_out,
                  "DNS did not answer");
    BOOST_TEST(run(http, get(server.url("a.dns.example.com"))).has_value());
    http.close_kept();
    dns().release();
}

BOOST_AUTO_TEST_CASE(a_kept_connection_that_died_is_replaced_once_for_what_may_be_repeated)
{
    // Reads the second request on the first connection, then closes it without a response.
    const auto dies = [](scripted_server::peer& peer) {
        peer.read_request();
        peer.answer("first");
        peer.read_request();
        if (peer.number > 0) peer.answer("second");
    };
    {
        scripted_server server(good(), dies);
        auto http = client();
        BOOST_TEST(run(http, get(server.url("localhost")))->body == "first");
        BOOST_TEST(run(http, get(server.url("localhost")))->body == "first");
        BOOST_TEST(server.connections() == 2);
    }
    {
        scripted_server server(good(), dies);
        auto http = client();
        BOOST_TEST(run(http, get(server.url("localhost")))->body == "first");
        check_failure(run(http, post(server.url("localhost"))), errc::no_answer, "before it answered");
        BOOST_TEST(server.connections() == 1);
    }
    {
        // A new connection that is closed is not retried.
        scripted_server server(good(), [](auto& peer) { peer.read_request(); });
        auto http = client();
        check_failure(run(http, get(server.url("localhost"))), errc::no_answer, "before it answered");
        BOOST_TEST(server.connections() == 1);
    }
}

BOOST_AUTO_TEST_CASE(a_kept_connection_that_the_server_closed_is_not_used_for_a_post)
{
    for (const bool tls : {true, false}) {
        BOOST_TEST_CONTEXT((tls ? "TLS" : "plain"))
        {
            std::mutex mutex;
            std::condition_variable changed;
            bool closed = false;
            scripted_server server(tls ? std::optional(good()) : std::nullopt, [&](auto& peer) {
                peer.read_request();
                peer.answer("done");
                if (peer.number > 0) return;
                peer.close_cleanly();
                const std::lock_guard lock(mutex);
                closed = true;
                changed.notify_all();
            });
            auto http = client();
            BOOST_TEST(run(http, get(server.url("127.0.0.1")))->body == "done");
            {
                std::unique_lock lock(mutex);
                changed.wait(lock, [&] { return closed; });
            }
            BOOST_TEST(run(http, post(server.url("127.0.0.1")))->body == "done");
            BOOST_TEST(server.connections() == 2);
        }
    }
}

BOOST_AUTO_TEST_CASE(no_more_connections_than_allowed_and_nobody_is_left_out)
{
    std::atomic<int> open = 0;
    std::atomic<int> most = 0;
    scripted_server server(good(), [&](auto& peer) {
        const int now = ++open;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        echo(peer);
        --open;
    });
    settings.connections = 3;
    auto http = client();
    int answered = 0;
    run_coroutine(context, io::for_each_parallel(20, 20, [&](std::size_t) -> io::awaitable<void> {
                      const auto outcome = co_await http.exchange(get(server.url("localhost")));
                      if (outcome) ++answered;
                  }));
    http.close_kept();
    BOOST_TEST(answered == 20);
    BOOST_TEST(most <= 3);
    BOOST_TEST(server.connections() == 3);
}

BOOST_AUTO_TEST_CASE(waiting_for_a_connection_has_a_limit_of_its_own)
{
    scripted_server server(good(), [](auto& peer) {
        peer.read_request();
        if (peer.number == 0) return peer.hang();
        peer.answer("whole time left");
    });
    settings.connections = 1;
    auto http = client();
    std::vector<std::string> ends(3);
    run_coroutine(context, io::for_each_parallel(3, 3, [&](std::size_t i) -> io::awaitable<void> {
                      auto request = post(server.url("localhost"));
                      request.limits = {
                          .wait = i == 1 ? 100ms : 5s, .connect = 5s, .answer = i == 0 ? 800ms : 5s};
                      const auto outcome = co_await http.exchange(std::move(request));
                      ends[i] = outcome ? outcome->body : policy::word_of(outcome.error().code);
                  }));
    BOOST_TEST(ends[0] == "no_answer");
    BOOST_TEST(ends[1] == "timed_out");
    BOOST_TEST(ends[2] == "whole time left");
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(a_single_use_request_never_waits_behind_others)
{
    std::atomic<int> hanging = 0;
    scripted_server server(good(), [&](auto& peer) {
        if (!peer.read_request().starts_with("POST /token")) return ++hanging, peer.hang();
        peer.answer("granted");
    });
    settings.connections = 2;
    auto http = client();
    std::vector<std::string> order;
    run_coroutine(context, io::for_each_parallel(3, 3, [&](std::size_t i) -> io::awaitable<void> {
                      auto request = i < 2 ? within(600ms, get(server.url("localhost")))
                                           : post(server.url("localhost", "/token"));
                      request.single_use = i == 2;
                      const auto outcome = co_await http.exchange(std::move(request));
                      order.push_back(outcome ? outcome->body : policy::word_of(outcome.error().code));
                  }));
    BOOST_TEST(order.front() == "granted");
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(a_stop_waits_for_the_answer_to_a_single_use_request)
{
    std::mutex mutex;
    std::condition_variable changed;
    bool may_answer = false;
    scripted_server server(good(), [&](auto& peer) {
        peer.read_request();
        asio::post(context, [&] { stop.request(); });
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return may_answer; });
        peer.answer("granted");
    });
    // Longer than the three seconds that other requests get.
    const auto answer = [&] {
        const std::lock_guard lock(mutex);
        may_answer = true;
        changed.notify_all();
    };
    asio::steady_timer later(context, 3500ms);
    later.async_wait([&](boost::system::error_code) { answer(); });
    auto http = client();
    auto request = post(server.url("localhost"));
    request.single_use = true;
    const auto outcome = run(http, std::move(request));
    answer();  // or the server would wait for ever
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->body == "granted");
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(a_body_that_ends_with_the_connection_needs_an_orderly_end)
{
    for (const auto* head : {"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n"}) {
        scripted_server server(good(), [&](auto& peer) {
            peer.read_request();
            peer.write(std::string(head) + "{\"cut\": ");
        });
        auto http = client();
        check_failure(run(http, get(server.url("localhost"))), errc::no_answer,
                      "in the middle of its answer without ending TLS properly");
    }
}

BOOST_AUTO_TEST_CASE(a_large_body_is_handed_over_in_pieces)
{
    const std::string element = "{\"id\": \"0123456789\"},";
    std::string body;
    while (body.size() < 3 * policy::limits::large_response_bytes)
        body += element;
    const auto size = std::to_string(body.size());
    scripted_server server(good(), [&](auto& peer) {
        for (auto request = peer.read_request(); !request.empty(); request = peer.read_request()) {
            if (request.starts_with("GET /refused"))
                peer.answer("{\"error\": \"x\"}", "403 Forbidden");
            else
                peer.answer(body);
        }
    });
    auto http = client();
    const auto consuming = [&](const char* path, std::size_t limit, io::body_consumer consume) {
        auto request = get(server.url("localhost", path));
        request.body_limit = limit;
        request.consume = std::move(consume);
        return run(http, std::move(request));
    };
    std::size_t pieces = 0;
    std::size_t largest = 0;
    std::string all;
    const auto outcome = consuming("/", body.size(), [&](std::string_view piece) -> policy::result<void> {
        ++pieces;
        largest = std::max(largest, piece.size());
        all += piece;
        return {};
    });
    BOOST_REQUIRE(outcome.has_value());
    BOOST_TEST(outcome->body.empty());
    BOOST_TEST((all == body));
    BOOST_TEST(largest <= 65536u);
    BOOST_TEST(pieces > 10u);

    check_failure(
        consuming("/", body.size() - 1, [](std::string_view) -> policy::result<void> { return {}; }),
        errc::bad_answer, "larger than 3 MiB");
    const auto refused = consuming("/", body.size(), [](std::string_view) -> policy::result<void> {
        return policy::failure{errc::bad_answer, "element 1 is not an object", policy::retry::later, {}};
    });
    check_failure(refused, errc::bad_answer, "element 1 is not an object");

    bool called = false;
    const auto error = consuming("/refused", 1000, [&](std::string_view) -> policy::result<void> {
        called = true;
        return {};
    });
    BOOST_REQUIRE(error.has_value());
    BOOST_TEST(error->body == "{\"error\": \"x\"}");
    BOOST_TEST(!called);
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(large_bodies_are_received_one_at_a_time)
{
    const std::string body(2 * policy::limits::large_response_bytes, 'x');
    scripted_server server(good(), [&](auto& peer) {
        peer.read_request();
        peer.answer(body);
    });
    auto http = client();
    std::vector<std::size_t> who;
    run_coroutine(context, io::for_each_parallel(4, 4, [&](std::size_t i) -> io::awaitable<void> {
                      auto request = get(server.url("localhost"));
                      request.consume = [&who, i](std::string_view piece) -> policy::result<void> {
                          if (!piece.empty() && (who.empty() || who.back() != i)) who.push_back(i);
                          return {};
                      };
                      const auto outcome = co_await http.exchange(std::move(request));
                      BOOST_TEST(outcome.has_value());
                  }));
    BOOST_TEST(who.size() == 4u);
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(tls_failures_name_themselves)
{
    const auto refused_by = [&](auto prepare) {
        asio::ssl::context tls(asio::ssl::context::tls_server);
        scripted_server::load(tls, good());
        prepare(tls.native_handle());
        scripted_server server([&](auto& peer) {
            peer.start_tls(tls);
            peer.handshake();
            peer.hang();
        });
        auto http = client();
        return run(http, get("https://localhost:" + std::to_string(server.port())));
    };
    check_failure(refused_by([](SSL_CTX* tls) {
                      ::SSL_CTX_set_security_level(tls, 0);
                      ::SSL_CTX_set_min_proto_version(tls, TLS1_VERSION);
                      ::SSL_CTX_set_max_proto_version(tls, TLS1_1_VERSION);
                  }),
                  errc::untrusted, "the server offers neither TLS 1.2 nor TLS 1.3");
    check_failure(refused_by([](SSL_CTX* tls) {
                      ::SSL_CTX_set_alpn_select_cb(
                          tls,
                          [](SSL*, const unsigned char**, unsigned char*, const unsigned char*, unsigned,
                             void*) { return SSL_TLSEXT_ERR_ALERT_FATAL; },
                          nullptr);
                  }),
                  errc::untrusted, "the server does not offer HTTP/1.1 (TLS ALPN)");
}

BOOST_AUTO_TEST_CASE(plain_http_to_a_tls_port_says_so)
{
    const struct {
        const char* what;
        std::optional<support::server_identity> identity;
        std::string answer;
        errc code;
        const char* sentence;
    } table[] = {
        {"OpenSSL closes", good(), "", errc::no_answer,
         "the server closed the connection; is this an https address?"},
        {"an alert", std::nullopt, std::string("\x15\x03\x01\x00\x02\x02\x28", 7), errc::bad_answer,
         "the server expects TLS; is this an https address?"},
    };
    for (const auto& row : table) {
        BOOST_TEST_CONTEXT(row.what)
        {
            scripted_server server(row.identity, [&](auto& peer) {
                peer.read_request();
                peer.write(row.answer);
            });
            auto http = client();
            check_failure(run(http, get("http://127.0.0.1:" + std::to_string(server.port()))), row.code,
                          row.sentence);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_time_to_connect_is_shared_between_addresses)
{
    scripted_server server(good(), echo);
    // The first address drops connection attempts: its backlog is full.
    asio::ip::tcp::acceptor full(context);
    full.open(asio::ip::tcp::v4());
    full.bind({asio::ip::make_address("127.9.9.9"), server.port()});
    full.listen(0);
    std::list<asio::ip::tcp::socket> fill;
    for (int i = 0; i < 4; ++i) {
        auto& socket = fill.emplace_back(context);
        socket.open(asio::ip::tcp::v4());
        socket.async_connect(full.local_endpoint(), [](boost::system::error_code) {});
    }
    auto http = client();
    BOOST_TEST(run(http, within(1s, get(server.url("two.dns.example.com")))).has_value());
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(one_host_that_hangs_does_not_hold_up_another)
{
    scripted_server dead(good(), [](auto& peer) { peer.hang(); });
    scripted_server alive(good(), echo);
    settings.connections = 1;
    auto http = client();
    std::vector<bool> order;
    run_coroutine(context, io::for_each_parallel(2, 2, [&](std::size_t i) -> io::awaitable<void> {
                      const auto outcome = co_await http.exchange(
                          within(800ms, get((i == 0 ? dead : alive).url("localhost"))));
                      order.push_back(outcome.has_value());
                  }));
    BOOST_TEST((order == std::vector<bool>{true, false}));
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(a_stop_ends_what_may_be_ended_and_lets_the_rest_hear_its_answer)
{
    std::mutex mutex;
    std::condition_variable changed;
    bool may_answer = false;
    std::atomic<int> read = 0;
    scripted_server server(good(), [&](auto& peer) {
        const auto request = peer.read_request();
        if (++read == 2) asio::post(context, [&] { stop.request(); });
        if (request.starts_with("GET")) return peer.hang();
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return may_answer; });
        peer.answer("created", "201 Created");
    });
    auto http = client();
    std::string order;
    run_coroutine(context, io::for_each_parallel(2, 2, [&](std::size_t i) -> io::awaitable<void> {
                      auto request = i == 0 ? get(server.url("localhost")) : post(server.url("localhost"));
                      const auto outcome = co_await http.exchange(std::move(request));
                      order += outcome ? outcome->body : policy::word_of(outcome.error().code);
                      order += " ";
                      const std::lock_guard lock(mutex);
                      may_answer = true;
                      changed.notify_all();
                  }));
    BOOST_TEST(order == "stopping created ");
    check_failure(run(http, get(server.url("localhost"))), errc::stopping, "stopped on request");
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(under_a_deadline_of_its_caller_it_ends_and_gives_its_place_back)
{
    scripted_server server(good(), [](auto& peer) {
        peer.read_request();
        if (peer.number == 0) return peer.hang();
        peer.answer("second");
    });
    settings.connections = 1;
    auto http = client();
    const auto late =
        run_coroutine(context, io::with_deadline(100ms, http.exchange(get(server.url("localhost")))));
    BOOST_TEST(late.has_error());
    BOOST_TEST(run(http, get(server.url("localhost")))->body == "second");
    http.close_kept();
}

BOOST_AUTO_TEST_CASE(a_header_cannot_break_out_of_its_line)
{
    scripted_server server(good(), echo);
    auto http = client();
    auto request = get(server.url("localhost"));
    request.headers["X-Note"] = "a\r\nX-Other: b";
    check_failure(run(http, std::move(request)), errc::internal, "X-Note cannot be sent");
    auto token = get(server.url("localhost"));
    token.authorization.emplace("Bearer made-up\nX: y");
    check_failure(run(http, std::move(token)), errc::internal, "line break");
    BOOST_TEST(server.connections() == 0);
}

BOOST_AUTO_TEST_CASE(through_a_proxy)
{
    asio::ssl::context far_end(asio::ssl::context::tls_server);
    scripted_server::load(far_end, ca.issue("DNS:les.example.com"));
    std::string asked;
    std::string heard;
    scripted_server proxy([&](auto& peer) {
        asked = peer.read_request();
        peer.write("HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n");
        peer.start_tls(far_end);
        heard = peer.read_request();
        peer.answer("from afar");
        echo(peer);
    });
    settings.proxy = "http://alice:made-up@127.0.0.1:" + std::to_string(proxy.port());
    auto http = client();
    BOOST_TEST(run(http, post("https://les.example.com/x"))->body == "from afar");
    BOOST_TEST(run(http, get("https://les.example.com/y")).has_value());
    http.close_kept();
    BOOST_TEST(proxy.connections() == 1);
    BOOST_TEST(contains(asked, "CONNECT les.example.com:443 HTTP/1.1\r\nHost: les.example.com:443\r\n"));
    BOOST_TEST(contains(asked, "Proxy-Authorization: Basic YWxpY2U6bWFkZS11cA==\r\n"));
    BOOST_TEST(!contains(asked, "Bearer"));
    BOOST_TEST(contains(heard, "POST /x HTTP/1.1\r\nHost: les.example.com\r\n"));
    BOOST_TEST(!contains(heard, "Proxy-Authorization"));
}

BOOST_AUTO_TEST_CASE(proxies_that_do_not_help)
{
    const struct {
        const char* what;
        scripted_server::script script;
        errc code;
        const char* sentence;
    } table[] = {
        {"login",
         [](auto& peer) { peer.read_request(), peer.answer("", "407 Proxy Authentication Required"); },
         errc::not_connected, "the proxy rejected the user name or password (407); check network.proxy_auth"},
        {"forbidden", [](auto& peer) { peer.read_request(), peer.answer("<html>", "403 Forbidden"); },
         errc::not_connected, "refuses to connect to the server (status 403)"},
        {"closes", [](auto& peer) { peer.read_request(); }, errc::not_connected, "before it answered"},
        {"hangs", [](auto& peer) { peer.hang(); }, errc::timed_out, "the proxy's answer took too long"},
        {"hangs later",
         [](auto& peer) {
             peer.read_request();
             peer.write("HTTP/1.1 200 OK\r\n\r\n");
             peer.hang();
         },
         errc::timed_out, "the TLS handshake took too long"},
        {"talks",
         [](auto& peer) { peer.read_request(), peer.write("HTTP/1.1 200 OK\r\n\r\nhello"), peer.hang(); },
         errc::not_connected, "sent data before the TLS handshake"},
    };
    for (const auto& row : table) {
        BOOST_TEST_CONTEXT(row.what)
        {
            scripted_server proxy(row.script);
            settings.proxy = "http://alice:made-up@127.0.0.1:" + std::to_string(proxy.port());
            auto http = client();
            check_failure(run(http, within(600ms, post("https://les.example.com/"))), row.code, row.sentence);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_proxys_credentials_are_read_for_each_connection)
{
    std::vector<std::string> asked;
    scripted_server proxy([&](auto& peer) {
        asked.push_back(peer.read_request());
        peer.answer("", "407 Proxy Authentication Required");
    });
    settings.proxy = "http://127.0.0.1:" + std::to_string(proxy.port());
    auto http = client();
    check_failure(run(http, post("https://les.example.com/")), errc::not_connected,
                  "requires a user name and password (407); set network.proxy_auth");
    int read = 0;
    const io::proxy_credentials credentials = [&]() -> io::task<crypto::secret> {
        ++read;
        co_return crypto::secret("alice:made-up");
    };
    http.configure(settings, credentials);
    for (int i = 0; i < 2; ++i)
        check_failure(run(http, post("https://les.example.com/")), errc::not_connected,
                      "rejected the user name or password (407); check network.proxy_auth");
    BOOST_TEST(read == 2);
    BOOST_REQUIRE(asked.size() == 3u);
    BOOST_TEST(!contains(asked[0], "Proxy-Authorization"));
    BOOST_TEST(contains(asked[2], "Proxy-Authorization: Basic YWxpY2U6bWFkZS11cA==\r\n"));
}

BOOST_AUTO_TEST_CASE(new_settings_are_in_force_for_the_next_request)
{
    scripted_server server(good(), echo);
    support::test_ca other;
    auto http = client();
    BOOST_TEST(run(http, get(server.url("localhost"))).has_value());
    settings.ca_file = directory.write("other.pem", other.pem());
    http.configure(settings);
    check_failure(run(http, get(server.url("localhost"))), errc::untrusted, "is not trusted");
}

BOOST_AUTO_TEST_SUITE_END()
