#!/usr/bin/env python3
"""Applies one-line mutations to the shipped code and checks that the simulation catches each of them.

    tests/simulation/mutants.py           builds and runs them all in a scratch copy (cmake, ninja; ccache and mold
                                          if installed); the unmodified code must pass, each mutant must fail
    tests/simulation/mutants.py 4 7       only these
    tests/simulation/mutants.py --check   only checks that the line of every mutant still exists
    --scratch DIRECTORY                   keeps the copy there for the next run
    --seed N                              starts with another history
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A mutant runs until the first history that fails; what needs a power cut starts with those.
PLAIN = ["--histories", "120", "--steps", "2500", "--seconds", "900"]
POWER = ["--power", "--histories", "100", "--steps", "1500", "--seconds", "900"]

# Name, file, a piece that occurs there exactly once (whitespace is ignored), and its replacement. A fifth field: the
# runs that catch it first.
MUTANTS = [
    ("resend-at-once: a POST without an answer is repeated before the settle time", "policy/checks.cpp",
     "if (!f.seen || f.seen->observed_at < settled || !f.seen->is_complete())", "if (!f.seen)"),
    ("keep-doubles: a second user for the same key is never deleted", "policy/checks.cpp",
     "add_surplus(f, g, found);", ""),
    ("retire-before-hooks: the old user goes although the hooks have not passed", "policy/checks.cpp",
     "return f.current && f.current->deployed_at && in_order;", "return f.current && in_order;"),
    ("retire-nothing: what was replaced stays for ever", "policy/checks.cpp",
     "if (auto rule = leftover(f, g)) found.push_back(std::move(*rule));", ""),
    ("intent-after-post: the intent is stored after the request", "agent/reconcile/execute.cpp",
     "if (auto saved = co_await record(a, std::move(intent)); !saved) co_return saved.error();\n"
     "    io::crash_point(\"submit.intent-kept\");", "state_.user(held_, a.name).find(before.id)->submitted_at = now();"),
    ("forgotten-key: the key is not stored with the generation", "agent/reconcile/execute.cpp",
     "with.keys.push_back({a.name, fresh.id, std::move(key->pem), key->csr_pem});", "static_cast<void>(with.keys);"),
    ("doubled-post: the request is sent twice", "agent/reconcile/execute.cpp",
     "io::crash_point(\"submit.answered\");",
     "static_cast<void>(co_await state_.outside().api.create_user(address_of(exposure), sent.where.instance_id, "
     "sent.sent, group_for(exposure), *body));"),
    ("no-commit: what is written is rolled back", "agent/disk/state_database.cpp",
     "if (done) done = writer_->run(\"COMMIT\");", "if (done) done = writer_->run(\"ROLLBACK\");"),
    ("never-written: a commit is said to be done and is not", "agent/disk/state_database.cpp",
     "const auto together = write_with_reserve(all);", "const result<void> together;"),
    ("no-file-sync: a file is not synced before its rename", "agent/disk/files.cpp",
     "if (fsync(fd) != 0) return cannot(\"sync\", path);", "", POWER),
    ("no-directory-sync: a rename is not synced", "agent/disk/files.cpp",
     "io::crash_point(\"disk.rename.after\");\n    return where.sync();",
     "io::crash_point(\"disk.rename.after\");\n    return {};", POWER),
    ("no-stage-sync: a staged directory is not synced before its rename", "agent/disk/publisher.cpp",
     "if (auto synced = staged->sync(); !synced) return synced;", "", POWER),
    ("link-first: `current` moves before the files are there", "agent/disk/publisher.cpp",
     "const bool there = published.has(from.what.generation);",
     "if (auto early = replace_link(published, current_name, from.what.generation); !early) return early.error();\n"
     "    const bool there = published.has(from.what.generation);"),
    ("synchronous-off: the database trusts the page cache", "agent/disk/sqlite.cpp",
     "\"PRAGMA synchronous=FULL\", \"PRAGMA secure_delete=ON\"", "\"PRAGMA synchronous=OFF\", \"PRAGMA secure_delete=ON\"", POWER),
    ("token-intent: a refresh is not noted before it is sent", "agent/platform/oauth.cpp",
     "const auto saved = co_await save_before_sending();\n        exchange_outcome outcome",
     "const policy::result<void> saved;\n        exchange_outcome outcome"),
    ("token-not-spent: what was exchanged counts as unused", "agent/platform/oauth.cpp",
     "else\n                record_.at(print).spent = true;", "else\n                record_.forget(print);"),
    ("token-unsaved: the answer to a refresh is kept in memory alone", "agent/platform/oauth.cpp",
     "auto saved = co_await save();\n    for (const auto pause : save_pauses) {",
     "policy::result<void> saved;\n    for (const auto pause : save_pauses) {"),
    ("lost-wake: a verb wakes nobody", "agent/service/exposure_tasks.cpp",
     "if (exposures.empty() || exposures.contains(name)) each->again.wake();",
     "static_cast<void>(name), static_cast<void>(each);"),
    ("sleeps-on: after a pass nothing is looked at before the interval is over, twenty times", "agent/service/exposure_tasks.cpp",
     "milliseconds wait = until_next;\n    const auto at_latest", "milliseconds wait = until_next * 20; return wait;\n    const auto at_latest"),
    ("deaf-timer: a timer that is due first does not wake the loop", "agent/service/tasks.cpp",
     "if (place->steady_due < timer_.expiry()) timer_.cancel();", ""),
    ("swapped-due: what is due is taken for what is not", "agent/service/tasks.cpp",
     "return steady::now() >= e.steady_due || wall_now_() >= e.wall_due;",
     "return steady::now() < e.steady_due;"),
    ("stale-configuration: a changed file is not given to the passes", "agent/service/application.cpp",
     "p.state->replace_desired(desired);", ""),
    ("edit-not-followed: an edit is never noticed", "agent/service/configuration.cpp",
     "burst_.happened(clock::now());\n    changed_();", "burst_.happened(clock::now());"),
    ("stop-unheard: a stop does not end the waiting", "agent/service/tasks.cpp",
     "for (auto& each : waiting_)\n        each.event->set();", ""),
    ("no-lock: two passes work on an exposure at the same time", "agent/reconcile/state.cpp",
     "auto turn = co_await turns_.try_emplace(exposure, executor).first->second.acquire();",
     "static std::list<io::async_lock> own; auto turn = co_await own.emplace_back(executor).acquire();"),
    ("marker-unread: a user of another owner counts as ours", "policy/facts.cpp",
     "return carries_marker(*user, f.owner, f.have->name, g);", "return true;"),
    ("hooks-unrun: hooks count as passed", "agent/deploy/hooks.cpp",
     "if (!outcome->ok()) co_return failed(run, index, ending_and_words(*outcome, hook.timeout));", ""),
    ("budget-off-by-all: no budget of creations", "policy/checks.cpp",
     "created_lately(f) >= f.wanted.reconcile.max_creates_per_user", "created_lately(f) < 0"),
    ("one-404-is-enough: a part of a list and one 404 make a user vanish", "agent/reconcile/observe.cpp",
     "if (lacks && seen.cut_off) continue;", ""),
    ("hooks-end-unheard: who waits for running hooks is not woken", "agent/reconcile/state.cpp",
     "if (ended && ended.mapped()) ended.mapped()->set();", ""),
    ("foreign-owner: a marker counts as ours whoever owns it", "policy/facts.cpp",
     "return user.mark->owner == owner && user.mark->name == name &&", "return user.mark->name == name &&"),
    ("retire-at-once: the old user goes without retire_after", "policy/checks.cpp",
     "succeeded_at(f, g) + f.want->rotation.retire_after", "succeeded_at(f, g)"),
    ("lag-is-loss: a user that is not shown yet counts as deleted by somebody", "policy/checks.cpp",
     "if (may_show_up(f, *f.pending)) {", "if (false) {"),
    ("drop-sent-keys: a key whose request was sent is dropped when the file changes", "policy/checks.cpp",
     "unknown ? action_kind::discard : action_kind::abandon", "true ? action_kind::discard : action_kind::abandon"),
    ("no-clone-guard: a copied state directory acts", "policy/guard.cpp",
     "if (!stored.cloned) return std::nullopt;", "return std::nullopt;"),
    ("empty-is-absent: a known instance that is not listed is created again", "policy/guard.cpp",
     "!known.empty() && (seen.instances.empty() || seen.instances.front().id != known)",
     "!known.empty() && !seen.instances.empty() && seen.instances.front().id != known"),
    ("paused-replace: a paused rotation with strategy replace deletes the user in use", "policy/checks.cpp",
     "if (f.current && is_paused(f) && !asked)", "if (f.current && is_paused(f) && !asked && !must_release_first(f))"),
    ("not-for-a-person: a user whose certificate cannot be used is deleted before anybody looked at it",
     "policy/checks.cpp", "if (for_a_person) return std::nullopt;", ""),
    ("secret-in-log: a refresh is told with its body", "agent/platform/token_endpoint.cpp",
     "const auto host = io::host_of(settings.auth_url);\n    if (!succeeded(*answer))",
     "const auto host = io::host_of(settings.auth_url);\n"
     "    static_cast<void>(!::write(2, answer->body.data(), answer->body.size()));\n    if (!succeeded(*answer))"),
]


def places(root, name, piece):
    """Returns all occurrences of the piece in the file, however it is wrapped."""
    tokens = re.findall(r"\w+|[^\w\s]", piece)
    return list(re.compile(r"\s*".join(re.escape(token) for token in tokens)).finditer((root / name).read_text()))


def check(numbers):
    wrong = 0
    for number in numbers:
        name, file, piece = MUTANTS[number - 1][:3]
        count = len(places(ROOT, file, piece))
        if count != 1:
            print(f"{number} {name}: its line stands {count} times in {file}", file=sys.stderr)
            wrong = 1
    return wrong


def copy(scratch):
    """Copies the files tracked by git; unchanged ones keep their time, so that little is rebuilt."""
    for name in subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n"):
        source, target = ROOT / name, scratch / name
        if not name or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copy2(source, target)
            os.utime(target)


def build(scratch, arguments, name):
    """Returns the program under this name. Not optimized: compiling would cost more than running."""
    directory = scratch / "build"
    if not (directory / "build.ninja").exists():
        settings = ["-DCMAKE_BUILD_TYPE=None", "-DBUILD_TESTING=ON", "-DWERROR=OFF"]
        if shutil.which("ccache"):
            settings.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        if shutil.which("mold"):
            settings.append("-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold")
        subprocess.run(["cmake", "-S", scratch, "-B", directory, "-G", "Ninja", *settings, *arguments], check=True,
                       stdout=subprocess.DEVNULL)
    done = subprocess.run(["ninja", "-C", directory, f"-j{os.cpu_count()}", "simulation"], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name}:\n{done.stdout[-4000:]}")
    target = scratch / "programs" / name
    target.parent.mkdir(exist_ok=True)
    shutil.copy2(directory / "simulation", target)
    return target


def run(program, runs, seed):
    """Returns what failed (None if all passed) and after how many steps. The program is removed."""
    steps = 0
    broken = None
    for arguments in runs:
        done = subprocess.run([program, *arguments, "--seed", str(seed)], capture_output=True, text=True, check=False)
        played = re.search(r"(\d+) steps,", done.stdout)
        steps += int(played.group(1)) if played else 0
        if done.returncode != 0:
            laws = re.findall(r"^seed \d+ breaks\n(.*)", done.stdout, re.MULTILINE)
            broken = laws[0][:120] if laws else f"exit {done.returncode}: {done.stderr[-200:]}"
            break
    program.unlink()
    return broken, steps


def tell(number, name, outcome):
    """Prints what became of a mutant; returns whether it was missed."""
    law, steps = outcome.result()
    print(f"{number:2} {'MISSED' if law is None else 'caught'} after {steps:7} steps: {name}: {law or ''}", flush=True)
    return law is None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, help="only these mutants")
    parser.add_argument("--check", action="store_true", help="only that every mutant still has its line")
    parser.add_argument("--scratch", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cmake", action="append", default=[], help="an argument for cmake, such as --cmake=-DX=Y")
    asked = parser.parse_args()
    numbers = asked.numbers or list(range(1, len(MUTANTS) + 1))
    if check(numbers):
        return 1
    if asked.check:
        return 0
    scratch = asked.scratch or pathlib.Path(tempfile.mkdtemp(prefix="simulation-mutants-"))
    os.environ.setdefault("CCACHE_BASEDIR", str(scratch))
    os.environ.setdefault("CCACHE_NOHASHDIR", "1")
    began = time.monotonic()
    copy(scratch)
    # the next mutant is built while those before it run
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        control = pool.submit(run, build(scratch, asked.cmake, "unmodified"), (PLAIN, POWER), asked.seed)
        running = []
        missed = 0
        for number in numbers:
            name, file, piece, instead, *first = MUTANTS[number - 1]
            runs = first + [each for each in (PLAIN, POWER) if each not in first]
            place = places(scratch, file, piece)[0]
            whole = (scratch / file).read_text()
            (scratch / file).write_text(whole[:place.start()] + instead + whole[place.end():])
            try:
                program = build(scratch, asked.cmake, f"mutant-{number}")
            finally:
                (scratch / file).write_text(whole)
            running.append((number, name, pool.submit(run, program, runs, asked.seed)))
            while running and running[0][2].done():
                missed += tell(*running.pop(0))
        for each in running:
            missed += tell(*each)
        broken, steps = control.result()
        print(f"   {'passes' if broken is None else 'FAILS '} after {steps:7} steps: the unmodified code {broken or ''}")
    if not asked.scratch:
        shutil.rmtree(scratch, ignore_errors=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(numbers) - missed} of {len(numbers)} caught, {time.monotonic() - began:.0f} s, "
          f"{used.ru_utime + used.ru_stime:.0f} s of processor time")
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
