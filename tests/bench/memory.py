#!/usr/bin/env python3
"""The agent's peak memory under every kind of hostile answer of every endpoint: prints a table in Markdown.

    tests/bench/memory.py [--build build] [--limit MIB]

Needs a Release build and GNU time. Exits with 1 if any peak is above the limit (default: 64 MiB).
"""

import argparse
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--build", default="build", help="directory of the built programs (default: build)")
options.add_argument("--limit", type=float, default=64, metavar="MIB")
chosen = options.parse_args()

os.environ["EXPOSURE_AGENT_BUILD"] = str(pathlib.Path(chosen.build).resolve())
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import harness  # noqa: E402

TIME = shutil.which("time")
MIB = 1 << 20
BODY = 15 * MIB
BATCH = 1_000  # users that the simulator makes within the harness's time limit
USERS = [{"name": f"user-{n}", "consumer_group": "siem", "key": "ecdsa-p256", "rotation": {"retire_after": "0s"}}
         for n in range(2)]
FAST = {"exposure": {"ready_delay_ms": 0, "instance_ready_delay_ms": 0}}

RECONCILE = ("reconcile", "--timeout", "20s")
REQUEST = ("catalog", "request", "item-1", "--business-group", "group-1", "--set", "planName=x")
# each endpoint, and the command that asks it
ENDPOINTS = {
    "token": RECONCILE, "list_instances": RECONCILE, "create_instance": RECONCILE, "get_instance": RECONCILE,
    "list_users": RECONCILE, "create_user": RECONCILE, "get_user": RECONCILE, "delete_user": RECONCILE,
    "action_form": ("action", "form", "resource-1", "action-1"), "action_values": RECONCILE,
    "catalog_template": REQUEST, "catalog_submit": REQUEST, "catalog_request": (*REQUEST, "--wait", "--timeout", "20s"),
}
CREDENTIAL = {"name": "bucket", "resource": "resource-1", "action": "action-1", "interval": "12h",
              "elements": {"ACCESS_KEY": "provider-accessKeyID", "SECRET_KEY": "provider-secretAccessKey"}}
KINDS = {
    "1 GiB of spaces": {"huge_bytes": 1 << 30},
    "1 GiB without an end": {"huge_bytes": 1 << 30, "framing": "until-close"},
    "deep: 15 MiB of `[`": {"status": 200, "body": "[" * BODY},
    "a list of empty objects": {"status": 200, "body": '{"items":[' + "{}," * (BODY // 3) + "{}]}"},
    "a list of zeros": {"status": 200, "body": '{"items":[' + "0," * (BODY // 2) + "0]}"},
    "wide: one object of a million members": {
        "status": 200, "body": "{" + ",".join(f'"m{n}":0' for n in range(1_000_000)) + "}"},
    "one text of 15 MiB": {"status": 200, "body": '{"name":"' + "x" * BODY + '"}'},
    "15 MiB in one header": {"status": 200, "headers": {"X-Filler": "x" * BODY}, "body": "{}"},
    "a byte every 10 ms": {"status": 200, "drip_ms": 10, "body": '{"items":[' + "{}," * 100_000 + "{}]}"},
    "silence": {"hang": "before"},
}


def peak(agent, *verb):
    with tempfile.NamedTemporaryFile("r") as report:
        subprocess.run([TIME, "-f", "%M", "-o", report.name, *agent.command(*verb)], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return int(report.read().split()[-1]) / 1024


def attacked(endpoint, effect):
    """The peak in MiB, none when the endpoint was not asked."""
    with harness.Simulator(FAST) as simulator, harness.Agent(simulator, users=USERS) as agent:
        agent.settings["network"]["timeout"] = "3s"
        agent.settings["catalog"] = {"base_url": simulator.base_url}
        if endpoint == "action_values":
            agent.settings["credentials"] = [{**CREDENTIAL, "output": {"file": str(agent.directory / "s3.env")}}]
        agent.write_config()
        if endpoint == "get_user":
            simulator.behave(exposure={"ready_delay_ms": 60_000})
        if endpoint == "get_instance":
            simulator.behave(exposure={"instance_ready_delay_ms": 60_000})
        if endpoint == "delete_user":
            harness.settle(agent)
            agent.settings["exposures"][0]["users"] = USERS[:1]
            agent.write_config()
        if endpoint == "token":
            simulator.expire_tokens()
        simulator.clear_requests()
        simulator.fault(operation=endpoint, times=0, **effect)
        reached = peak(agent, *ENDPOINTS[endpoint])
        return reached if endpoint in simulator.operations() else None


def crowded(count):
    with harness.Simulator(FAST) as simulator, harness.Agent(simulator, users=USERS) as agent:
        for _ in range(0, count, BATCH):
            simulator.control("POST", "/users", {"variant": "log", "tenant": harness.TENANT, "count": BATCH})
        return peak(agent, "reconcile", "--timeout", "120s")


def main():
    if TIME is None:
        sys.exit("memory.py: GNU time is not installed")
    worst = 0
    print(f"Peak resident memory of `reconcile`, {os.cpu_count()} cores, {platform.machine()}, "
          f"{platform.freedesktop_os_release()['PRETTY_NAME']}.\n")
    print(f"Every answer is given by each of {len(ENDPOINTS)} endpoints: {', '.join(ENDPOINTS)}.\n")
    print("| answer | highest peak | endpoint |\n| --- | --- | --- |")
    for kind, effect in KINDS.items():
        peaks = {endpoint: attacked(endpoint, effect) for endpoint in ENDPOINTS}
        if unasked := [endpoint for endpoint, value in peaks.items() if value is None]:
            sys.exit(f"memory.py: {kind}: nothing asked {', '.join(unasked)}")
        endpoint = max(peaks, key=peaks.get)
        worst = max(worst, peaks[endpoint])
        print(f"| {kind} | {peaks[endpoint]:.1f} MiB | `{endpoint}` |", flush=True)
    print("\n| users of others in the tenant | peak |\n| --- | --- |")
    for count in (0, 10_000, 70_000):
        value = crowded(count)
        worst = max(worst, value)
        print(f"| {count:,} | {value:.1f} MiB |", flush=True)
    if worst > chosen.limit:
        sys.exit(f"memory.py: {worst:.1f} MiB is above the limit of {chosen.limit:.0f} MiB")


if __name__ == "__main__":
    main()
