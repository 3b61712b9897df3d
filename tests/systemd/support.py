"""Shared code of the tests in this directory. Uses only the standard library, like all Python tests of the project."""

import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EXPOSURE_AGENT_BUILD", SOURCE / "build")).resolve()
PROGRAM = BUILD / "exposure-agent"
SIMULATOR = BUILD / "platform-simulator"
SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt

HOST = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
NEWER = {"bookworm": ("trixie", "noble")}  # releases that a package built on this one fits as well
UBUNTU = ("focal", "jammy", "noble")
UBUNTU_MIRROR = os.environ.get("UBUNTU_MIRROR", "http://archive.ubuntu.com/ubuntu")
UBUNTU_KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
UBUNTU_KEYRING_PACKAGE = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
UBUNTU_KEYRING_SHA256 = "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8"


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


def ubuntu_keyring(directory):
    """The keys of Ubuntu's archive. Debian 12 does not package them, so they come from the mirror, with a pinned digest."""
    installed = pathlib.Path("/", UBUNTU_KEYRING)
    if installed.exists():
        return installed
    deb = pathlib.Path(directory, "keyring.deb")
    try:
        with urllib.request.urlopen(f"{UBUNTU_MIRROR}/{UBUNTU_KEYRING_PACKAGE}", timeout=30) as answer:
            deb.write_bytes(answer.read())
    except OSError as failure:
        raise unittest.SkipTest(f"the mirror {UBUNTU_MIRROR} is not available: {failure}") from None
    if hashlib.sha256(deb.read_bytes()).hexdigest() != UBUNTU_KEYRING_SHA256:
        raise AssertionError(f"the mirror {UBUNTU_MIRROR} has another {UBUNTU_KEYRING_PACKAGE}")
    run("dpkg-deb", "--extract", deb, directory)
    return pathlib.Path(directory, UBUNTU_KEYRING)


def clean_root(suite, packages):
    """A clean root of a release of Debian or Ubuntu with these packages, made once per build directory."""
    require_root()
    require("mmdebstrap")
    wanted = ",".join(sorted(packages))
    root = BUILD / f"root-{suite}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    with open(BUILD / "root-lock", "w") as lock, tempfile.TemporaryDirectory() as keys:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            unfinished = root.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            archive = [f"--keyring={ubuntu_keyring(keys)}", "--components=main,universe"] if suite in UBUNTU else []
            mirror = [UBUNTU_MIRROR] if suite in UBUNTU else []
            made = run("mmdebstrap", "--mode=root", "--variant=minbase", "--dpkgopt=force-unsafe-io", *archive,
                       f"--include={wanted}", suite, unfinished, *mirror, check=False)
            if made.returncode != 0:
                raise unittest.SkipTest(f"mmdebstrap made no root of {suite}:\n{made.stderr[-3000:]}")
            unfinished.rename(root)
    return root


@contextlib.contextmanager
def copy_of(root):
    """Yields a throwaway copy of a root in the build directory."""
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="root-") as where:
        run("cp", "-a", "--reflink=auto", f"{root}/.", where)
        yield pathlib.Path(where)


@contextlib.contextmanager
def bootable_root(deb, suite=HOST):
    """Yields a throwaway root with systemd and all that this package depends on; the host's release can be managed."""
    if suite != HOST and suite not in NEWER.get(HOST, ()):
        raise unittest.SkipTest(f"a package built on {HOST or 'this host'} is not for {suite}")
    packages = {"systemd", "systemd-sysv", "dbus", *dependencies(deb)}
    if suite == HOST:
        packages |= {"openssh-server", "python3", "python3-apt"}  # the same root for all tests: it takes long to make
    with copy_of(clean_root(suite, packages)) as root:
        (root / "etc/systemd/system/ssh.service").symlink_to(os.devnull)  # it would listen on the host's port
        yield root


@functools.cache
def new_mounts():
    """How to make a mount namespace here."""
    require("unshare")
    # a root directory that is not a mount point (chroot) cannot be made private
    ways = (["unshare", "--mount"], ["unshare", "--mount", "--propagation", "unchanged"])
    for way in ways:
        if run(*way, "true", check=False).returncode == 0:
            return way
    raise unittest.SkipTest("no mount namespace can be made here")


def run_in(root, *command, **options):
    """Runs a command in a root, with /proc, which systemd-tmpfiles needs; the options are those of run()."""
    return run(*new_mounts(), "--pid", "--fork", f"--mount-proc={root}/proc", "chroot", root, *command, **options)


def main():
    """unittest.main() with an exit status that tells ctest if all tests were skipped."""
    outcome = unittest.main(module="__main__", exit=False, verbosity=2).result
    if not outcome.wasSuccessful():
        sys.exit(1)
    if outcome.skipped and len(outcome.skipped) >= outcome.testsRun:
        sys.exit(SKIPPED)
