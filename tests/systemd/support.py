"""Shared code of the tests in this directory. Uses only the standard library, like all Python tests of the project."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EXPOSURE_AGENT_BUILD", SOURCE / "build")).resolve()
PROGRAM = BUILD / "exposure-agent"
SIMULATOR = BUILD / "platform-simulator"
SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt


def run(*command, check=True, **options):
    """Runs a command and returns its result with output as text; a failure shows that output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def require(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise unittest.SkipTest(f"{tool} is not installed")


def require_program(*programs):
    for program in programs:
        if not program.exists():
            raise unittest.SkipTest(f"{program.name} is not built")


def require_root():
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root")


@contextlib.contextmanager
def staged():
    """Yields a directory with what `cmake --install` installs on a host, except for the programs."""
    with tempfile.TemporaryDirectory() as root:
        run("cmake", "--install", BUILD, "--prefix", "/usr", "--component", "integration",
            env={**os.environ, "DESTDIR": root})
        yield pathlib.Path(root)


def package():
    """The Debian package of this build, packaged again."""
    require("cpack", "dpkg-deb", "dpkg-shlibdeps")
    require_program(PROGRAM)
    where = BUILD / "package"
    shutil.rmtree(where, ignore_errors=True)
    run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", where)
    (made,) = where.glob("*.deb")
    return made


def dependencies(deb):
    """Names of the packages it depends on, the first of each alternative."""
    wanted = run("dpkg-deb", "--field", deb, "Depends").stdout
    return sorted(choice.split("|")[0].split("(")[0].strip() for choice in wanted.split(","))


def debian_root(packages):
    """A clean Debian root of this host's release with these packages, created once and kept in the user's cache."""
    require_root()
    require("debootstrap")
    release = platform.freedesktop_os_release()
    if release.get("ID") != "debian":
        raise unittest.SkipTest("the clean root has to match this host's libraries, and this host is not Debian")
    suite = release["VERSION_CODENAME"]
    wanted = ",".join(sorted(packages))
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "exposure-agent-tests"
    cache.mkdir(parents=True, exist_ok=True)
    root = cache / f"{suite}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            unfinished = root.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            made = run("debootstrap", "--variant=minbase", f"--include={wanted}", suite, unfinished, check=False)
            if made.returncode != 0:
                raise unittest.SkipTest(f"debootstrap made no root:\n{made.stdout[-2000:]}{made.stderr[-2000:]}")
            shutil.rmtree(unfinished / "var/cache/apt")
            unfinished.rename(root)
    return root


@contextlib.contextmanager
def copy_of(root):
    """Yields a throwaway copy of a root in the build directory."""
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="root-") as where:
        run("cp", "-a", "--reflink=auto", f"{root}/.", where)
        yield pathlib.Path(where)


def main():
    """unittest.main() with an exit status that tells ctest if all tests were skipped."""
    outcome = unittest.main(module="__main__", exit=False, verbosity=2).result
    if not outcome.wasSuccessful():
        sys.exit(1)
    if outcome.skipped and len(outcome.skipped) >= outcome.testsRun:
        sys.exit(SKIPPED)
