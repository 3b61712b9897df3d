#!/usr/bin/env python3
"""Applies one-line mutations to policy and checks that the model test catches each of them.

    tests/policy/mutants.py           builds and runs them all in a scratch copy (cmake, ninja, and ccache if
                                      installed); the unmodified code must pass, each mutant must fail
    tests/policy/mutants.py 4 7       only these
    tests/policy/mutants.py --check   only checks that the line of every mutant still exists
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = "1000000"

# Name, a piece of policy/*.cpp that occurs exactly once (whitespace is ignored), and its replacement.
MUTANTS = [
    ("resend-at-once: a POST without an answer is repeated before the settle time",
     "if (!f.seen || f.seen->observed_at < settled || !f.seen->is_complete())", "if (!f.seen)"),
    ("foreign-owner: users with another owner's marker count as ours when they carry our key",
     "if (it->second->mark->owner == f.owner && it->second->mark->name == f.have->name &&",
     "if (it->second->mark->name == f.have->name &&"),
    ("any-marker-is-ours: a known user is deleted whatever marker it carries by now",
     "return carries_marker(*user, f.owner, f.have->name, g);",
     "return true;"),
    ("retire-at-once: the old user goes without retire_after",
     "succeeded_at(f, g) + f.want->rotation.retire_after", "succeeded_at(f, g)"),
    ("no-budget: max_creates_per_user is not counted",
     "(spent_before || created_lately(f) >= f.wanted.reconcile.max_creates_per_user)", "spent_before"),
    ("lag-is-loss: a user that is not listed yet counts as deleted by somebody",
     "if (may_show_up(f, *f.pending)) {", "if (false) {"),
    ("drop-sent-keys: a key whose request was sent is dropped when the file changes",
     "unknown ? action_kind::discard : action_kind::abandon", "true ? action_kind::discard : action_kind::abandon"),
    ("no-clone-guard: a copied state directory acts",
     "if (!stored.cloned) return std::nullopt;", "return std::nullopt;"),
    ("empty-is-absent: a known instance that is not listed is created again",
     "!known.empty() && (seen.instances.empty() || seen.instances.front().id != known)",
     "!known.empty() && !seen.instances.empty() && seen.instances.front().id != known"),
    ("keep-doubles: a second user for the same key is never deleted",
     "add_surplus(f, g, found);", ""),
]

BUILD = """cmake_minimum_required(VERSION 3.22)
project(mutants CXX)
set(CMAKE_CXX_STANDARD 20)
file(GLOB sources policy/*.cpp tests/policy/model/*.cpp)
add_executable(model-test ${sources})
target_include_directories(model-test PRIVATE ${CMAKE_SOURCE_DIR})
"""


def places(root, piece):
    """Returns (file, match) for each occurrence of the piece, however it is wrapped."""
    # clang-format breaks lines between tokens, so whitespace between tokens is optional
    pattern = re.compile(r"\s*".join(re.escape(token) for token in re.findall(r"\w+|[^\w\s]", piece)))
    return [(path, found) for path in sorted((root / "policy").glob("*.cpp"))
            for found in pattern.finditer(path.read_text())]


def check(numbers):
    wrong = 0
    for number in numbers:
        name, piece, _ = MUTANTS[number - 1]
        found = places(ROOT, piece)
        if len(found) != 1:
            print(f"{number} {name}: its line stands {len(found)} times in policy/", file=sys.stderr)
            wrong = 1
    return wrong


def copy(scratch):
    for part in ("policy", "tests/policy/model"):
        shutil.copytree(ROOT / part, scratch / part)
    (scratch / "CMakeLists.txt").write_text(BUILD)
    configure = ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    if shutil.which("ccache"):
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(configure, cwd=scratch, check=True, stdout=subprocess.DEVNULL)


def run(scratch):
    """Builds, runs the model test and returns its exit status and last line."""
    subprocess.run(["cmake", "--build", "build", "-j2"], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["build/model-test", "--steps", STEPS], cwd=scratch, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("replay:")]
    return done.returncode, lines[-1] if lines else "no output"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only that every mutant still has its line")
    parser.add_argument("numbers", nargs="*", type=int, help="these mutants alone")
    asked = parser.parse_args()
    numbers = asked.numbers or range(1, len(MUTANTS) + 1)
    if asked.check:
        return check(numbers)

    wrong = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        scratch = pathlib.Path(name)
        copy(scratch)
        status, word = run(scratch)
        print(f"{'green' if status == 0 else 'RED: THE UNBROKEN CODE FAILS':9} control: {word}", flush=True)
        wrong += status != 0
        for number in numbers:
            name, piece, instead = MUTANTS[number - 1]
            (path, found), = places(scratch, piece)
            text = path.read_text()
            path.write_text(text[:found.start()] + instead + text[found.end():])
            status, word = run(scratch)
            caught = status == 1 and word.startswith("BROKEN")
            print(f"{'red' if caught else 'SURVIVES':9} {number} {name}: {word}", flush=True)
            wrong += not caught
            path.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("CCACHE_NOHASHDIR", "1")
    sys.exit(main())
