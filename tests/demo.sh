#!/usr/bin/env bash
# Shows the main job from start to finish against the bundled platform simulator, on this machine only. Installs missing
# packages, builds, works in a temporary directory, and leaves only the build behind.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/packages.sh

install_packages "${build_packages[@]}" "${demo_packages[@]}" --
if [ ! -e build/CMakeCache.txt ]; then
    launcher=()
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    fi
    cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF "${launcher[@]}" --log-level=WARNING
fi
cmake --build build -j "$(nproc)" --target exposure-agent exposure-agent-probe platform-simulator

exec 2>&1  # keep all output in order
PATH=$PWD/build:$PATH
demo=$(mktemp -d "${TMPDIR:-/tmp}/exposure-agent-demo-XXXXXX")
simulator=
finish() {
    local status=$?
    [ -z "$simulator" ] || { kill "$simulator" && wait "$simulator"; } || true
    cd / && rm -rf "$demo"
    [ $status = 0 ] || echo "The demo failed (exit $status)" >&2
}
trap finish EXIT
cd "$demo"

say() { printf '\n# %s\n' "$@"; }
run() {
    printf '$ %s\n' "$1"
    eval "$1"
}
fails_with() {
    local status=0
    run "$2" || status=$?
    printf '(exit %s)\n' "$status"
    [ "$status" = "$1" ]
}

say 'Start a simulated cloud platform: login server, event exposure services and certificate authority, over TLS.'
run 'platform-simulator --directory platform &'
simulator=$!
until [ -e platform/ready.json ]; do
    kill -0 "$simulator"
    sleep 0.1
done
platform=$(python3 -c 'import json; print(json.load(open("platform/ready.json"))["base_url"])')

say 'The complete configuration of the agent: where to log in, and who needs a certificate.'
(umask 077 && echo simulator-client-secret >client-secret)
cat >agent.yaml <<END
owner: demo
state_dir: $demo/state

identity:
  auth_url: $platform/SAAS/t/orion-123
  client_id: exposure-automation
  client_secret: {file: $demo/client-secret}

network: {ca_file: $demo/platform/ca.pem}

defaults:
  contact: team@example.com
  key: ecdsa-p256
  rotation: {retire_after: 2s}     # default 24h; shorter here, so that the demo does not wait

reconcile: {settle: 1s}

exposures:
  - name: logs
    variant: log
    base_url: $platform/les
    tenant: orion-123
    create_instance: true
    users:
      - name: siem-forwarder
        consumer_group: siem
        hooks:
          - command: [/bin/sh, -c, 'echo "\$EXPOSURE_USER reads generation \$EXPOSURE_GENERATION" >> $demo/consumer.log']
      - name: archive
        consumer_group: archive
END
chmod 0644 agent.yaml
run 'cat agent.yaml'
run 'exposure-agent -c agent.yaml check'

say 'The agent needs a login. A person logs in once, with a browser; in this demo, curl is the browser.'
fails_with 77 'exposure-agent -c agent.yaml plan'
echo '$ exposure-agent -c agent.yaml login'
coproc login { exec exposure-agent -c agent.yaml login 2>&1; }
login_pid=$login_PID
exec {answer}<&"${login[0]}" {question}>&"${login[1]}"
url=
while [ -z "$url" ] && IFS= read -r line <&"$answer"; do
    echo "$line"
    [[ $line != *https://* ]] || url=https://${line#*https://}
done
redirected=$(curl -sS --cacert platform/ca.pem -o /dev/null -w '%{redirect_url}' "$url")
IFS= read -r -d : prompt <&"$answer" && read -r -N 1 _ <&"$answer"
printf '%s: %s\n' "$prompt" "${redirected%%code=*}code=..."
printf '%s\n' "$redirected" >&"$question"
exec {question}>&-
cat <&"$answer"
wait "$login_pid"
run 'exposure-agent -c agent.yaml token'

say 'Show what would change, then apply it.'
run 'exposure-agent -c agent.yaml plan'
run 'exposure-agent -c agent.yaml reconcile'
run 'exposure-agent -c agent.yaml status'

say 'The certificate and its key, behind a link that is switched with one rename; a hook has notified the consumer.'
live=state/live/logs/siem-forwarder
run "ls -l $live $live/current/"
run "openssl x509 -in $live/current/cert.pem -noout -subject -enddate"
run 'cat consumer.log'

say 'Nothing is due now: a second pass changes nothing.'
run 'exposure-agent -c agent.yaml plan --detailed-exitcode'
run 'exposure-agent -c agent.yaml reconcile'

say 'Rotate now: a second user is created next to the one in use, and the hook notifies the consumer again.'
run 'exposure-agent -c agent.yaml rotate logs/siem-forwarder'
run 'cat consumer.log'
run 'exposure-agent -c agent.yaml explain logs/siem-forwarder'

say 'Everything is controlled by the configuration file. A mistake is reported with its position, and nothing changes.'
run "sed 's/consumer_group: archive/consumer_groop: archive/' agent.yaml > wrong.yaml"
fails_with 78 'exposure-agent -c wrong.yaml check'

say 'Remove one user and add another.'
run "sed -i 's/archive/audit/' agent.yaml"
fails_with 2 'exposure-agent -c agent.yaml plan --detailed-exitcode'
run 'exposure-agent -c agent.yaml reconcile'
run 'exposure-agent -c agent.yaml status'

say 'Replaced and removed users are kept for retire_after, so that a rollback is possible. Then they are deleted.'
run 'sleep 2'
run 'exposure-agent -c agent.yaml plan'
run 'exposure-agent -c agent.yaml reconcile'
run 'exposure-agent -c agent.yaml status --check'

say 'List what exists on the platform. Users that belong to others would be listed too, but are never changed.'
run 'exposure-agent -c agent.yaml instances'
run 'exposure-agent -c agent.yaml users'
[ "$(exposure-agent -c agent.yaml users -o json | grep -o '"remote_id"' | wc -l)" = 2 ]

say 'The platform also has a catalog. Show what an order for one of its items requires.'
cat >>agent.yaml <<END

catalog: {base_url: $platform}
END
run 'exposure-agent -c agent.yaml catalog template oracle-database --business-group group-1 | python3 -m json.tool'

say 'Order it and wait for the result. A key that the item does not have is rejected before anything is sent.'
fails_with 64 'exposure-agent -c agent.yaml catalog request oracle-database --business-group group-1 --set planNam=small'
run 'exposure-agent -c agent.yaml catalog request oracle-database --business-group group-1 --set planName=small --wait'

say 'Some values are shown only by the form of an action, such as the access keys of an object store.'
run 'exposure-agent -c agent.yaml action values bucket-1 show-keys provider-accessKeyID'

say 'The agent keeps such values in a file: when they change, it writes the file and runs the hooks.'
cat >>agent.yaml <<END

credentials:
  - name: backup-bucket
    resource: bucket-1
    action: show-keys
    elements: {ACCESS_KEY: provider-accessKeyID, SECRET_KEY: provider-secretAccessKey}
    interval: 12h
    output: {file: $demo/s3.env, format: env}
    hooks:
      - command: [/bin/sh, -c, 'echo "backup reads new keys" >> $demo/consumer.log']
END
run 'tail -n 9 agent.yaml'
run 'exposure-agent -c agent.yaml plan'
run 'exposure-agent -c agent.yaml reconcile'
run '(. ./s3.env && echo "the access key is $ACCESS_KEY")'
run 'tail -n 1 consumer.log'

say 'No change: the file is not touched. After the keys change on the platform, the next pass updates the file.'
written=$(stat -c '%i %y' s3.env)
run 'exposure-agent -c agent.yaml reconcile'
[ "$(stat -c '%i %y' s3.env)" = "$written" ]
control=$(python3 -c 'import json; print(json.load(open("platform/ready.json"))["control_url"])')
keys='{"provider-accessKeyID": "another-access-key", "provider-secretAccessKey": "another-secret-key"}'
curl -sS -f -o /dev/null -X PATCH -d "{\"catalog\": {\"elements\": $keys}}" "$control/behaviour"
run 'exposure-agent -c agent.yaml reconcile'
run '(. ./s3.env && echo "the access key is $ACCESS_KEY")'
run 'exposure-agent -c agent.yaml status'

say 'End of the demo. On a host, systemd runs this as the service exposure-agent: see README.md.'
