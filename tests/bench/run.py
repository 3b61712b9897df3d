#!/usr/bin/env python3
"""Benchmarks of the program against the bundled platform: prints a table in Markdown. Not a test, and not in ctest.

    cmake --build build --target exposure-agent platform-simulator bench-floor
    tests/bench/run.py [--build build] [--runs 20]

Needs a Release build and an otherwise idle machine. Times are medians of wall-clock time; memory is peak RSS. The floor
is tests/bench/floor.cpp: the same users issued by a program that does nothing else. Syncs are counted by strace(1).
"""

import argparse
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--build", default="build", help="directory of the built programs (default: build)")
options.add_argument("--runs", type=int, default=20, help="runs of what takes milliseconds; slower work gets fewer")
options.add_argument("--idle", type=int, default=60, metavar="SECONDS", help="how long idle daemons are watched; 0: not")
chosen = options.parse_args()

HERE = pathlib.Path(__file__).resolve().parent
os.environ["EXPOSURE_AGENT_BUILD"] = str(pathlib.Path(chosen.build).resolve())
sys.path.insert(0, str(HERE.parent / "e2e"))

import harness  # noqa: E402

FAST = {"exposure": {"ready_delay_ms": 0, "instance_ready_delay_ms": 0}}
TIME = shutil.which("time")  # GNU time: measures the memory of its child only, without Python's


def median(run, runs):
    """Median duration of run() in milliseconds."""
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken)


def call(command):
    """Runs the program with minimal overhead; a failure aborts the benchmark."""
    with open(os.devnull, "rb+") as nothing:
        process = os.posix_spawn(command[0], command, os.environ, file_actions=[
            (os.POSIX_SPAWN_DUP2, nothing.fileno(), stream) for stream in (0, 1, 2)])
        _, status = os.waitpid(process, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)}: wait status {status}")


def peak(command):
    """Peak resident memory in MiB; None without GNU time."""
    if TIME is None:
        return None
    with tempfile.NamedTemporaryFile("r") as report:
        subprocess.run([TIME, "-f", "%M", "-o", report.name, *command], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return int(report.read().split()[-1]) / 1024


def milliseconds(value):
    return f"{value:.1f} ms" if value < 100 else f"{value / 1000:.2f} s"


def row(work, duration, memory=None, remark=""):
    shown = "" if memory is None else f"{memory:.1f} MiB"
    print(f"| {work} | {milliseconds(duration) if duration is not None else ''} | {shown} | {remark} |", flush=True)


def users(count, key="ecdsa-p256"):
    return [{"name": f"user-{n:04}", "consumer_group": f"group-{n}", "key": key} for n in range(count)]


def start_up(simulator):
    program = str(harness.built("exposure-agent"))
    row("`--version`", median(lambda: call([program, "--version"]), chosen.runs), peak([program, "--version"]))
    with harness.Agent(simulator, users=users(10), login=False) as agent:
        command = agent.command("check")
        row("`check`, 10 users", median(lambda: call(command), chosen.runs), peak(command))


def nothing_due(simulator, count):
    with harness.Agent(simulator, users=users(count)) as agent:
        agent.run("reconcile", expect=0, timeout=600)
        files = [path for path in (agent.state_dir / "live").rglob("*") if path.is_file()]
        row(f"stat of the {len(files)} published files, in Python, for comparison",
            median(lambda: [path.stat() for path in files], chosen.runs))
        for verb in ("status", "plan", "reconcile"):
            command = agent.command(verb)
            call(command)
            simulator.clear_requests()
            call(command)
            requests = len(simulator.requests())
            row(f"`{verb}`, nothing due, {count:,} users", median(lambda: call(command), chosen.runs), peak(command),
                f"{requests} requests")
        if chosen.idle:
            idle(agent, count)
    simulator.reset()


def field(process, name):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(rf"(?m)^{name}:\s+(\d+)", text)[1])


def idle(agent, count):
    """A daemon after its first pass: memory, and wake-ups per minute."""
    process = agent.start("run")
    try:
        time.sleep(10)
        if process.poll() is not None:
            raise SystemExit((agent.directory / "agent.log").read_text())
        before = field(process, "voluntary_ctxt_switches")
        time.sleep(chosen.idle)
        wakes = (field(process, "voluntary_ctxt_switches") - before) * 60 / chosen.idle
        row(f"`run`, idle, {count:,} users", None, field(process, "VmRSS") / 1024, f"{wakes:.0f} wake-ups a minute")
    finally:
        process.terminate()
        process.wait(30)


def timed(command):
    """Milliseconds that one run takes."""
    start = time.perf_counter()
    call([str(part) for part in command])
    return (time.perf_counter() - start) * 1000


def floor(count):
    """Milliseconds for the floor program: the same users on an empty platform and an empty disk."""
    with harness.Simulator(FAST) as simulator, tempfile.TemporaryDirectory() as directory:
        token = pathlib.Path(directory) / "token"
        token.write_text(simulator.access_token())
        path = (f"{urllib.parse.urlsplit(simulator.service_url('log')).path}/api/v1/tenants/{harness.TENANT}"
                f"/instances/{simulator.put_instance()}/users")
        return timed([harness.built("tests/bench-floor"), f"127.0.0.1:{simulator.port}", simulator.ca_file, token, path,
                      f"logs-{harness.TENANT}-floor-", count, directory])


def agent(behaviour, count, key, before=()):
    """Milliseconds for the agent, without the login. before: a program that runs it."""
    with harness.Simulator(behaviour) as simulator, harness.Agent(simulator, users=users(count, key)) as host:
        taken = timed([*before, *host.command("reconcile")])
        ready = [user for user in simulator.users() if user["status"] == "READY"]
        if len(ready) != count:
            raise SystemExit(f"{len(ready)} users are READY, {count} were wanted")
        return taken


def syncs(count):
    """fsync(2) and fdatasync(2) calls for each issued user; None without strace."""
    tracer = shutil.which("strace")
    if tracer is None:
        return None
    with tempfile.NamedTemporaryFile("r") as trace:
        agent(FAST, count, "ecdsa-p256", [tracer, "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", trace.name])
        return sum("sync(" in line for line in trace) / count


def issue(behaviour, count, key, runs, work):
    row(work, statistics.median(agent(behaviour, count, key) for _ in range(runs)))


def against_the_floor(count, runs):
    """Both in turn, so that a machine that is slow for a while is slow for both."""
    pairs = [(floor(count), agent(FAST, count, "ecdsa-p256")) for _ in range(runs)]
    least, ours = (statistics.median(times) for times in zip(*pairs))
    row(f"issue {count} users, P-256: the floor", least)
    counted = syncs(count)
    row(f"issue {count} users, P-256", ours, None,
        f"{ours / least:.1f} x the floor" + ("" if counted is None else f"; {counted:.1f} syncs a user"))


def main():
    print(f"Medians on {os.cpu_count()} cores, {platform.machine()}, {platform.freedesktop_os_release()['PRETTY_NAME']}.\n")
    print("| work | time | peak memory | |\n| --- | --- | --- | --- |")
    with harness.Simulator(FAST) as simulator:
        start_up(simulator)
        for count in (100, 1000):
            simulator.behave(**FAST)
            nothing_due(simulator, count)
    against_the_floor(100, 5)
    issue(FAST, 100, "rsa-2048", 3, "issue 100 users, RSA 2048")
    issue(FAST, 10, "ecdsa-p256", 5, "issue 10 users, READY at once")
    issue({"exposure": {"ready_delay_ms": 200}}, 10, "ecdsa-p256", 5, "issue 10 users, READY after 200 ms")


if __name__ == "__main__":
    main()
