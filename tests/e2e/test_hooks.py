"""Hooks (contract section 6): how they are run, every way they can end, and what is recorded about it."""

import os
import pathlib
import shutil
import signal
import unittest

import harness

NAME = "logs/siem"
ENVIRONMENT = {"PATH", "EXPOSURE", "EXPOSURE_USER", "EXPOSURE_TOPIC", "EXPOSURE_CONSUMER_GROUP", "EXPOSURE_DIRECTORY", "EXPOSURE_GENERATION", "EXPOSURE_NOT_AFTER",
               "EXPOSURE_REASON"}


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class HookCase(harness.PlatformCase):
    """A user with hooks, which are scripts in a directory of the test."""

    def setUp(self):
        super().setUp()
        self.directory = self.scratch()

    def script(self, text, name="hook"):
        """A program that runs `text` in its own directory."""
        return harness.write_program(self.directory / name, f"cd {self.directory} || exit 99\necho {name} >>runs\n{text}")

    def hooked(self, *hooks, **user):
        return self.agent({"name": "siem", "consumer_group": "siem", "hooks": list(hooks), **user})

    def hook(self, text, name="hook", **more):
        return {"command": [str(self.script(text, name))], **more}

    def runs(self):
        path = self.directory / "runs"
        return path.read_text().split() if path.exists() else []

    def read_pid(self, name):
        return int(harness.wait_until(lambda: (self.directory / name).exists() and (self.directory / name).read_text()))

    def assert_pending(self, agent):
        self.assertIn(agent.status(NAME)["deploy"], ("pending", "failed"))

    def assert_done(self, agent):
        self.assertEqual(agent.status(NAME)["deploy"], "done")


class HookTest(HookCase):
    """`--deploy direct`: the agent runs hooks itself."""

    def test_order_and_environment(self):
        agent = self.hooked(self.hook("cat /proc/$$/environ >environ", "first"), self.hook("", "second"))
        agent.run("reconcile", expect=0)
        self.assertEqual(self.runs(), ["first", "second"])
        entries = (self.directory / "environ").read_bytes().decode().split("\0")[:-1]
        environment = dict(entry.split("=", 1) for entry in entries)
        self.assertEqual(set(environment), ENVIRONMENT)
        published = agent.published("siem")
        self.assertEqual(environment["EXPOSURE"], "logs")
        self.assertEqual(environment["EXPOSURE_USER"], "siem")
        self.assertEqual(environment["EXPOSURE_TOPIC"], "logs-orion-123")
        self.assertEqual(environment["EXPOSURE_CONSUMER_GROUP"], "siem")
        self.assertEqual(environment["EXPOSURE_DIRECTORY"], str(published.directory))
        self.assertEqual(environment["EXPOSURE_GENERATION"], published.generation)
        self.assertEqual(environment["EXPOSURE_NOT_AFTER"], agent.status(NAME)["not_after"])
        self.assertRegex(environment["EXPOSURE_REASON"], r"^[a-z][a-z_-]+$")
        self.assertEqual(environment["PATH"], "/usr/sbin:/usr/bin:/sbin:/bin")

    def test_arguments_without_a_shell(self):
        hook = self.hook('printf "%s|" "$@" >arguments')
        hook["command"] += ["$HOME", "a b", "; reboot", "*"]
        self.hooked(hook).run("reconcile", expect=0)
        self.assertEqual((self.directory / "arguments").read_text(), "$HOME|a b|; reboot|*|")

    def test_exit_codes(self):
        for code in (1, 2, 77, 255):
            with self.subTest(code=code):
                (self.directory / "runs").unlink(missing_ok=True)
                self.platform.reset()
                agent = self.hooked(self.hook(f"echo the reason >&2; exit {code}", "first"), self.hook("", "second"))
                agent.run("reconcile", "--timeout", "5s", expect=1)
                self.assertNotIn("second", self.runs())
                self.assert_pending(agent)
                error = agent.status(NAME)["last_error"]
                self.assertIn(f": exit {code}", error)
                self.assertIn("the reason", error)

                self.script("", "first")
                agent.run("deploy", NAME, expect=0)
                self.assertEqual(self.runs()[-2:], ["first", "second"])
                self.assert_done(agent)

    def test_a_signal(self):
        agent = self.hooked(self.hook("kill -KILL $$"))
        agent.run("reconcile", "--timeout", "5s", expect=1)
        self.assertIn("signal 9", agent.status(NAME)["last_error"])

    def test_a_program_that_is_not_there(self):
        agent = self.hooked({"command": [str(self.directory / "nothing")]})
        agent.run("reconcile", "--timeout", "5s", expect=1)
        self.assert_pending(agent)
        self.assertIn("nothing", agent.status(NAME)["last_error"])

    def test_a_hang_ends_with_its_whole_group(self):
        text = "sleep 1000 & echo $! >child; echo $$ >parent; trap '' TERM; while :; do sleep 1; done"
        agent = self.hooked(self.hook(text, timeout="1s"))
        agent.run("reconcile", "--timeout", "8s", expect=1)
        self.assertIn("timed out after", agent.status(NAME)["last_error"])
        for name in ("child", "parent"):
            pid = self.read_pid(name)
            harness.wait_until(lambda: not is_alive(pid))

    def test_what_a_hook_leaves_in_the_background_is_not_waited_for(self):
        agent = self.hooked(self.hook("sleep 1000 & echo $! >child"))
        agent.run("reconcile", expect=0, timeout=60)
        self.assert_done(agent)
        pid = self.read_pid("child")
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)

    def test_ten_megabytes_of_output(self):
        loud = "head -c 5000000 /dev/zero | tr '\\0' x; head -c 5000000 /dev/zero | tr '\\0' y >&2"
        agent = self.hooked(self.hook(f"{loud}; exit 3"))
        done = agent.run("reconcile", "--timeout", "5s", expect=1)
        self.assertLess(len(done.stdout) + len(done.stderr), 20_000)
        self.assertIn(": exit 3", agent.status(NAME)["last_error"])
        self.script(loud)
        agent.run("deploy", NAME, expect=0)
        self.assert_done(agent)

    def test_output_cannot_speak_to_the_terminal(self):
        agent = self.hooked(self.hook("printf '\\033[2Jred\\007' >&2; exit 1"))
        done = agent.run("reconcile", "--timeout", "5s", expect=1)
        self.assertNotIn("\x1b[2J", done.stdout + done.stderr + agent.run("status").stdout)

    def test_a_killed_agent_runs_the_hooks_again(self):
        agent = self.hooked(self.hook("[ -e killed ] || { touch killed; kill -KILL $PPID; exit 0; }"))
        self.assertEqual(agent.run("reconcile").returncode, -signal.SIGKILL)
        self.assert_pending(agent)
        generation = agent.published("siem").generation
        agent.run("reconcile", expect=0)
        self.assertEqual(len(self.runs()), 2)
        self.assertEqual(agent.published("siem").generation, generation)
        self.assert_done(agent)

    def test_they_run_once_for_a_generation(self):
        agent = self.hooked(self.hook(""))
        for _ in range(3):
            agent.run("reconcile", expect=0)
        self.assertEqual(len(self.runs()), 1)
        agent.run("deploy", expect=0)
        self.assertEqual(len(self.runs()), 1)
        agent.run("deploy", "--force", NAME, expect=0)
        self.assertEqual(len(self.runs()), 2)
        agent.run("rotate", NAME, expect=0)
        agent.run("reconcile", expect=0)
        self.assertEqual(len(self.runs()), 3)

    def test_a_changed_list_alone_runs_nothing(self):
        agent = self.hooked(self.hook("", "first"))
        agent.run("reconcile", expect=0)
        agent.settings["exposures"][0]["users"][0]["hooks"] = [self.hook("", "second")]
        agent.write_config()
        agent.run("reconcile", expect=0)
        self.assertEqual(self.runs(), ["first"])

    def test_the_replaced_user_stays_until_the_hooks_have_passed(self):
        agent = self.hooked(self.hook(""), rotation={"retire_after": "0s"})
        agent.run("reconcile", expect=0)
        self.script("exit 1")
        agent.run("rotate", NAME)
        agent.run("reconcile", "--timeout", "5s", expect=1)
        self.assertEqual(len(self.platform.users()), 2)
        self.script("")
        agent.run("deploy", NAME, expect=0)
        agent.run("reconcile", expect=0)
        harness.wait_until(lambda: len(self.platform.users()) == 1)

    def test_a_failed_switch_is_rolled_back(self):
        agent = self.hooked(self.hook(""))
        agent.run("reconcile", expect=0)
        before = agent.published("siem").generation
        self.script("exit 1")
        agent.run("rotate", NAME)
        agent.run("reconcile", "--timeout", "5s", expect=1)
        self.assertNotEqual(agent.published("siem").generation, before)
        self.script('echo "$EXPOSURE_GENERATION" >generation')
        self.assertEqual(agent.json("rollback", NAME)["schema"], "exposure-agent.rollback/v1")
        self.assertEqual(agent.json("deploy", NAME)["schema"], "exposure-agent.deploy/v1")
        agent.run("reconcile", expect=0)
        self.assertEqual(agent.published("siem").generation, before)
        self.assertEqual((self.directory / "generation").read_text().strip(), before)
        self.assert_done(agent)

    def test_an_unknown_unit_fails(self):
        if not shutil.which("systemctl", path="/usr/bin:/bin"):
            self.skipTest("systemctl is not installed")
        agent = self.hooked({"restart": "no-such-unit-of-ours.service"})
        agent.run("reconcile", "--timeout", "5s", expect=1)
        self.assertIn("restart no-such-unit-of-ours.service", agent.status(NAME)["last_error"])


class SpoolTest(HookCase):
    """`--deploy unit`: the daemon uses the spool, and root's helper runs the hooks. No path unit starts it here."""

    def setUp(self):
        super().setUp()
        self.base = self.directory / "deploy"
        for path, mode in ((self.base, 0o755), (self.base / "spool", 0o770), (self.base / "results", 0o755)):
            path.mkdir()
            path.chmod(mode)
        self.entry = self.base / "spool" / "logs+siem"

    def helper(self, agent, **rest):
        return agent.run("deploy", "--spool", "--spool-directory", self.base, **rest)

    def start(self, agent):
        self.enterContext(agent.daemon("--deploy", "unit", "--spool-directory", self.base))

    def deployed(self, agent):
        return agent.status(NAME)["deploy"] == "done"

    def test_the_helper_does_what_the_daemon_asks_for(self):
        agent = self.hooked(self.hook('echo "$EXPOSURE_GENERATION" >generation'))
        self.start(agent)
        harness.wait_until(self.entry.exists)
        self.assertEqual(self.runs(), [])
        self.helper(agent, expect=0)
        self.assertFalse(self.entry.exists())
        self.assertEqual((self.directory / "generation").read_text().strip(), agent.published("siem").generation)
        harness.wait_until(lambda: self.deployed(agent))

    def test_a_failure_is_asked_for_again(self):
        agent = self.hooked(self.hook("exit 3"))
        self.start(agent)
        harness.wait_until(self.entry.exists)
        self.helper(agent, expect=1)
        harness.wait_until(lambda: ": exit 3" in (agent.status(NAME)["last_error"] or ""))
        self.script("")
        harness.wait_until(self.entry.exists)
        self.helper(agent, expect=0)
        harness.wait_until(lambda: self.deployed(agent))

    def test_hostile_entries_are_thrown_away(self):
        agent = self.hooked(self.hook(""))
        spool = self.base / "spool"
        victim = self.directory / "victim"
        victim.write_text("precious")
        self.entry.symlink_to(victim)
        for name in ("siem", "logs+siem;reboot", "..+siem", "logs+nobody", "x" * 255):
            (spool / name).write_text("{}")
        (spool / "large").write_bytes(b"x" * (1 << 20))
        os.mkfifo(spool / "pipe")
        (spool / "tree" / "below").mkdir(parents=True)
        (spool / os.fsdecode(b"bytes\xff")).write_text("")
        done = self.helper(agent)
        self.assertIn("discarded", done.stderr)
        self.assertEqual(list(spool.iterdir()), [])
        self.assertEqual(self.runs(), [])
        self.assertEqual(victim.read_text(), "precious")

    def test_a_configuration_that_others_may_write_is_not_obeyed(self):
        agent = self.hooked(self.hook(""))
        agent.config_file.chmod(0o666)
        self.entry.write_text("{}")
        self.assertEqual(self.helper(agent).returncode, 78)
        self.assertEqual(self.runs(), [])


if __name__ == "__main__":
    unittest.main()
