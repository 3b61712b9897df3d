#include "agent/deploy/connection_watch.hpp"

#include <boost/json.hpp>
#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

// exposure-agent-probe: asks a Kafka broker whether it accepts a key and its certificate. Reads
// one JSON request from standard input and writes one JSON line to standard output; it joins no
// group, commits nothing and creates no topic.
//
// Request: broker, ca_file (null: OpenSSL's default), key_pem, certificate_pem (texts), topic,
// group and timeout_ms. Answer: verdict (accepted, refused_tls, not_authorized_topic,
// not_authorized_group, unreachable) and evidence, one sentence.
//
// Exit codes: 0 an answer was printed · 64 the request is invalid · 70 the files could not be loaded.

namespace {

using deploy::probe_answer;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

constexpr std::size_t request_bytes = 64 << 10;
constexpr int longest_timeout_ms = 120'000;
constexpr auto slice = 100ms;   // between checks of what the broker threads have reported
constexpr int exit_usage = 64;  // sysexits.h
constexpr int exit_unusable = 70;

struct request {
    std::string broker;
    std::string ca_file;  // empty: OpenSSL's default
    std::string key_pem;
    std::string certificate_pem;
    std::string topic;
    std::string group;
    std::chrono::milliseconds timeout{20'000};
};

// A request that cannot be carried out: the message and the exit code.
struct unusable : std::runtime_error {
    unusable(const std::string& sentence, int code) : std::runtime_error(sentence), exit_code(code) {}
    int exit_code;
};

std::string read_input()
{
    std::string text;
    std::array<char, 4096> part;
    while (text.size() <= request_bytes) {
        const auto count = ::read(STDIN_FILENO, part.data(), part.size());
        if (count <= 0) return text;
        text.append(part.data(), static_cast<std::size_t>(count));
    }
    throw unusable("the request is too large", exit_usage);
}

request parse(const std::string& text)
{
    boost::json::error_code error;
    const auto document = boost::json::parse(text, error);
    const auto* object = error ? nullptr : document.if_object();
    if (!object) throw unusable("the request on standard input is not a JSON object", exit_usage);

    const auto text_of = [&](const char* key) {
        const auto* value = object->if_contains(key);
        const auto* string = value ? value->if_string() : nullptr;
        if (!string || string->empty())
            throw unusable("the request lacks \"" + std::string(key) + "\"", exit_usage);
        return std::string(*string);
    };
    request result{.broker = text_of("broker"),
                   .ca_file = {},
                   .key_pem = text_of("key_pem"),
                   .certificate_pem = text_of("certificate_pem"),
                   .topic = text_of("topic"),
                   .group = text_of("group")};
    if (const auto* ca = object->if_contains("ca_file"); ca && ca->is_string())
        result.ca_file = text_of("ca_file");
    if (const auto* limit = object->if_contains("timeout_ms")) {
        const auto* number = limit->if_int64();
        if (!number || *number < 1 || *number > longest_timeout_ms)
            throw unusable("\"timeout_ms\" is not a number from 1 to " + std::to_string(longest_timeout_ms),
                           exit_usage);
        result.timeout = std::chrono::milliseconds(*number);
    }
    return result;
}

template <auto Free>
struct freed_by {
    template <class T>
    void operator()(T* value) const
    {
        Free(value);
    }
};
template <class T, auto Free>
using owned = std::unique_ptr<T, freed_by<Free>>;

// One consumer handle without a group, so that librdkafka has no group state that could join or commit.
class probe {
public:
    explicit probe(request what) : request_(std::move(what)), deadline_(steady::now() + request_.timeout)
    {
        std::array<char, 512> text{};
        check_readable();
        auto* configuration = configure();
        handle_ = rd_kafka_new(RD_KAFKA_CONSUMER, configuration, text.data(), text.size());
        if (!handle_) {
            rd_kafka_conf_destroy(configuration);
            throw unusable(text.data(), exit_unusable);
        }
        rd_kafka_set_log_queue(handle_, nullptr);
    }

    probe_answer ask()
    {
        if (const auto refusal = ask_topic()) return *refusal;
        if (const auto refusal = ask_group()) return *refusal;
        return {"accepted", "the broker lists topic " + request_.topic + " and the coordinator of group " +
                                request_.group};
    }

private:
    // librdkafka's own message about a file that it cannot open names neither the file nor the cause.
    void check_readable() const
    {
        if (!request_.ca_file.empty() && ::access(request_.ca_file.c_str(), R_OK) != 0)
            throw unusable("cannot read " + request_.ca_file + ": " + std::generic_category().message(errno),
                           exit_unusable);
    }

    // A path that only this process can open. The descriptor stays open until the process ends.
    static std::string in_memory(std::string_view content)
    {
        const int fd = memfd_create("pem", MFD_CLOEXEC);
        if (fd < 0 || ::write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size()))
            throw unusable("cannot create a file in memory: " + std::generic_category().message(errno),
                           exit_unusable);
        return "/proc/self/fd/" + std::to_string(fd);
    }

    rd_kafka_conf_t* configure()
    {
        auto* conf = rd_kafka_conf_new();
        const auto set = [&](const char* key, const std::string& value) {
            std::array<char, 512> text{};
            if (rd_kafka_conf_set(conf, key, value.c_str(), text.data(), text.size()) == RD_KAFKA_CONF_OK)
                return;
            rd_kafka_conf_destroy(conf);
            throw unusable(text.data(), exit_unusable);
        };
        set("bootstrap.servers", request_.broker);
        set("client.id", "exposure-agent-probe");
        set("security.protocol", "ssl");
        set("ssl.endpoint.identification.algorithm", "https");
        if (!request_.ca_file.empty()) set("ssl.ca.location", request_.ca_file);
        // as in-memory files: librdkafka 2.0 reads a whole chain only from a file
        set("ssl.key.location", in_memory(request_.key_pem));
        set("ssl.certificate.location", in_memory(request_.certificate_pem));
        set("allow.auto.create.topics", "false");
        set("enable.auto.commit", "false");
        set("reconnect.backoff.max.ms", "500");
        set("debug", "broker");  // reports the state changes of connections to connection_watch
        set("log.queue", "true");
        rd_kafka_conf_set_opaque(conf, &watch_);
        rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t* handle, int, const char*, const char* line) {
            static_cast<deploy::connection_watch*>(rd_kafka_opaque(handle))->logged(line);
        });
        rd_kafka_conf_set_error_cb(conf, [](rd_kafka_t*, int code, const char* reason, void* watch) {
            static_cast<deploy::connection_watch*>(watch)->reported(
                reason, code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN);
        });
        return conf;
    }

    // Topic metadata: needs Describe on the topic, which Read implies.
    std::optional<probe_answer> ask_topic()
    {
        const owned<rd_kafka_topic_t, rd_kafka_topic_destroy> topic{
            rd_kafka_topic_new(handle_, request_.topic.c_str(), nullptr)};
        if (!topic) throw unusable("\"topic\" is not a valid topic name", exit_usage);
        for (;;) {
            const rd_kafka_metadata_t* found = nullptr;
            const auto error = rd_kafka_metadata(handle_, 0, topic.get(), &found, slice.count());
            const owned<const rd_kafka_metadata_t, rd_kafka_metadata_destroy> metadata{found};
            if (!error && found->topic_cnt == 1) return judge_topic(found->topics[0].err);
            if (const auto end = give_up()) return end;
        }
    }

    std::optional<probe_answer> judge_topic(rd_kafka_resp_err_t error) const
    {
        switch (error) {
            case RD_KAFKA_RESP_ERR_NO_ERROR:
            case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:  // the topic exists, its leader is being elected
                return {};
            case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
                return probe_answer{
                    "not_authorized_topic",
                    "the broker accepts the certificate, but does not grant access to topic " +
                        request_.topic};
            default:
                return probe_answer{"not_authorized_topic",
                                    "the broker accepts the certificate, but does not list topic " +
                                        request_.topic + ": " + rd_kafka_err2str(error)};
        }
    }

    // Asks the group's coordinator to describe the group: needs Describe on the group, which
    // Read implies.
    std::optional<probe_answer> ask_group()
    {
        const owned<rd_kafka_queue_t, rd_kafka_queue_destroy> queue{rd_kafka_queue_new(handle_)};
        const owned<rd_kafka_AdminOptions_t, rd_kafka_AdminOptions_destroy> options{
            rd_kafka_AdminOptions_new(handle_, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS)};
        std::array<char, 512> text{};
        rd_kafka_AdminOptions_set_request_timeout(options.get(), std::max(1, remaining_ms()), text.data(),
                                                  text.size());
        std::array<const char*, 1> groups{request_.group.c_str()};
        rd_kafka_DescribeConsumerGroups(handle_, groups.data(), groups.size(), options.get(), queue.get());
        for (;;) {
            const owned<rd_kafka_event_t, rd_kafka_event_destroy> event{
                rd_kafka_queue_poll(queue.get(), slice.count())};
            if (event) return judge_group(event.get());
            if (const auto end = give_up()) return end;
        }
    }

    std::optional<probe_answer> judge_group(rd_kafka_event_t* event) const
    {
        auto code = rd_kafka_event_error(event);
        std::string reason = code ? rd_kafka_event_error_string(event) : "";
        if (!code) {
            std::size_t count = 0;
            const auto* result = rd_kafka_event_DescribeConsumerGroups_result(event);
            const auto** groups = rd_kafka_DescribeConsumerGroups_result_groups(result, &count);
            const auto* error = count == 1 ? rd_kafka_ConsumerGroupDescription_error(groups[0]) : nullptr;
            code = rd_kafka_error_code(error);
            reason = rd_kafka_error_string(error);
        }
        switch (code) {
            case RD_KAFKA_RESP_ERR_NO_ERROR:
            case RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND:  // Kafka 4 (KIP-1043): access is allowed, nobody has
                                                        // joined yet
                return {};
            case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
                return probe_answer{
                    "not_authorized_group",
                    "the broker accepts the certificate, but does not grant access to consumer group " +
                        request_.group};
            default:
                return probe_answer{"unreachable",
                                    "the broker accepts the certificate and lists topic " + request_.topic +
                                        ", but group " + request_.group +
                                        " has no coordinator yet, or it cannot be reached from here (" +
                                        reason + ", " + watch_.last() + ")"};
        }
    }

    int remaining_ms() const
    {
        return static_cast<int>(
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - steady::now()).count());
    }

    std::optional<probe_answer> give_up()
    {
        while (rd_kafka_poll(handle_, 0) > 0) {
        }
        if (const auto end = watch_.verdict()) return end;
        if (remaining_ms() > 0) return {};
        return probe_answer{"unreachable", "no answer within " + std::to_string(request_.timeout.count()) +
                                               " ms: " + watch_.last()};
    }

    request request_;
    steady::time_point deadline_;
    deploy::connection_watch watch_;
    rd_kafka_t* handle_ =
        nullptr;  // never destroyed: that may wait for a broker, and the process ends with _exit
};

int run()
{
    const auto what = parse(read_input());
    // hard deadline in case librdkafka hangs: SIGALRM ends the process
    ::alarm(static_cast<unsigned>(std::chrono::ceil<std::chrono::seconds>(what.timeout).count()) + 2);
    const auto found = probe(what).ask();
    std::cout << boost::json::serialize(
                     boost::json::object{{"verdict", found.verdict}, {"evidence", found.evidence}})
              << std::endl;
    return 0;
}

}  // namespace

int main(int argc, char** argv)
{
    // Keep the private key that is about to be read out of core dumps and debuggers.
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::prctl(PR_SET_DUMPABLE, 0);
    if (argc > 1) {
        if (std::string_view(argv[1]) != "--version") {
            std::cerr << "exposure-agent-probe: takes no arguments, only a JSON request on standard input\n";
            return exit_usage;
        }
        std::cout << "exposure-agent-probe, librdkafka " << rd_kafka_version_str() << '\n';
        return 0;
    }
    int code = exit_unusable;
    try {
        code = run();
    } catch (const unusable& error) {
        std::cerr << "exposure-agent-probe: " << error.what() << '\n';
        code = error.exit_code;
    }
    ::_exit(code);
}
