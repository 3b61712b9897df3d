"""Kills the real program repeatedly at random moments and checks what it left behind.

    python3 tests/e2e/kill_random.py [--kills 1000] [--seed N]

Each run creates ten users or rotates all ten, is killed at least once on the way, and is then left alone until it has
converged. Exits with 1 if any run left damage; the seed repeats it, as far as moments can be repeated.
"""

import argparse
import random
import signal
import subprocess
import sys
import time

import harness
import witness
from witness import OTHER, Fault

NAMES = [f"user-{number}" for number in range(10)]
NAMES_IN_FULL = [f"logs/{name}" for name in NAMES]
ROTATIONS = 9  # of one set of users, before the next set is created
LONGEST_KILLS = 3  # in a row
BEHAVIOUR = {"exposure": {"ready_delay_ms": 50, "instance_ready_delay_ms": 50}}


def typical_time(agent, *arguments):
    start = time.monotonic()
    agent.run(*arguments, expect=0)
    return time.monotonic() - start


def run_and_kill(agent, dice, longest, *arguments):
    """Returns whether it was killed before it ended."""
    process = agent.start(*arguments)
    try:
        process.wait(dice.uniform(0, longest))
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True


def one_run(platform, agent, dice, longest, tally, *arguments):
    """Returns the faults found; the run counts only if it was killed at least once."""
    kills = 0
    faults = []
    for number in range(dice.randint(1, LONGEST_KILLS)):
        if not run_and_kill(agent, dice, longest, *(arguments if number == 0 else ("reconcile",))):
            break
        kills += 1
        faults += witness.faults_at_any_time(platform, agent)
    tally.add(runs=kills > 0, injected=kills)
    ended = agent.run("reconcile")
    if ended.returncode != 0:
        faults.append(Fault(OTHER, f"reconcile: exit {ended.returncode}: {ended.stderr}"))
    return faults


def one_life(platform, dice, kills, times, tally, progress):
    """Uses one set of users, until the total number of kills is reached."""
    with witness.scene(platform, NAMES) as (agent, watcher, strangers):
        agent.login()
        for number in range(ROTATIONS + 1):
            if tally.injected >= kills:
                break
            verb = ("rotate", *NAMES_IN_FULL) if number else ("reconcile",)
            found = one_run(platform, agent, dice, times[verb[0]], tally, *verb)
            found += witness.faults_at_the_end(platform, agent, NAMES) + strangers.faults() + watcher.take_faults()
            tally.add(faults=found)
            progress(tally, found)
        tally.add(faults=witness.reused(platform, allowed=0))
        tally.reads += watcher.reads


def kill(kills, seed, progress):
    """Kills this many times; returns the tally."""
    dice = random.Random(seed)
    tally = witness.Tally()
    with harness.Simulator(BEHAVIOUR) as platform:
        with witness.scene(platform, NAMES) as (agent, _, _):
            agent.login()
            times = {verb: typical_time(agent, verb, *names) for verb, names in
                     (("reconcile", []), ("rotate", NAMES_IN_FULL))}
        while tally.injected < kills:
            one_life(platform, dice, kills, times, tally, progress)
    return tally


def show(tally, found):
    for fault in found:
        print(f"run {tally.runs}: {fault.kind}: {fault.text}", file=sys.stderr)
    print(f"\r{tally.injected} kills in {tally.runs} runs, {len(tally.faults)} faults ", end="", file=sys.stderr, flush=True)


def main():
    options = argparse.ArgumentParser(description="Kills the real program at random moments.")
    options.add_argument("--kills", type=int, default=1000)
    options.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen = options.parse_args()
    print(f"seed {chosen.seed}")
    tally = kill(chosen.kills, chosen.seed, show)
    print(f"\n{tally.injected} kills in {tally.runs} runs, {tally.reads} reads of the published pairs, "
          f"{len(tally.faults)} faults")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
