#!/usr/bin/env python3
"""Runs the tests of build/ again in environments that restrict them in different ways.

    tests/places.py [--tests REGEX] [--all] [PLACE...]     default: all places

    chroot      root, in a root directory that is not a mount point
    container   root with the capabilities of an ordinary container (no CAP_SYS_ADMIN, no ptrace)
    user        an ordinary user, without sudo
    busy        root, next to two busy loops per CPU

A test must skip by name what a place does not allow; nothing may fail. By default only tests that depend on the place
run; --all runs all tests. Needs root and mount namespaces, and leaves the tree unchanged.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# these use what differs between places: mounts, namespaces, ptrace, users, package tools, time
DEPENDING = ("agent-tests|e2e-check|e2e-disk|e2e-forecast|e2e-hooks|e2e-import|e2e-init|e2e-page|hardening|units|manuals"
             "|monitoring|package|layering")
TIMING = "agent-tests|e2e-daemon|e2e-disk|e2e-page|e2e-notify|soak"
CONTAINER = ("chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod,"
             "audit_write,setfcap")
USER = 65534
INSIDE = "EXPOSURE_AGENT_PLACE"  # a place has no further places in it


def own_tree(directory, owner):
    """Shell command that mounts a copy over the tree until the mount namespace ends."""
    copy = directory / "tree"
    left_out = "--exclude=./.git --exclude='./build-*' --exclude='./build/root-*'"
    return (f"mkdir {copy} && tar -C {ROOT} {left_out} -cf - . | tar -C {copy} -xf - && "
            f"chown -R {owner}:{owner} {copy} && mount --bind {copy} {ROOT} && cd {ROOT}")


def in_chroot(directory, command):
    new = directory / "root"
    binds = [f"mkdir {new}"]
    for entry in sorted(pathlib.Path("/").iterdir()):
        if entry.is_symlink():
            binds.append(f"cp -a {entry} {new}/")
        elif entry.is_dir():
            binds.append(f"mkdir {new}{entry} && mount --rbind {entry} {new}{entry}")
    return f"{' && '.join(binds)} && exec chroot {new} sh -c 'cd {ROOT} && {command}'"


def in_container(_directory, command):
    kept = ",".join("+" + name for name in CONTAINER.split(","))
    return f"exec setpriv --bounding-set=-all,{kept} --inh-caps=-all,{kept} sh -c '{command}'"


def as_user(directory, command):
    home = directory / "home"
    home.mkdir()
    os.chown(home, USER, USER)
    return (f"exec setpriv --reuid={USER} --regid={USER} --clear-groups --inh-caps=-all --bounding-set=-all "
            f"env HOME={home} XDG_CACHE_HOME={home}/cache TMPDIR={home} sh -c '{command}'")


def as_it_is(_directory, command):
    return f"exec sh -c '{command}'"


# place -> function that enters it, owner of the tree, tests, busy loops per CPU
PLACES = {"chroot": (in_chroot, 0, DEPENDING, 0), "container": (in_container, 0, DEPENDING, 0),
          "user": (as_user, USER, DEPENDING, 0), "busy": (as_it_is, 0, TIMING, 2)}


def closed_directory():
    """The first directory above the tree or above Python that an ordinary user cannot enter."""
    interpreter = re.search(r"^_?Python3_EXECUTABLE:\w+=(.*)$", (ROOT / "build/CMakeCache.txt").read_text(), re.M)
    above = [*ROOT.parents, *(pathlib.Path(interpreter[1]).parents if interpreter else [])]
    return next((each for each in above if not each.stat().st_mode & 0o001), None)


def run_place(place, tests):
    """Returns whether nothing failed. Prints ctest's summary and the skipped tests."""
    enter, owner, _, loops = PLACES[place]
    if owner and (closed := closed_directory()):
        print(f"{place}: not tried: other users may not enter {closed}", flush=True)
        return True
    directory = pathlib.Path(tempfile.mkdtemp(prefix="exposure-agent-place-", dir="/var/tmp"))
    directory.chmod(0o755)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops * os.cpu_count())]
    try:
        chosen = f'--tests-regex "^({tests})\\$"' if tests else ""
        command = (f"ctest --test-dir build -j {os.cpu_count()} --output-on-failure --no-tests=error "
                   f"--output-junit {ROOT}/build/tests.xml {chosen}; status=$?; "
                   f"python3 -B tests/skipped.py build; exit $status")
        script = f"{own_tree(directory, owner)} && {enter(directory, command)}"
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-ec", script], text=True,
                              env={**os.environ, INSIDE: place},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    finally:
        for process in busy:
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)
    lines = done.stdout.splitlines()
    shown = lines if done.returncode else [line for line in lines if ": skipped: " in line or "tests passed" in line]
    print("\n".join(f"{place}: {line}" for line in shown), flush=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", metavar="REGEX", help="these tests instead of those that depend on the place")
    parser.add_argument("--all", action="store_true", help="every test")
    parser.add_argument("places", nargs="*", metavar="PLACE", help=", ".join(PLACES))
    options = parser.parse_args()
    if unknown := set(options.places) - set(PLACES):
        parser.error(f"unknown place '{unknown.pop()}'; known: {', '.join(PLACES)}")
    if INSIDE in os.environ:
        print(f"skipped: this is the place {os.environ[INSIDE]} already")
        return 77
    able = os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if not able or able.returncode != 0:
        print("skipped: the places need root and mount namespaces")
        return 77
    failed = [place for place in options.places or PLACES
              if not run_place(place, "" if options.all else options.tests or PLACES[place][2])]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
