#!/bin/sh
# notify: {command: [/usr/local/lib/exposure-agent/mail.sh]}
# Sends e-mail over SMTP: in the service's sandbox, a local mailer cannot change its user. Requires jq and curl.
set -eu
server=${MAIL_SERVER:-smtp://mail.example.com} from=exposure-agent@example.com to=oncall@example.com
jq -r --arg from "$from" --arg to "$to" '
  "From: \($from)", "To: \($to)",
  "Subject: [\(.state)] \(.host): \(.message | .[0:120] | gsub("[\r\n]"; " "))",
  "Content-Type: text/plain; charset=utf-8", "",
  .message, (if .remedy == "" then empty else "On \(.host), run: \(.remedy)" end), "Since: \(.since)"' |
  curl --silent --show-error --fail --max-time 25 --crlf \
    --mail-from "$from" --mail-rcpt "$to" --upload-file - "$server"
