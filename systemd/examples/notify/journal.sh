#!/bin/sh
# notify: {command: [/usr/local/lib/exposure-agent/journal.sh]}
# Writes a journal entry with fields to search and alert on: journalctl NOTIFY_CASE=login. Requires jq and logger.
set -eu
jq -r '
  def line: gsub("[\r\n]"; " ");
  "MESSAGE=\(.state): \(.message | line)",
  "PRIORITY=\(if .state == "over" or .state == "test" then 5 else 2 end)",
  "SYSLOG_IDENTIFIER=exposure-agent-notify",
  "NOTIFY_STATE=\(.state)", "NOTIFY_CASE=\(.case)", "NOTIFY_SUBJECT=\(.subject | line)",
  "NOTIFY_REMEDY=\(.remedy | line)"' | logger --journald
