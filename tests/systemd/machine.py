"""A root directory booted with systemd as its init, in a container that shares the host's network."""

import contextlib
import os
import pathlib
import pty
import shlex
import signal
import subprocess
import threading
import time
import unittest

import support

BOOT_TIMEOUT = 60
WAIT_TIMEOUT = 90


class Machine:
    """Runs until stop(). All commands, their output and the console are logged to a transcript."""

    def __init__(self, root, transcript):
        support.require_root()
        support.require("systemd-nspawn", "nsenter")
        self.root = pathlib.Path(root)
        self._transcript = open(transcript, "w", encoding="utf-8")
        self._console = ""
        ours, theirs = pty.openpty()
        # --register=no, --keep-unit: the host need not run systemd itself
        self._process = subprocess.Popen(
            ["systemd-nspawn", "--directory", self.root, "--machine", f"exposure-agent-{os.getpid()}", "--boot",
             "--quiet", "--register=no", "--keep-unit", "--link-journal=no", "--resolv-conf=off", "--timezone=off"],
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self._reader.start()
        try:
            self._leader = self._wait_for_leader()
            self.wait_until(lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip()
                            in ("running", "degraded"), "the machine is up", BOOT_TIMEOUT)
        except AssertionError as failure:
            self.stop()
            raise unittest.SkipTest(f"no root boots here: {failure}\n{self._console[-3000:]}")

    def _read(self, console):
        with contextlib.suppress(OSError), open(console, errors="replace", newline="") as lines:
            for line in lines:
                self._console += line

    def _wait_for_leader(self):
        """The pid of the container's init on the host."""
        deadline = time.monotonic() + BOOT_TIMEOUT
        while time.monotonic() < deadline and self._process.poll() is None:
            children = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            for child in children:
                with contextlib.suppress(OSError):
                    status = pathlib.Path(f"/proc/{child}/status").read_text()
                    pids = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
                    running = os.readlink(f"/proc/{child}/exe").endswith("/systemd")
                    if len(pids) > 1 and pids[-1] == "1" and running:
                        return int(child)
            time.sleep(0.05)
        raise AssertionError("systemd-nspawn started no init")

    def note(self, text):
        self._transcript.write(f"\n## {text}\n")
        self._transcript.flush()

    def enter(self, *command):
        """The command line that runs a command in the machine, as root.

        A shutdown of the machine stops the command, so nsenter stops itself, and the kernel may then hang up its whole
        process group: what may still run at that time needs a group of its own.
        """
        return ["nsenter", "--target", str(self._leader), "--mount", "--uts", "--ipc", "--pid",
                f"--root=/proc/{self._leader}/root", "--wdns=/", "--", "env", "-i",
                "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", *command]

    def run(self, *command, check=True, stdin=None, quiet=False):
        """Runs a command in the machine."""
        words = [str(word) for word in command]
        done = subprocess.run(self.enter(*words), input=stdin, capture_output=True, text=True)
        if not quiet:
            self._transcript.write(f"\n# {shlex.join(words)}\n{done.stdout}{done.stderr}")
            self._transcript.write(f"[exit {done.returncode}]\n" if done.returncode else "")
            self._transcript.flush()
        if check and done.returncode != 0:
            raise AssertionError(f"{shlex.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def inside(self, path):
        """A path in the machine as seen from the host: /run in it is a separate file system."""
        return pathlib.Path(f"/proc/{self._leader}/root{path}")

    def show(self, unit, field):
        return self.run("systemctl", "show", "--value", "-p", field, unit, quiet=True).stdout.strip()

    def wait_until(self, condition, what, timeout=WAIT_TIMEOUT):
        """Returns the first true value of condition()."""
        deadline = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                self.note(f"{what}: yes")
                return value
            if time.monotonic() > deadline:
                self.note(f"{what}: not within {timeout} s")
                raise AssertionError(f"not within {timeout} s: {what}")
            time.sleep(0.2)

    def write(self, path, text, mode=0o644):
        """Writes a file owned by root, replacing it atomically."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.new")
        temporary.write_text(text)
        temporary.chmod(mode)
        temporary.rename(target)
        self._transcript.write(f"\n# cat > {path}\n{text}")

    def stop(self):
        """Stops this container only: systemd-nspawn shuts it down when terminated."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(5)
        self._transcript.write(f"\n## console\n{self._console}")
        self._transcript.close()
