#pragma once

#include "policy/dates.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

// One line per relevant event. Only cli, service and reconcile log; libraries return failures.

namespace io {

enum class severity { error, warning, info, debug };
enum class log_format { automatic, text, json, journal };

// What the event is about: one field each in the journal
// (EXPOSURE, EXPOSURE_USER, EXPOSURE_GENERATION) and in JSON.
struct log_subject {
    std::string exposure = {};
    std::string user = {};
    std::string generation = {};
};

// A kind of event with a fixed MESSAGE_ID (128-bit hex).
struct log_event {
    std::string_view name;        // "rotated"
    std::string_view message_id;  // journal MESSAGE_ID
};

// Sets sink and threshold, once at start. automatic: the native journal when stderr is the journal
// ($JOURNAL_STREAM compared with fstat, systemd.exec(5)), otherwise text.
void configure_log(severity threshold, log_format);

bool log_enabled(severity) noexcept;

void log(severity, const log_event&, const log_subject&, std::string_view message,
         const std::map<std::string, std::string>& fields = {});
void log(severity, std::string_view message);

}  // namespace io

namespace io::events {

// --- Kinds of event. A MESSAGE_ID must never change: `journalctl MESSAGE_ID=...` and users' alerts rely on
// it. Each was generated once with `systemd-id128 new`.

// a new certificate replaced an older one
inline constexpr log_event rotated{"rotated", "bb43b5d114e744f29bbc6f8a1a45a486"};
// the platform signed a certificate
inline constexpr log_event issued{"issued", "f1d3b80f20984b089cf5eab4925e8115"};
// the files of a first certificate, or of one that `rollback` returned to, are in place
inline constexpr log_event published{"published", "137886221e9149db8822de1101f9f376"};
// the hooks of a generation have succeeded
inline constexpr log_event deployed{"deployed", "420e667094954120b36fe6a9d52aa704"};
// a hook failed and will be retried
inline constexpr log_event deploy_failed{"deploy_failed", "b0bf1c98cfae4d5aac3e7739e824c716"};
// the broker rejected a certificate or could not be reached
inline constexpr log_event proof_failed{"proof_failed", "18c8fd6aac5f4de484093cce0a76fc2d"};
// a replaced user was deleted on the platform
inline constexpr log_event retired{"retired", "5f57c3ecf1f645b78c9d40c240d9fe69"};
// a user removed from the configuration was deleted, with its files and keys
inline constexpr log_event removed{"removed", "a7401ff31f9c4cc7b3a5ecd9b6b97652"};
// an existing user of ours on the platform was adopted
inline constexpr log_event adopted{"adopted", "c36b168ea7334089a0dac105a327b588"};
// a change was recorded (deleted by others, outdated, no longer configured)
inline constexpr log_event noted{"noted", "e88e94c617ab4d66b7e549da1697c46e"};
// a service instance was created
inline constexpr log_event onboarded{"onboarded", "8305116c587946c189de0779582a77cd"};
// a step failed because of the platform or the connection to it
inline constexpr log_event request_failed{"request_failed", "122508e0b5b04089a0d612f960333037"};
// the platform, or one of its exposures, answers again
inline constexpr log_event recovered{"recovered", "f9a1a87a38b140c884f00e7154be8103"};
// a user waits for action by a person
inline constexpr log_event blocked{"blocked", "bed6173665ac46a5a21f05adf9ef39ed"};
// known objects vanished: nothing is created or deleted until a person has checked
inline constexpr log_event incident{"incident", "96ceeea7a4c944b6b5a78f6ac4de6eba"};
// damaged or missing published files were restored
inline constexpr log_event repaired{"repaired", "52feeb96db60453fbb4e0bbe2b4a2656"};
// a person must log in
inline constexpr log_event login_required{"login_required", "0b3e7c3fef674f8ea58b467cc6510dcc"};
// new tokens from a login
inline constexpr log_event logged_in{"logged_in", "6176da2ccf774b77887e10e2f38455ab"};
// new tokens from a refresh
inline constexpr log_event refreshed{"refreshed", "8b9bddff033946b6842f02d49d4c245c"};
// no new tokens; the current access token is used until it expires
inline constexpr log_event refresh_failed{"refresh_failed", "bd2f993681894a809b576819af63794b"};
// a changed catalog credential was written to disk
inline constexpr log_event credential_updated{"credential_updated", "a5c1fe92917549af9d48ff120a191d24"};
// a catalog credential could not be fetched or written
inline constexpr log_event credential_failed{"credential_failed", "c396ee758a3b41b186d96f1fe9ed4589"};
// decommissioning of this host started, finished or was cancelled
inline constexpr log_event decommissioned{"decommissioned", "7ab3c3ca5b2640aa9df7163f34eddebd"};
// a user created by hand is now managed
inline constexpr log_event imported{"imported", "aa09e49391174e2ea12b6b018b7c579e"};
// a notification was sent
inline constexpr log_event notified{"notified", "3e6c7f9a14a74b60b23fbd37d1056dc9"};
// a notification could not be sent and will be retried
inline constexpr log_event notify_failed{"notify_failed", "73455826f6174cabaca7f0c4893f38c9"};
// a configuration is in effect
inline constexpr log_event configuration_loaded{"configuration_loaded", "70ca1d0c3053468e81357ad5e17dee49"};
// an edited configuration is invalid; the previous one stays in effect
inline constexpr log_event configuration_rejected{"configuration_rejected",
                                                  "b7fa49a3bbaa4664bcc40421a01c03f1"};
// the daemon is running
inline constexpr log_event started{"started", "7b4b784ab1a645f0878384624865711c"};
// the daemon was told to stop
inline constexpr log_event stopping{"stopping", "070597ae434c4109bd9a4900ddaf4ce8"};
// the daemon has finished
inline constexpr log_event stopped{"stopped", "676d0922ca794b19b16fa5756b1e2459"};

}  // namespace io::events

namespace io {

// --- Formatting of log lines: pure, so that a table can test it.

struct log_record {
    severity level = severity::info;
    log_event event = {};  // unset: both members are empty
    log_subject subject = {};
    std::string_view message;
    std::map<std::string, std::string> fields = {};
};

// Makes foreign text safe for a terminal, a line and JSON: control characters (C0, C1), line endings,
// characters that change text direction (Unicode UAX #9) and bytes that are not UTF-8 become \xNN (\n, \r and
// \t as usual); the rest is unchanged. All output to people goes through it.
std::string printable(std::string_view untrusted);

// "2026-11-20T18:49:22Z warning: logs/siem-forwarder: message (serial=01)", without a line end.
std::string text_line(const log_record&, policy::instant);

// The same without a time, optionally with the level in colour: for a terminal.
std::string terminal_line(const log_record&, bool colour);

// The same with the prefix "<4>", sd-daemon(3): for a service whose standard error goes to systemd.
std::string prefixed_line(const log_record&);

// One JSON object: time, level, event, exposure, user, generation, message, then the fields.
std::string json_line(const log_record&, policy::instant);

// "NAME=value" for sd_journal_sendv(3): MESSAGE, PRIORITY, MESSAGE_ID, EXPOSURE, EXPOSURE_USER,
// EXPOSURE_GENERATION, EXPOSURE_EVENT; the field `serial` becomes EXPOSURE_SERIAL.
std::vector<std::string> journal_fields(const log_record&);

}  // namespace io
