#!/usr/bin/env python3
"""A soak test of the daemon against the bundled platform: memory and descriptors must stay flat.

    tests/bench/soak.py [--build build] [--hours 24] [--users 200] [--acceleration 120]

`run` manages users whose certificates are valid for a few hours, so they are rotated and retired continuously. All
times on the platform and in the file are divided by the acceleration: 24 hours take 12 minutes. Samples /proc/PID,
prints a table in Markdown, and exits with 1 if something grew after the warm-up or did not work.
"""

import argparse
import os
import pathlib
import platform
import re
import statistics
import sys
import time

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--build", help="directory of the built programs (default: $EXPOSURE_AGENT_BUILD, or build)")
options.add_argument("--hours", type=float, default=24, help="simulated")
options.add_argument("--users", type=int, default=200)
options.add_argument("--acceleration", type=float, default=120, help="simulated seconds in one of ours")
options.add_argument("--lifetime", type=float, default=6, metavar="HOURS", help="of a certificate, simulated")
options.add_argument("--warm-up", type=float, default=0.25, metavar="SHARE", help="of the time")
options.add_argument("--growth", type=float, default=1, metavar="MIB", help="of resident memory, that is no growth")
options.add_argument("--samples", metavar="FILE", help="every sample, as CSV")
chosen = options.parse_args()

HERE = pathlib.Path(__file__).resolve().parent
if chosen.build:
    os.environ["EXPOSURE_AGENT_BUILD"] = str(pathlib.Path(chosen.build).resolve())
sys.path.insert(0, str(HERE.parent / "e2e"))

import harness  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
SAMPLES = 400  # in total


def short(hours):
    """Converts simulated hours to whole real seconds, the unit of the file and the platform."""
    return max(1, round(hours * 3600 / chosen.acceleration))


def users():
    """Users renewed at 20 % to 60 % of the lifetime, so that rotations are spread over the whole run."""
    return [{"name": f"user-{n:03}", "consumer_group": f"group-{n}",
             "rotation": {"renew_before": f"{20 + n % 41}%", "retire_after": f"{short(chosen.lifetime / 6)}s"}}
            for n in range(chosen.users)]


class Sample:
    """The daemon's current figures from /proc."""

    def __init__(self, pid):
        proc = pathlib.Path(f"/proc/{pid}")
        status = (proc / "status").read_text()
        self.at = time.monotonic()
        self.memory = int(re.search(r"(?m)^VmRSS:\s+(\d+)", status)[1]) / 1024
        self.threads = int(re.search(r"(?m)^Threads:\s+(\d+)", status)[1])
        self.descriptors = len(os.listdir(proc / "fd"))
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        self.processor = (int(fields[11]) + int(fields[12])) / TICKS
        self.wakes = sum(int(re.search(r"(?m)^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text())[1])
                         for task in (proc / "task").iterdir())


def watch(simulator, agent, daemon):
    """Takes samples until the end of the run."""
    span = chosen.hours * 3600 / chosen.acceleration
    samples = []
    end = time.monotonic() + span
    while time.monotonic() < end:
        time.sleep(span / SAMPLES)
        if daemon.poll() is not None:
            raise SystemExit(f"the daemon ended with {daemon.returncode}\n{(agent.directory / 'agent.log').read_text()}")
        samples.append(Sample(daemon.pid))
        simulator.clear_requests()
    return samples


def growth(values, middle):
    """Growth from the first quarter to the last."""
    quarter = len(values) // 4
    return middle(values[-quarter:]) - middle(values[:quarter])


def rotations(agent):
    counted = {"success": 0, "failure": 0}
    for result, count in re.findall(r'rotations_total\{.*result="(\w+)"\} (\d+)',
                                    (agent.directory / "metrics.prom").read_text()):
        counted[result] += int(count)
    return counted


def report(samples, counted):
    first, last = samples[0], samples[-1]
    minutes = (last.at - first.at) / 60
    memory = [s.memory for s in samples]
    used = last.processor - first.processor
    print(f"{os.cpu_count()} cores, {platform.machine()}, {platform.freedesktop_os_release()['PRETTY_NAME']}: "
          f"{chosen.hours:g} simulated hours of {chosen.users} users in {minutes / (1 - chosen.warm_up):.0f} minutes; "
          f"after the warm-up:\n")
    print("| | |\n| --- | --- |")
    print(f"| certificates put in use since the start | {counted['success']} |")
    print(f"| resident memory | {min(memory):.1f} to {max(memory):.1f} MiB, {growth(memory, statistics.median):+.2f} |")
    print(f"| descriptors | {min(s.descriptors for s in samples)} to {max(s.descriptors for s in samples)} |")
    print(f"| threads | {max(s.threads for s in samples)} |")
    print(f"| processor | {used:.1f} s, {100 * used / (60 * minutes):.1f} % of one core |")
    print(f"| wake-ups of all threads | {(last.wakes - first.wakes) / (60 * minutes):.0f} a second |", flush=True)


# At most this many connections are kept for reuse (network.connections), and how many are open at a given moment
# varies; a leak of one per rotation would add dozens.
KEPT_CONNECTIONS = 8


def complaints(samples, counted):
    """Yields what a healthy daemon would not show."""
    memory = growth([s.memory for s in samples], statistics.median)
    if memory > chosen.growth:
        yield f"resident memory grew by {memory:.2f} MiB"
    # between passes only long-lived descriptors are open: the minimum tells a leak from a busy moment
    descriptors = growth([s.descriptors for s in samples], min)
    if descriptors > KEPT_CONNECTIONS:
        yield f"{descriptors} descriptors more are open than before"
    if growth([s.threads for s in samples], max) > 0:
        yield "there are more threads than before"
    if counted["failure"] > 0:
        yield f"{counted['failure']} steps towards a new certificate failed"
    expected = int(chosen.users * chosen.hours / chosen.lifetime)  # each is renewed by its expiry at the latest
    if counted["success"] < expected:
        yield f"{counted['success']} certificates were put in use, at least {expected} were due"


def main():
    behaviour = {"oauth": {"access_token_lifetime_s": short(4)},
                 "exposure": {"ready_delay_ms": 200, "instance_ready_delay_ms": 0,
                              "certificate": {"lifetime_s": short(chosen.lifetime), "not_before_offset_s": 0}}}
    with harness.Simulator(behaviour) as simulator, harness.Agent(simulator, users=users()) as agent:
        agent.settings["reconcile"] = {"interval": f"{short(0.25)}s", "settle": "1s", "max_deletes": chosen.users,
                                       "max_creates_per_user": 1000}
        agent.settings["metrics"] = {"textfile": str(agent.directory / "metrics.prom")}
        agent.write_config()
        daemon = agent.start("run")
        try:
            samples = watch(simulator, agent, daemon)
            left = len(simulator.users())
        finally:
            daemon.terminate()
            code = daemon.wait(60)
        if chosen.samples:
            pathlib.Path(chosen.samples).write_text("memory,descriptors,threads,processor,wakes\n" + "".join(
                f"{s.memory:.2f},{s.descriptors},{s.threads},{s.processor:.2f},{s.wakes}\n" for s in samples))
        counted = rotations(agent)
        steady = samples[int(len(samples) * chosen.warm_up):]
        report(steady, counted)
        found = list(complaints(steady, counted))
        if left > 2 * chosen.users:
            found.append(f"{left} users are left on the platform: they are not retired")
        if code != 0:
            found.append(f"the daemon ended with {code}")
        if found:
            log = (agent.directory / "agent.log").read_text().splitlines()
            print("\n" + "\n".join(found + ["the end of its log:"] + log[-20:]), file=sys.stderr)
        return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
