"""A disk that is full, read-only, owned by somebody else, missing, or has something foreign in place of our files.

The certificate in use keeps working, the reason is shown with a remedy, no changing request is sent to the platform
while its answer could not be stored, and everything recovers by itself once the cause is gone.
"""

import contextlib
import os
import shutil
import subprocess
import unittest

import harness
import witness

NAME = "logs/a"
NOBODY = 65534
ROOM = "4m"
CHANGES = ("create_instance", "create_user", "delete_user")


def mounted(directory):
    """Mounts a small tmpfs there; skips the test if that is not possible."""
    directory.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM},mode=0755", "tmpfs", directory],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise unittest.SkipTest(f"nothing can be mounted here: {done.stderr.strip()}")


def remount(directory, how):
    subprocess.run(["mount", "-o", f"remount,{how}", directory], check=True)


def fill(directory):
    """Fills the disk; returns the file to remove."""
    filler = directory / "filler"
    taken = os.open(filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with contextlib.suppress(OSError):
        while True:
            os.write(taken, bytes(4096))
    os.close(taken)
    return filler


class DiskTest(harness.PlatformCase):
    def start(self, own_disk=False):
        """An agent with one certificate in use, watched until the end of the test."""
        scene = contextlib.ExitStack()
        self.addCleanup(scene.close)
        self.host, self.watcher, self.strangers = scene.enter_context(witness.scene(self.platform, ["a"]))
        if own_disk:
            mounted(self.host.state_dir)
            scene.callback(subprocess.run, ["umount", "-l", self.host.state_dir], check=False)
        self.host.login()
        self.host.run("reconcile", expect=0)
        self.first = self.host.published("a").generation
        self.platform.clear_requests()

    # What holds while the disk is in trouble

    def refused(self, *arguments, saying):
        """The command fails with these words, without having changed anything on the platform or spent a token."""
        done = self.host.run(*arguments)
        self.assertEqual(done.returncode, 1, done.stderr)
        for words in saying:
            self.assertIn(words, done.stderr)
        self.assertEqual(self.changes(), [])

    def changes(self):
        return [operation for operation in self.platform.operations() if operation in (*CHANGES, "token")]

    def status_says(self, *saying):
        """Perhaps only after the daemon's next attempt."""
        harness.wait_until(lambda: all(words in self.host.run("status").stdout for words in saying))
        self.assertEqual(self.host.run("status", "--check").returncode, 1)

    def in_use(self):
        self.assertEqual(self.host.published("a").generation, self.first)
        self.assertTrue(self.host.published("a").key_matches())
        self.assertEqual(witness.faults_at_any_time(self.platform, self.host), [])

    def healed(self, rotated):
        self.host.run("reconcile", expect=0)
        self.host.run("status", "--check", expect=0)
        self.assertEqual(self.host.published("a").generation != self.first, rotated)
        self.assertEqual(witness.faults_at_the_end(self.platform, self.host, ["a"]), [])
        self.assertEqual(self.watcher.take_faults() + self.strangers.faults(), [])
        self.assertEqual(witness.presented_again(self.platform), 0)

    # Full

    def test_a_full_disk(self):
        self.start(own_disk=True)
        filler = fill(self.host.state_dir)
        self.refused("rotate", NAME, saying=["No space left on device", "free some space"])
        self.status_says("No space left on device", "free some space")
        self.in_use()
        filler.unlink()
        self.healed(rotated=True)

    def test_a_full_disk_without_the_reserve(self):
        self.start(own_disk=True)
        (self.host.state_dir / "private" / "reserve").unlink()
        filler = fill(self.host.state_dir)
        self.platform.expire_tokens()
        self.refused("rotate", NAME, saying=["No space left on device", "free some space"])
        self.refused("reconcile", saying=["nothing was sent", "No space left on device", "free some space"])
        self.status_says("cannot write to", "No space left on device", "free some space")
        self.in_use()
        filler.unlink()
        self.healed(rotated=False)
        self.host.run("rotate", NAME, expect=0)
        self.healed(rotated=True)

    def test_a_disk_that_fills_up_while_the_answer_is_under_way(self):
        """The id of the new user and the new tokens both fit in the reserved space."""
        for operation in ("create_user", "token"):
            with self.subTest(operation):
                self.start(own_disk=True)
                self.platform.fault(operation=operation, delay_after_ms=1500)
                self.platform.expire_tokens()
                running = self.host.start("rotate", NAME)
                harness.wait_until(lambda: self.is_processed(operation))
                filler = fill(self.host.state_dir)
                running.wait(harness.RUN_TIMEOUT)
                self.assertEqual(witness.faults_at_any_time(self.platform, self.host), [])
                filler.unlink()
                self.healed(rotated=True)
                self.assertEqual(self.platform.operations().count("create_user"), 1)
                self.assertEqual(self.host.status()["login"], "ok")
                self.doCleanups()

    def is_processed(self, operation):
        """Whether the platform has processed the request whose response is still in flight."""
        state = self.platform.state()
        if operation == "token":
            return sum(token["used"] for token in state["oauth"]["refresh_tokens"]) == 2  # the login's and this one
        return len([user for user in state["users"] if witness.MARK in user["description"]]) == 2

    # Read-only, owned by somebody else, missing

    def test_a_disk_that_becomes_read_only(self):
        self.start(own_disk=True)
        remount(self.host.state_dir, "ro")
        self.platform.expire_tokens()
        self.refused("rotate", NAME, saying=["Read-only file system", "make it writable"])
        self.refused("reconcile", saying=["Read-only file system", "make it writable"])
        self.status_says("Read-only file system", "make it writable")
        self.in_use()
        remount(self.host.state_dir, "rw")
        self.host.run("rotate", NAME, expect=0)
        self.healed(rotated=True)

    def test_a_disk_that_fills_up_under_the_daemon(self):
        self.start(own_disk=True)
        with self.host.daemon():
            self.host.run("reconcile", expect=0)
            (self.host.state_dir / "private" / "reserve").unlink()
            filler = fill(self.host.state_dir)
            self.platform.clear_requests()
            self.host.settings["exposures"][0]["users"][0]["contact"] = "other@example.com"
            self.host.write_config()
            harness.wait_until(lambda: "nothing was sent" in self.host.log())
            self.status_says("No space left on device", "free some space")
            self.assertEqual(self.changes(), [])
            self.in_use()
            filler.unlink()  # without notifying the daemon
            harness.wait_until(lambda: self.host.published("a").generation != self.first)
            self.healed(rotated=True)

    @unittest.skipIf(os.geteuid() != 0, "only root can give files away")
    def test_a_private_directory_of_somebody_else(self):
        self.start()
        os.chown(self.host.state_dir / "private", NOBODY, NOBODY)
        self.platform.expire_tokens()
        for verb in (("reconcile",), ("rotate", NAME)):
            self.refused(*verb, saying=["private belongs to", "sudo -u"])
        self.in_use()
        os.chown(self.host.state_dir / "private", 0, 0)
        self.healed(rotated=False)

    def test_a_missing_output_directory_is_made_again(self):
        self.start()
        self.watcher.let_go("a")
        shutil.rmtree(self.host.state_dir / "live")
        self.host.run("reconcile", expect=0)
        self.assertEqual(self.changes(), [])
        self.healed(rotated=False)

    # Something foreign in the place of our files

    def obstructed(self, saying):
        before = harness.footprint(self.host.state_dir / "live")
        self.refused("reconcile", saying=saying)
        self.status_says(*saying)
        self.assertEqual(harness.footprint(self.host.state_dir / "live"), before, "what is foreign is left alone")

    def test_a_foreign_link_in_place_of_the_directory(self):
        self.start()
        self.watcher.let_go("a")
        directory = self.host.published("a").directory
        elsewhere = self.host.directory / "elsewhere"
        directory.rename(elsewhere)
        directory.symlink_to(elsewhere)
        self.obstructed(["is a symbolic link", "move it away"])
        self.in_use()
        directory.unlink()
        elsewhere.rename(directory)
        self.healed(rotated=False)

    def test_a_foreign_file_in_place_of_the_link(self):
        self.start()
        self.watcher.let_go("a")
        current = self.host.published("a").current
        current.unlink()
        current.write_text("somebody's")
        self.obstructed(["current is not a symbolic link", "move it away"])
        current.unlink()
        self.healed(rotated=False)

    def test_a_foreign_directory_in_place_of_the_key_goes_away_under_the_daemon(self):
        self.start()
        self.watcher.let_go("a")
        key = self.host.published("a").current / "key.pem"
        key.unlink()
        key.mkdir()
        self.obstructed(["key.pem is not a regular file", "move it away"])
        with self.host.daemon():
            key.rmdir()  # without notifying the daemon
            harness.wait_until(key.is_file)
        self.assertEqual(self.changes(), [])
        self.healed(rotated=False)


if __name__ == "__main__":
    unittest.main()
