#pragma once

#include "policy/dates.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

// One line per event that matters. The shell logs (cli, service, reconcile), libraries return failures.

namespace io {

enum class severity { error, warning, info, debug };
enum class log_format { automatic, text, json, journal };

// What the event is about: a field each in the journal (EXPOSURE, EXPOSURE_USER, EXPOSURE_GENERATION) and in
// JSON.
struct log_subject {
    std::string exposure = {};
    std::string user = {};
    std::string generation = {};
};

// A kind of event with a fixed MESSAGE_ID (128-bit hex); see log_events.hpp.
struct log_event {
    std::string_view name;        // "rotated"
    std::string_view message_id;  // journal MESSAGE_ID
};

// Chooses sink and threshold once, at start. automatic: the native journal when stderr is the journal
// ($JOURNAL_STREAM against fstat, systemd.exec(5)), text on a terminal and elsewhere.
void configure_log(severity threshold, log_format);

bool log_enabled(severity) noexcept;

void log(severity, const log_event&, const log_subject&, std::string_view message,
         const std::map<std::string, std::string>& fields = {});
void log(severity, std::string_view message);

}  // namespace io

namespace io::events {

// --- The kinds of event. A MESSAGE_ID is for ever: `journalctl MESSAGE_ID=...` and people's alerts rely on
// it. Each was made once with `systemd-id128 new`.

// a new certificate is in use in place of an older one
inline constexpr log_event rotated{"rotated", "bb43b5d114e744f29bbc6f8a1a45a486"};
// the platform signed a certificate
inline constexpr log_event issued{"issued", "f1d3b80f20984b089cf5eab4925e8115"};
// the files of a generation are in place
inline constexpr log_event published{"published", "137886221e9149db8822de1101f9f376"};
// the hooks of a generation have passed
inline constexpr log_event deployed{"deployed", "420e667094954120b36fe6a9d52aa704"};
// a hook failed; it is repeated
inline constexpr log_event deploy_failed{"deploy_failed", "b0bf1c98cfae4d5aac3e7739e824c716"};
// the broker refused a certificate or could not be asked
inline constexpr log_event proof_failed{"proof_failed", "18c8fd6aac5f4de484093cce0a76fc2d"};
// the user that a newer one replaced is deleted on the platform
inline constexpr log_event retired{"retired", "5f57c3ecf1f645b78c9d40c240d9fe69"};
// a user that the file no longer names is deleted, with its files and keys
inline constexpr log_event removed{"removed", "a7401ff31f9c4cc7b3a5ecd9b6b97652"};
// a user of ours that the platform already had is taken over
inline constexpr log_event adopted{"adopted", "c36b168ea7334089a0dac105a327b588"};
// a change of the facts was written down (deleted by others, outdated, no longer named)
inline constexpr log_event noted{"noted", "e88e94c617ab4d66b7e549da1697c46e"};
// a service instance was created
inline constexpr log_event onboarded{"onboarded", "8305116c587946c189de0779582a77cd"};
// the platform, or the way to it, failed a step
inline constexpr log_event request_failed{"request_failed", "122508e0b5b04089a0d612f960333037"};
// the platform, or an exposure of it, answers again
inline constexpr log_event recovered{"recovered", "f9a1a87a38b140c884f00e7154be8103"};
// a user waits for a person
inline constexpr log_event blocked{"blocked", "bed6173665ac46a5a21f05adf9ef39ed"};
// what we know vanished: nothing is created or deleted until a person has looked
inline constexpr log_event incident{"incident", "96ceeea7a4c944b6b5a78f6ac4de6eba"};
// published files were damaged or gone and are in place again
inline constexpr log_event repaired{"repaired", "52feeb96db60453fbb4e0bbe2b4a2656"};
// a person has to log in
inline constexpr log_event login_required{"login_required", "0b3e7c3fef674f8ea58b467cc6510dcc"};
// new tokens by login
inline constexpr log_event logged_in{"logged_in", "6176da2ccf774b77887e10e2f38455ab"};
// new tokens by refresh
inline constexpr log_event refreshed{"refreshed", "8b9bddff033946b6842f02d49d4c245c"};
// no new tokens; the old access token is used as long as it lasts
inline constexpr log_event refresh_failed{"refresh_failed", "bd2f993681894a809b576819af63794b"};
// a changed value of a catalog credential is on disk
inline constexpr log_event credential_updated{"credential_updated", "a5c1fe92917549af9d48ff120a191d24"};
// a catalog credential could not be fetched or written
inline constexpr log_event credential_failed{"credential_failed", "c396ee758a3b41b186d96f1fe9ed4589"};
// this host is being decommissioned, is done with that, or stays
inline constexpr log_event decommissioned{"decommissioned", "7ab3c3ca5b2640aa9df7163f34eddebd"};
// a user that was made by hand is managed from now on
inline constexpr log_event imported{"imported", "aa09e49391174e2ea12b6b018b7c579e"};
// a notification was sent
inline constexpr log_event notified{"notified", "3e6c7f9a14a74b60b23fbd37d1056dc9"};
// a notification could not be sent; it is retried
inline constexpr log_event notify_failed{"notify_failed", "73455826f6174cabaca7f0c4893f38c9"};
// a configuration is in force
inline constexpr log_event configuration_loaded{"configuration_loaded", "70ca1d0c3053468e81357ad5e17dee49"};
// an edited configuration is wrong; the one before stays in force
inline constexpr log_event configuration_rejected{"configuration_rejected",
                                                  "b7fa49a3bbaa4664bcc40421a01c03f1"};
// the daemon runs
inline constexpr log_event started{"started", "7b4b784ab1a645f0878384624865711c"};
// the daemon was told to stop
inline constexpr log_event stopping{"stopping", "070597ae434c4109bd9a4900ddaf4ce8"};
// the daemon is done
inline constexpr log_event stopped{"stopped", "676d0922ca794b19b16fa5756b1e2459"};

}  // namespace io::events

namespace io {

// --- How a line of the log looks: pure, so that a table can test it.

struct log_record {
    severity level = severity::info;
    log_event event = {};  // of no kind: both empty
    log_subject subject = {};
    std::string_view message;
    std::map<std::string, std::string> fields = {};
};

// Foreign text made safe for a terminal, a line and JSON: control characters (C0, C1), line ends, characters
// that turn the direction of text (Unicode UAX #9) and bytes that are not UTF-8 become \xNN (\n, \r and \t
// as usual); everything else is as it was. Every output to people goes through it.
std::string printable(std::string_view untrusted);

// "2026-11-20T18:49:22Z warning: logs/siem-forwarder: message (serial=01)", no line end.
std::string text_line(const log_record&, policy::instant);

// The same without a time, the level in colour if wanted: for a terminal.
std::string terminal_line(const log_record&, bool colour);

// The same led by "<4>", sd-daemon(3): for a service whose standard error systemd reads.
std::string prefixed_line(const log_record&);

// One JSON object: time, level, event, exposure, user, generation, message, then the fields.
std::string json_line(const log_record&, policy::instant);

// "NAME=value" for sd_journal_sendv(3): MESSAGE, PRIORITY, MESSAGE_ID, EXPOSURE, EXPOSURE_USER,
// EXPOSURE_GENERATION, EXPOSURE_EVENT; a field `serial` becomes EXPOSURE_SERIAL.
std::vector<std::string> journal_fields(const log_record&);

}  // namespace io
