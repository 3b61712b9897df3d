#!/usr/bin/env python3
"""The agent's peak memory under every kind of hostile response to every operation: prints a table in Markdown.

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
USERS = [{"name": f"user-{n}", "consumer_group": "siem", "key": "ecdsa-p256"} for n in range(2)]
FAST = {"exposure": {"ready_delay_ms": 0, "instance_ready_delay_ms": 0}}

OPERATIONS = ("token", "list_instances", "list_users", "create_user", "get_user")
KINDS = {
    "1 GiB of blanks": {"huge_bytes": 1 << 30},
    "1 GiB without an end": {"huge_bytes": 1 << 30, "framing": "until-close"},
    "deep: 15 MiB of `[`": {"status": 200, "body": "[" * BODY},
    "a list of empty objects": {"status": 200, "body": '{"items":[' + "{}," * (BODY // 3) + "{}]}"},
    "a list of zeros": {"status": 200, "body": '{"items":[' + "0," * (BODY // 2) + "0]}"},
    "wide: one object of a million members": {
        "status": 200, "body": "{" + ",".join(f'"m{n}":0' for n in range(1_000_000)) + "}"},
    "one text of 15 MiB": {"status": 200, "body": '{"name":"' + "x" * BODY + '"}'},
    "silence": {"hang": "before"},
}


def peak(agent, *verb):
    with tempfile.NamedTemporaryFile("r") as report:
        subprocess.run([TIME, "-f", "%M", "-o", report.name, *agent.command(*verb)], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return int(report.read().split()[-1]) / 1024


def attacked(operation, effect):
    with harness.Simulator(FAST) as simulator, harness.Agent(simulator, users=USERS, network={"timeout": "3s"}) as agent:
        if operation in ("list_users", "get_user"):
            agent.run("reconcile", expect=0)
        if operation == "token":
            simulator.expire_tokens()
        simulator.fault(operation=operation, times=0, **effect)
        return peak(agent, "reconcile", "--timeout", "20s")


def crowded(count):
    with harness.Simulator(FAST) as simulator, harness.Agent(simulator, users=USERS) as agent:
        for first in range(0, count, 10_000):
            simulator.control("POST", "/users", {"variant": "log", "tenant": harness.TENANT,
                                                 "count": min(10_000, count - first)})
        return peak(agent, "reconcile", "--timeout", "120s")


def main():
    if TIME is None:
        sys.exit("memory.py: GNU time is not installed")
    worst = 0
    print(f"Peak resident memory of `reconcile`, {os.cpu_count()} cores, {platform.machine()}, "
          f"{platform.freedesktop_os_release()['PRETTY_NAME']}.\n")
    print("| answer | " + " | ".join(f"`{operation}`" for operation in OPERATIONS) + " |")
    print("| --- |" + " --- |" * len(OPERATIONS))
    for kind, effect in KINDS.items():
        peaks = [attacked(operation, effect) for operation in OPERATIONS]
        worst = max(worst, *peaks)
        print(f"| {kind} | " + " | ".join(f"{value:.1f} MiB" for value in peaks) + " |", flush=True)
    print("\n| users of others in the tenant | peak |\n| --- | --- |")
    for count in (0, 10_000, 70_000):
        value = crowded(count)
        worst = max(worst, value)
        print(f"| {count:,} | {value:.1f} MiB |", flush=True)
    if worst > chosen.limit:
        sys.exit(f"memory.py: {worst:.1f} MiB is above the limit of {chosen.limit:.0f} MiB")


if __name__ == "__main__":
    main()
