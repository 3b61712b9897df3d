"""Prints a table of what the program survives: injects every known kind of fault and counts the damage.

    python3 tests/e2e/survival.py [--only points|faults|kills|disk|window ...] [--kills 1000] [--stride 1] [--seed N]

Needs the programs in build/ and, for points and window, those with crash points in build-crash-points/
(tests/run.sh --with-crash-points builds both). Takes an hour on two cores. Exits with 1 if any damage was left, and
reports it on standard error.
"""

import argparse
import pathlib
import random
import statistics
import sys
import unittest

import harness
import kill_random
import test_crash_points
import test_disk
import test_faults
import witness

WITH_POINTS = harness.ROOT / "build-crash-points"
MEASURED = 50  # refreshes over which the window is measured


def show(text):
    print(f"\r{text}", end="    ", file=sys.stderr, flush=True)


def points(_):
    harness.BUILD = WITH_POINTS
    with harness.Simulator(harness.AT_ONCE) as platform:
        tally, _ = test_crash_points.live_through_all(platform, lambda at: show(" ".join(at.values())[:100]))
    return tally


def faults(chosen):
    dice = random.Random(chosen.seed)
    return test_faults.inject_all(chosen.stride, dice.randrange(chosen.stride), lambda case, _: show(f"{case}"))


def kills(chosen):
    return kill_random.kill(chosen.kills, chosen.seed, lambda tally, _: show(f"{tally.injected} kills"))


def disk(_):
    """Each test counts as one run; its faults are not told apart."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromModule(test_disk).run(result)
    tally = witness.Tally()
    wrong = [witness.Fault(witness.OTHER, f"{test}: {why}") for test, why in result.failures + result.errors]
    for test, why in result.skipped:
        print(f"skipped: {test}: {why}", file=sys.stderr)
    done = result.testsRun - len(result.skipped)
    tally.add(runs=done, injected=done, faults=wrong)
    return tally


PARTS = {
    "points": (points, "SIGKILL at every named crash point of login, refresh, onboarding, rotation, removal"),
    "faults": (faults, "a fault at every request of onboarding and rotation (ten kinds)"),
    "kills": (kills, "SIGKILL at a random moment while creating or rotating ten users"),
    "disk": (disk, "a directory that is full, read-only, owned by another user, missing, or already contains a foreign file"),
}


def table(tallies):
    columns = ["injected", "times", "runs", *witness.KINDS]
    lines = [columns, ["---"] * len(columns)]
    for name, tally in tallies.items():
        lines.append([PARTS[name][1], tally.injected, tally.runs, *map(tally.count, witness.KINDS)])
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def window():
    """Microseconds from the token endpoint's response to the file on stable storage, for refreshes by the program."""
    harness.BUILD = WITH_POINTS
    times = []
    with harness.Simulator(harness.AT_ONCE) as platform, harness.Agent(platform, users=["a"]) as agent:
        agent.run("reconcile", expect=0)
        for number in range(MEASURED):
            log = agent.directory / f"passed-{number}"
            agent.login()  # a refreshed token is not refreshed again within 30 s
            platform.expire_tokens()
            agent.run("reconcile", expect=0, environment={"EXPOSURE_AGENT_CRASH_LOG": str(log)})
            passed = test_crash_points.Passed(log)
            times.append(passed.microseconds(test_crash_points.RECEIVED, "token.answer.saved"))
    return (f"a kill costs a login within {statistics.median(times):.0f} us of each refresh (median of {MEASURED}; "
            f"shortest {min(times):.0f}, longest {max(times):.0f}): from the answer to its file being on stable storage")


def main():
    options = argparse.ArgumentParser(description="What the program survives, as a table.")
    options.add_argument("--only", nargs="+", choices=[*PARTS, "window"], default=[*PARTS, "window"])
    options.add_argument("--kills", type=int, default=1000)
    options.add_argument("--stride", type=int, default=1, help="faults at every so many requests")
    options.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen = options.parse_args()
    build = harness.BUILD
    needed = {build} | ({WITH_POINTS} if {"points", "window"} & set(chosen.only) else set())
    for directory in needed:
        if not (pathlib.Path(directory) / "exposure-agent").exists():
            sys.exit(f"{directory}/exposure-agent is not built: tests/run.sh --with-crash-points builds it")
    print(f"seed {chosen.seed}", file=sys.stderr)
    tallies = {}
    for name in PARTS:
        if name in chosen.only:
            harness.BUILD = build
            tallies[name] = PARTS[name][0](chosen)
            for fault in tallies[name].faults:
                print(f"\n{name}: {fault.kind}: {fault.text}", file=sys.stderr)
    if tallies:
        print(f"\n{table(tallies)}\n")
        print(f"{sum(tally.reads for tally in tallies.values())} reads of published pairs, while it was killed and cut off; "
              f"{sum(tally.relogins for tally in tallies.values())} logins repeated, all for answers that were lost")
    if "window" in chosen.only:
        print(window())
    return 1 if any(tally.faults for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
