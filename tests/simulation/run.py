#!/usr/bin/env python3
"""Runs the simulation on several cores for a while and shows one coverage of all of it.

    tests/simulation/run.py PROGRAM --seconds 3600 --jobs 2 [--seed N] [-- further arguments for the simulation]

Every second job cuts the power at the end of each life. Exits with 1 if a history violated an invariant.
"""

import argparse
import collections
import os
import re
import subprocess
import sys

APART = 10_000_000  # seeds between two jobs


def command(arguments, job):
    steps = ["--power", "--steps", "1500"] if job % 2 else ["--steps", "4000"]
    return [arguments.program, "--seed", str(arguments.seed + job * APART), "--seconds", str(arguments.seconds),
            "--failures", "100", "--shrink", *steps, *arguments.further]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("further", nargs="*")
    arguments = parser.parse_args()
    running = [subprocess.Popen(command(arguments, job), stdout=subprocess.PIPE, text=True)
               for job in range(arguments.jobs)]
    outputs = [each.communicate()[0] for each in running]
    counted = collections.Counter()
    never = None
    beyond = set()
    histories = steps = 0
    for output in outputs:
        for line in output.splitlines():
            if found := re.fullmatch(r"(\d+)\t(?!reached: )(.*)", line):
                number, what = int(found[1]), found[2]
                counted[what] = max(counted[what], number) if what.startswith("most ") else counted[what] + number
            elif line.startswith("out of reach: "):
                beyond.add(line)
            elif line.startswith("never reached: "):
                words = set(line.removeprefix("never reached: ").split(", "))
                never = words if never is None else never & words
            elif found := re.match(r"(\d+) histories, (\d+) steps", line):
                histories, steps = histories + int(found[1]), steps + int(found[2])
            elif "\treached: " not in line:
                print(line)
    for what, number in sorted(counted.items()):
        print(f"{number}\t{what}")
    print("\n".join(sorted(beyond)))
    print(f"never reached: {', '.join(sorted(never or {'nothing'}))}")
    print(f"{histories} histories, {steps} steps, {steps // max(arguments.seconds, 1)} steps a second")
    return max(abs(each.returncode) for each in running)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
