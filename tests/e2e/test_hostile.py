"""A hostile receiver: it swaps, links, renames, creates pipes and moves devices at every level of its own directories
while root publishes, rotates, removes and writes credentials there.

No file of root may be read, written, given away or made accessible; nothing may hang; and everything recovers once it
stops. EXPOSURE_AGENT_HOSTILE_SECONDS sets the duration (default 12; CI: 60).
"""

import contextlib
import ctypes
import os
import pathlib
import random
import signal
import stat
import time
import unittest

import harness

SECONDS = int(os.environ.get("EXPOSURE_AGENT_HOSTILE_SECONDS", "12"))
NOBODY = 65534
VERB_LIMIT = 60  # a command that takes longer hangs
ACCESS_KEY, SECRET_KEY = "provider-accessKeyID", "provider-secretAccessKey"
EXCHANGE = 2  # RENAME_EXCHANGE
AT_FDCWD = -100
DEVICES = {"zero": os.makedev(1, 5), "full": os.makedev(1, 7)}  # null(4), full(4)
OWNED = {"owner": "65534", "group": "65534", "mode": "0640"}

libc = ctypes.CDLL(None, use_errno=True)


def exchange(one, other):
    libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), EXCHANGE)


class Receiver:
    """A process of user nobody that owns `home`. It only renames and creates: root's files still exist at the end."""

    def __init__(self, home, secrets, seed):
        self._home = home
        self._secrets = secrets
        self._random = random.Random(seed)
        self._made = 0
        self.pid = os.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                self._fight()
            os._exit(0)

    def stop(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def _places(self):
        """Every path below its own directories, down to the files of a generation."""
        found = [self._home / "tls", self._home / "deep", self._home / "creds"]
        for top in list(found):
            for below in (top, top / "tls"):
                with contextlib.suppress(OSError):
                    found += [below / name for name in os.listdir(below)]
        return found

    def _new(self):
        self._made += 1
        return self._home / f"x{os.getpid()}-{self._made}"

    def _fight(self):
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        while True:
            with contextlib.suppress(OSError):
                self._strike()

    def _strike(self):
        places = self._places()
        target = self._random.choice(places)
        how = self._random.randrange(9)
        aside = self._new()
        if how == 0:  # missing for a moment
            target.rename(aside)
            time.sleep(self._random.random() / 200)
            exchange(target, aside)
        elif how == 1:
            exchange(target, self._random.choice(places))
        elif how == 2:
            exchange(target, self._home / self._random.choice(["of-root", "of-root-file"]))
        elif how == 3:
            aside.symlink_to(self._random.choice(self._secrets))
            exchange(target, aside)
        elif how == 4:
            os.mkfifo(aside)
            exchange(target, aside)
        elif how == 5:
            aside.mkdir()
            (aside / "mine").write_text("mine")
            exchange(target, aside)
        elif how == 6:
            aside.write_text("x" * self._random.randrange(4096))
            exchange(target, aside)
        elif how == 7:  # missing where devices cannot be made
            exchange(target, self._home / self._random.choice(list(DEVICES)))
        else:  # a name that the agent is about to use
            name = self._random.choice(["current", "s3.env", "key.pem", "client.p12", target.name])
            aside.symlink_to(self._random.choice(self._secrets))
            aside.rename(target.parent / f".{name}.exposure-agent")


def facts(path):
    found = os.lstat(path)
    return found.st_ino, found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode), found.st_nlink


@unittest.skipIf(os.geteuid() != 0, "only root gives files away")
class HostileTest(harness.PlatformCase):
    def setUp(self):
        super().setUp()
        self.directory = self.scratch()
        self.home = self.directory / "home"
        self.platform.behave(catalog={"elements": {ACCESS_KEY: "access", SECRET_KEY: "secret"}})
        self.make_home()
        self.secret = self.directory / "secret"
        self.secret.mkdir(mode=0o700)
        self.secret_file = self.directory / "secret-file"
        self.kept = {}
        self.make_devices()
        for path in (self.secret / "inside", self.secret_file, self.home / "of-root-file", self.home / "of-root/inside"):
            path.touch(mode=0o600)
            path.write_text(f"of root's: {path.name}")
            self.kept[os.lstat(path).st_ino] = (facts(path), path.read_text())
        for path in (self.secret, self.home / "of-root"):
            self.kept[os.lstat(path).st_ino] = (facts(path), sorted(os.listdir(path)))
        password = self.directory / "password"
        password.touch(mode=0o600)
        password.write_text("not-a-real-password\n")
        output = {**OWNED, "formats": ["bundle", "pkcs12"], "password": {"file": str(password)}}
        self.users = [
            {"name": "a", "consumer_group": "a", "rotation": {"retire_after": "0s"},
             "output": {"directory": str(self.home / "tls"), **output}},
            {"name": "b", "consumer_group": "b", "rotation": {"retire_after": "0s"},
             "output": {"directory": str(self.home / "deep/tls"), **output}},
        ]
        credential = {"name": "bucket", "resource": "r", "action": "a", "interval": "12h",
                      "elements": {"ACCESS_KEY": ACCESS_KEY, "SECRET_KEY": SECRET_KEY},
                      "output": {"file": str(self.home / "creds/s3.env"), **OWNED}}
        self.host = self.agent(*self.users, settings={
            "catalog": {"base_url": self.platform.base_url}, "credentials": [credential],
            "reconcile": {"max_creates_per_user": 1000}})

    def make_home(self):
        self.home.mkdir()
        os.chown(self.home, NOBODY, NOBODY)
        (self.home / "of-root").mkdir(mode=0o700)
        for name in ("deep", "creds", "tls"):
            (self.home / name).mkdir()
            os.chown(self.home / name, NOBODY, NOBODY)

    def make_devices(self):
        for name, number in DEVICES.items():
            path = self.home / name
            try:
                os.mknod(path, stat.S_IFCHR | 0o600, number)
            except PermissionError:  # a container without CAP_MKNOD
                return
            self.kept[os.lstat(path).st_ino] = (facts(path), None)

    def check(self):
        """Everything owned by root still exists, unchanged and private."""
        seen = {}
        for top in (self.home, self.secret, self.directory):
            for root, directories, files in os.walk(top):
                for name in (*directories, *files):
                    path = pathlib.Path(root) / name
                    with contextlib.suppress(FileNotFoundError):
                        seen[os.lstat(path).st_ino] = path
        for inode, (before, content) in self.kept.items():
            self.assertIn(inode, seen, content)
            path = seen[inode]
            self.assertEqual(facts(path), before, path)
            if content is not None:
                self.assertEqual(sorted(os.listdir(path)) if path.is_dir() else path.read_text(), content, path)

    def verb(self, *arguments):
        started = time.monotonic()
        done = self.host.run(*arguments, timeout=VERB_LIMIT)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertNotIn("of root's", done.stdout + done.stderr)
        return time.monotonic() - started

    def test_a_receiver_that_fights(self):
        self.host.run("reconcile", expect=0)
        receivers = [Receiver(self.home, [self.secret, self.secret_file, self.secret / "inside"], seed) for seed in range(2)]
        try:
            end = time.monotonic() + SECONDS
            rounds = 0
            while time.monotonic() < end:
                exposure = self.host.settings["exposures"][0]
                exposure["users"] = [] if rounds % 4 == 3 else self.users
                self.platform.behave(catalog={"elements": {ACCESS_KEY: f"access-{rounds}", SECRET_KEY: "secret"}})
                self.host.write_config()
                self.verb("reconcile")
                if exposure["users"]:
                    self.verb("rotate", "logs/a", "logs/b")
                rounds += 1
        finally:
            for receiver in receivers:
                receiver.stop()
        self.check()
        print(f"{rounds} rounds in {SECONDS} s")
        # the operator cleans up, and everything is published again
        self.home.rename(self.directory / "old")
        self.make_home()
        self.host.settings["exposures"][0]["users"] = self.users
        self.host.write_config()
        self.host.run("rotate", "logs/a", "logs/b")
        self.host.run("reconcile", expect=0)
        for where in (self.home / "tls", self.home / "deep/tls"):
            published = harness.Published(where)
            self.assertTrue(published.key_matches())
            self.assertEqual(os.lstat(published.current / "key.pem").st_uid, NOBODY)
            self.assertEqual(stat.S_IMODE(os.lstat(published.current / "key.pem").st_mode), 0o640)
        self.assertIn("access-", (self.home / "creds/s3.env").read_text())


if __name__ == "__main__":
    unittest.main()
