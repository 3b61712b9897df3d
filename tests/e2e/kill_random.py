"""Kills the real program at random moments, again and again, and looks at what it left.

    python3 tests/e2e/kill_random.py [--runs 1000] [--seed N]

Each run brings ten users up or rotates all ten, is killed once or more on its way, and is then left alone until it has
converged. Ends with 1 when a single run left something wrong; the seed repeats it (as far as moments can be repeated).
"""

import argparse
import random
import signal
import subprocess
import sys
import time

import harness
import survival

NAMES = [f"user-{number}" for number in range(10)]
NAMES_IN_FULL = [f"logs/{name}" for name in NAMES]
ROTATIONS = 9  # of one set of users, before the next is brought up
LONGEST_KILLS = 3  # one after another


class Tally:
    """What happened, for the line at the end."""

    def __init__(self):
        self.runs = self.kills = self.reads = 0
        self.faults = []

    def __str__(self):
        return (f"{self.runs} runs, {self.kills} kills, {self.reads} reads of the published pairs, "
                f"{len(self.faults)} faults")


def typical_time(agent, *arguments):
    start = time.monotonic()
    agent.run(*arguments, expect=0)
    return time.monotonic() - start


def run_and_kill(agent, dice, longest, *arguments):
    """True: it was killed; false: it had ended before."""
    process = agent.start(*arguments)
    try:
        process.wait(dice.uniform(0, longest))
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True


def one_run(agent, dice, longest, tally, *arguments):
    """What is wrong with how it ended; it counts when it was killed at least once."""
    kills = 0
    for number in range(dice.randint(1, LONGEST_KILLS)):
        if not run_and_kill(agent, dice, longest, *(arguments if number == 0 else ("reconcile",))):
            break
        kills += 1
    tally.kills += kills
    tally.runs += kills > 0
    ended = agent.run("reconcile")
    return [] if ended.returncode == 0 else [f"reconcile: exit {ended.returncode}: {ended.stderr}"]


def one_life(platform, dice, runs, times, tally):
    """Up to `runs` runs with one set of users."""
    with survival.scene(platform, NAMES) as (agent, watcher, strangers):
        agent.login()
        for number in range(runs):
            verb = ("rotate", *NAMES_IN_FULL) if number else ("reconcile",)
            said = one_run(agent, dice, times[verb[0]], tally, *verb)
            found = said + survival.faults_at_the_end(platform, agent, NAMES) + strangers.faults() + watcher.faults
            watcher.faults = []
            tally.faults += found
            for fault in found:
                print(f"run {tally.runs}: {fault}", file=sys.stderr)
            print(f"\r{tally}", end="", file=sys.stderr, flush=True)
        if again := survival.presented_again(platform):
            tally.faults.append(f"{again} times a refresh token was presented again")
        tally.reads += watcher.reads


def main():
    options = argparse.ArgumentParser(description="Kills the real program at random moments.")
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen = options.parse_args()
    print(f"seed {chosen.seed}")
    dice = random.Random(chosen.seed)
    tally = Tally()
    with harness.Simulator({"exposure": {"ready_delay_ms": 50, "instance_ready_delay_ms": 50}}) as platform:
        with survival.scene(platform, NAMES) as (agent, _, _):
            agent.login()
            times = {verb: typical_time(agent, verb, *names) for verb, names in
                     (("reconcile", []), ("rotate", NAMES_IN_FULL))}
        while tally.runs < chosen.runs:
            one_life(platform, dice, min(ROTATIONS + 1, chosen.runs - tally.runs), times, tally)
    print(f"\n{tally}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
