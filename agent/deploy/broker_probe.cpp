#include "agent/deploy/broker_probe.hpp"

#include "agent/deploy/hooks.hpp"
#include "agent/io/log.hpp"

#include <boost/json.hpp>

#include <array>
#include <filesystem>
#include <utility>

namespace deploy {
namespace {

using namespace std::chrono_literals;

constexpr auto time_to_answer = 20s;  // passed to the probe
constexpr auto deadline = 30s;        // after this the probe hangs and is killed

constexpr std::array<std::pair<std::string_view, verify_verdict>, 5> verdicts{{
    {"accepted", verify_verdict::accepted},
    {"refused_tls", verify_verdict::refused_tls},
    {"not_authorized_topic", verify_verdict::topic_not_granted},
    {"not_authorized_group", verify_verdict::group_not_granted},
    {"unreachable", verify_verdict::unreachable},
}};

std::string input_of(const verify_request& asked)
{
    boost::json::object request{{"broker", asked.broker},
                                {"ca_file", nullptr},
                                {"key_pem", asked.key_pem.view()},
                                {"certificate_pem", asked.certificate_pem},
                                {"topic", asked.topic},
                                {"group", asked.consumer_group},
                                {"timeout_ms", std::chrono::milliseconds(time_to_answer).count()}};
    if (asked.broker_ca_file) request["ca_file"] = *asked.broker_ca_file;
    return boost::json::serialize(request);
}

policy::failure could_not_ask(const verify_request& asked, const std::string& why)
{
    return {.code = policy::errc::probe_unreachable,
            .context = asked.exposure + "/" + asked.user + ": could not test the certificate with " +
                       asked.broker + ": " + why + "; keeping the current one"};
}

}  // namespace

std::string broker_probe::find_probe()
{
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    std::vector<std::string> places{"/usr/bin", "/usr/libexec"};
    if (!error) places.insert(places.begin(), self.parent_path().string());
    return find_program("exposure-agent-probe", places);
}

policy::result<verify_answer> parse_probe_answer(std::string_view line)
{
    const policy::failure strange{
        .code = policy::errc::bad_answer,
        .context =
            "exposure-agent-probe returned an invalid answer; are both programs the "
            "same version?"};
    boost::json::error_code error;
    const auto document = boost::json::parse(line, error);
    const auto* object = error ? nullptr : document.if_object();
    const auto* verdict = object ? object->if_contains("verdict") : nullptr;
    const auto* evidence = object ? object->if_contains("evidence") : nullptr;
    if (!verdict || !verdict->is_string() || !evidence || !evidence->is_string()) return strange;
    for (const auto& [word, meaning] : verdicts)
        if (verdict->get_string() == word)
            return verify_answer{meaning, io::printable(evidence->get_string())};
    return strange;
}

io::task<verify_answer> broker_probe::ask(verify_request asked)
{
    // the key goes through standard input only, so that neither arguments nor files show it
    // no environment: librdkafka needs none, and OpenSSL's variables must not take effect
    io::process_request request{
        .argv = {program_}, .environment = {}, .input = input_of(asked), .timeout = deadline};
    auto outcome = co_await process_.run(std::move(request));
    crypto::wipe(request.input);
    if (!outcome && outcome.error().code == policy::errc::stopping) co_return outcome.error();
    if (!outcome) co_return could_not_ask(asked, outcome.error().context);
    if (outcome->timed_out) co_return could_not_ask(asked, "exposure-agent-probe timed out and was killed");
    if (!outcome->ok()) co_return could_not_ask(asked, io::printable(outcome->err));
    auto answer = parse_probe_answer(outcome->out);
    if (!answer) co_return could_not_ask(asked, answer.error().context);
    co_return *answer;
}

}  // namespace deploy
