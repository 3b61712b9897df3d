#include "agent/deploy/connection_watch.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace deploy {
namespace {

constexpr int cut_off_limit = 2;  // one may be a coincidence, such as a broker that restarts

bool contains(std::string_view text, std::string_view part)
{
    return text.find(part) != std::string_view::npos;
}

// The number of the TLS alert in a message of librdkafka; 0 if there is none.
int alert_in(std::string_view reason)
{
    constexpr std::string_view lead = "SSL alert number ";
    const auto at = reason.find(lead);
    return at == std::string_view::npos ? 0
                                        : std::atoi(std::string(reason.substr(at + lead.size(), 3)).c_str());
}

// Alerts about the client's certificate (RFC 8446 section 6.2). A TLS 1.2 broker sends 40,
// handshake_failure, for a certificate or signature that it cannot use.
bool is_about_certificate(int alert)
{
    constexpr std::array numbers{40, 42, 43, 44, 45, 46, 48, 49, 51, 116};
    return std::ranges::find(numbers, alert) != numbers.end();
}

// "ssl://host:1/bootstrap: Receive failed: ../ssl/rec.c:1602:f error:0A:SSL routines::WHAT
// (after 5ms in ...)": drops the locations in OpenSSL's source, which mean nothing to a reader.
std::string cleaned(std::string_view reason)
{
    constexpr std::string_view lead = "SSL routines::";
    if (const auto end = reason.rfind(" (after "); end != std::string_view::npos)
        reason = reason.substr(0, end);
    if (const auto at = reason.rfind(lead); at != std::string_view::npos)
        reason.remove_prefix(at + lead.size());
    return std::string(reason);
}

}  // namespace

void connection_watch::reported(std::string_view reason, bool all_down)
{
    if (all_down) {
        all_down_ = true;  // its message only counts the brokers
        return;
    }
    last_ = cleaned(reason);
    if (contains(reason, "certificate verify failed")) distrust_ = last_;
    if (is_about_certificate(alert_in(reason))) alert_ = last_;
}

void connection_watch::logged(std::string_view line)
{
    if (contains(line, "-> APIVERSION_QUERY")) greeted_ = true;
    if (contains(line, "-> UP")) answered_ = true;
    if (contains(line, "APIVERSION_QUERY -> DOWN")) ++cut_offs_;
}

std::optional<probe_answer> connection_watch::verdict() const
{
    if (answered_) return {};
    if (!alert_.empty()) return probe_answer{"refused_tls", "the broker refused the certificate: " + alert_};
    if (!distrust_.empty())
        return probe_answer{"unreachable", "the broker's own certificate is not trusted (" + distrust_ +
                                               "); check broker_ca_file"};
    if (cut_offs_ >= cut_off_limit)
        return probe_answer{"refused_tls",
                            "the broker closed every connection right after the TLS handshake: " + last_};
    if (all_down_ && !greeted_) return probe_answer{"unreachable", "no broker could be reached: " + last_};
    return {};
}

}  // namespace deploy
