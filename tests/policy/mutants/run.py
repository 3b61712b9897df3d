#!/usr/bin/env python3
"""Breaks policy on purpose, in ten ways, and sees that the model test notices each.

 1 resend-at-once      a POST without an answer is repeated without looking at the list for the settle time
 2 foreign-owner       users with another owner's mark count as ours when they carry our key
 3 any-mark-is-ours    whoever's mark a known user carries by now, it is deleted
 4 retire-at-once      the old user goes without retire_after
 5 no-budget           max_creates_per_user is not counted
 6 lag-is-loss         a user that is not listed yet counts as deleted by somebody
 7 drop-sent-keys      a key whose request was sent is dropped when the file changes
 8 no-clone-guard      a copied state directory acts
 9 empty-is-absent     a known instance that is not listed is made anew
10 keep-doubles        a second user for the same key is never cleared up

    tests/policy/mutants/run.py           builds and runs them all, in a scratch copy (cmake, ninja, git; ccache
                                          where there is one); the unbroken code must be green, each mutant red
    tests/policy/mutants/run.py 4 7       these alone
    tests/policy/mutants/run.py --check   only that every patch still applies
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
STEPS = "1000000"

BUILD = """cmake_minimum_required(VERSION 3.22)
project(mutants CXX)
set(CMAKE_CXX_STANDARD 20)
file(GLOB sources policy/*.cpp tests/policy/model/*.cpp)
add_executable(model-test ${sources} tests/support/action_words.cpp)
target_include_directories(model-test PRIVATE ${CMAKE_SOURCE_DIR})
"""


def apply(patch, root, *options):
    return subprocess.run(["git", "apply", *options, str(patch)], cwd=root, capture_output=True, text=True)


def check(patches):
    stale = [(p, apply(p, ROOT, "--check")) for p in patches]
    stale = [(p, done.stderr) for p, done in stale if done.returncode]
    for patch, why in stale:
        print(f"{patch.name} does not apply any more: {why}", file=sys.stderr)
    return 1 if stale else 0


def copy(scratch):
    for part in ("policy", "tests/policy/model"):
        shutil.copytree(ROOT / part, scratch / part)
    (scratch / "tests/support").mkdir()
    for name in ("action_words.cpp", "action_words.hpp"):
        shutil.copy(ROOT / "tests/support" / name, scratch / "tests/support")
    (scratch / "CMakeLists.txt").write_text(BUILD)
    subprocess.run(["git", "init", "-q"], cwd=scratch, check=True)  # so that patches count from here
    configure = ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    if shutil.which("ccache"):
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(configure, cwd=scratch, check=True, stdout=subprocess.DEVNULL)


def run(scratch):
    """The model test's exit status and what it said last."""
    subprocess.run(["cmake", "--build", "build", "-j2"], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["build/model-test", "--steps", STEPS], cwd=scratch, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("replay:")]
    return done.returncode, lines[-1] if lines else "no word"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only that every patch still applies")
    parser.add_argument("numbers", nargs="*", type=int, help="these mutants alone")
    asked = parser.parse_args()
    patches = [p for p in sorted(HERE.glob("*.patch")) if not asked.numbers or int(p.name[:2]) in asked.numbers]
    if asked.check:
        return check(patches)

    wrong = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        scratch = pathlib.Path(name)
        copy(scratch)
        status, word = run(scratch)
        print(f"{'green' if status == 0 else 'RED: THE UNBROKEN CODE FAILS':9} control: {word}", flush=True)
        wrong += status != 0
        for patch in patches:
            applied = apply(patch, scratch)
            if applied.returncode:
                print(f"{patch.stem}: {applied.stderr}", flush=True)
                wrong += 1
                continue
            status, word = run(scratch)
            caught = status == 1 and word.startswith("BROKEN")
            print(f"{'red' if caught else 'SURVIVES':9} {patch.stem}: {word}", flush=True)
            wrong += not caught
            apply(patch, scratch, "--reverse")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("CCACHE_NOHASHDIR", "1")
    sys.exit(main())
