"""exposure-agent-runbook(7), walked: every chapter's situation is made, shows as the page says, and the page's commands end it.

A daemon runs throughout, as on a host. A chapter without a walk, and a command that no walk runs, fail.
"""

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import unittest

import harness
import test_disk
from harness import wait_until, write_program

PAGE = harness.ROOT / "systemd/man/exposure-agent-runbook.7"
NAME = "logs/siem-forwarder"  # the page's example
OTHERS = {"df", "systemctl", "timedatectl"}  # programs of the system
API = ["list_instances", "get_instance", "list_users", "get_user", "create_user", "delete_user"]


def chapters():
    """{title: its commands}, without sudo and comments."""
    text = PAGE.read_text().replace("\\-", "-").replace("\\(aq", "'")
    found = {}
    for chapter in re.split(r"(?m)^\.Sh ", text)[1:]:
        title, _, body = chapter.partition("\n")
        if title in ("NAME", "DESCRIPTION", "SEE ALSO"):
            continue
        blocks = re.findall(r"(?ms)^\.Bd -literal.*?\n(.*?)^\.Ed", body)
        found[title] = [line.split(" #")[0].strip().removeprefix("sudo ") for line in "".join(blocks).splitlines()]
    return found


def method(title):
    return "test_" + title.lower().replace(" ", "_")


class Host(harness.Agent):
    """An agent whose broker probe is ours, with a daemon, a page of metrics, and somebody who is told."""

    def __init__(self, platform, **user):
        self.programs = None
        super().__init__(platform, users=[{"name": "siem-forwarder", "consumer_group": "siem", **user}])
        self.told_file = self.directory / "told"
        pager = self.directory / "page-me"
        write_program(pager, f"cat >>{self.told_file}")
        self.directory.chmod(0o755)
        self.settings["notify"] = {"command": [str(pager)]}
        self.settings["metrics"] = {"listen": f"unix:{self.directory}/metrics.sock"}
        self.settings["reconcile"]["interval"] = "1s"
        self.write_config()
        self.daemon = None

    def with_broker(self, verdict, evidence):
        """The answer of a broker, by a probe in the place of the real one."""
        if self.programs is None:
            self.programs = self.directory / "bin"
            self.programs.mkdir()
            shutil.copy(harness.built("exposure-agent"), self.programs)
        answer = json.dumps({"verdict": verdict, "evidence": evidence})
        write_program(self.programs / "exposure-agent-probe", f"cat >/dev/null; echo '{answer}'")

    def command(self, *arguments):
        command = super().command(*arguments)
        return [str(self.programs / "exposure-agent") if self.programs else command[0], *command[1:]]

    def start_daemon(self):
        self.daemon = self.start("run")
        wait_until(lambda: self.listens() or self.daemon.poll() is not None)

    def stop_daemon(self):
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait(harness.RUN_TIMEOUT)
            self.daemon = None

    def told(self):
        lines = self.told_file.read_text().splitlines() if self.told_file.exists() else []
        return [f"{t['state']} {t['case']} {t['subject']}" for t in map(json.loads, lines)]

    def metric(self, name):
        """The first sample of this metric; not a number if there is none yet."""
        page = harness.scrape(self.directory / "metrics.sock")
        sample = re.search(rf"(?m)^exposure_agent_{name}(?:{{[^}}]*}})? (\S+)$", page)
        return float(sample[1]) if sample else math.nan


class RunbookTest(harness.PlatformCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.chapters = {method(title): commands for title, commands in chapters().items()}

    def setUp(self):
        super().setUp()
        self.left = list(self.chapters.get(self._testMethodName, []))
        self.page = list(self.left)

    def host(self, served=True, **user):
        host = Host(self.platform, **user)
        self.addCleanup(host.remove)
        if served:
            host.run("reconcile", expect=0)
        self.addCleanup(host.stop_daemon)
        host.start_daemon()
        self.host_ = host
        return host

    def done(self, command):
        self.assertIn(command, self.page, "the page does not say that")
        if command in self.left:
            self.left.remove(command)

    def do(self, command, expect=0, stdin=""):
        """Runs a command of the chapter, as it stands there."""
        self.done(command)
        return self.host_.run(*shlex.split(command)[1:], expect=expect, stdin=stdin)

    def login(self):
        self.do("exposure-agent login", stdin=f"{harness.REDIRECT_URL}?code={self.platform.code()}&userstore=1\n")

    def shows(self, verb, *words, expect=0):
        """What the situation looks like; a regular expression each."""
        def seen():
            done = self.host_.run(*verb.split(), expect=expect)
            text = done.stdout + done.stderr
            return all(re.search(w, text) for w in words) or text
        wait_until(lambda: seen() is True)

    def attention(self):
        self.assertEqual(self.host_.run("status", "--check").returncode, 1)

    def healthy(self, users=1):
        """The page was right: nothing wants a person, and every command of the chapter was run."""
        wait_until(lambda: self.host_.run("status", "--check").returncode == 0)
        self.assertIn(f"{users} of {users} user", self.host_.run("status", expect=0).stdout)
        self.assertTrue(self.host_.published("siem-forwarder").key_matches())
        self.all_done()

    def all_done(self):
        self.assertEqual([c for c in self.left if c.split()[0] not in OTHERS], [])

    # ---- the page itself

    def test_every_chapter_has_a_walk(self):
        self.assertGreaterEqual(len(self.chapters), 12)
        for name in self.chapters:
            self.assertTrue(hasattr(self, name), f"{name} is missing here")

    def test_every_command_exists(self):
        program = harness.built("exposure-agent")
        for commands in (*self.chapters.values(), ["exposure-agent status", "exposure-agent explain NAME"]):
            for command in commands:
                with self.subTest(command):
                    words = shlex.split(command)
                    if words[0] != "exposure-agent":
                        self.assertIn(words[0], OTHERS)
                        continue
                    shown = subprocess.run([program, words[1], "--help"], capture_output=True, text=True, check=True)
                    for option in (w for w in words if w.startswith("--")):
                        self.assertRegex(shown.stdout, rf"(?<![\w-]){option}\b")

    # ---- the chapters

    def test_the_login_is_over(self):
        host = self.host()
        self.platform.revoke_tokens()
        host.run("reconcile", expect=77)
        self.shows("status", r"Run: exposure-agent login")
        self.attention()
        for verb in ("users", "plan", "reconcile"):
            host.run(verb, expect=77)
        wait_until(lambda: host.metric("login_required") == 1)
        wait_until(lambda: "raised login login" in host.told())
        wait_until(lambda: "exposure-agent login" in host.log())
        self.assertEqual(host.status()["users"][0]["state"], "valid")  # certificates in use stay

        self.login()
        self.assertRegex(self.do("exposure-agent token").stdout, r"(?m)^login +ok")
        self.do("exposure-agent reconcile")
        wait_until(lambda: "over login login" in host.told())
        wait_until(lambda: host.metric("login_required") == 0)
        self.healthy()

    def test_the_role_was_withdrawn(self):
        host = self.host()
        self.platform.fault(operation=API, status=403, times=0)
        host.run("reconcile", expect=1)
        self.shows("status", "exposure logs: .*403 Forbidden")
        self.shows(f"explain {NAME}", "platform_error: .*403 Forbidden")
        self.attention()
        wait_until(lambda: "raised blocked logs" in host.told())
        wait_until(lambda: "403 Forbidden" in host.log())
        remedy = self.do("exposure-agent doctor", expect=1).stdout
        self.assertIn("log in again", remedy)

        self.platform.clear_faults()  # the operator grants it
        self.login()
        self.do("exposure-agent reconcile")
        wait_until(lambda: "over blocked logs" in host.told())
        self.healthy()

    def test_the_platform_is_down_for_a_week(self):
        host = self.host()
        self.platform.halt()
        self.addCleanup(lambda: self.platform._process.poll() is None or self.platform.start())
        host.run("reconcile", expect=69)
        self.shows("status", "exposure logs: .*; next retry in ")
        self.attention()
        self.assertIn("connect", host.log())
        self.assertIn("nothing listens", self.do("exposure-agent doctor", expect=1).stdout)
        self.assertIn("Nothing expires or rotates", self.do("exposure-agent status --due 7d").stdout)
        self.assertEqual(host.status()["login"], "ok")
        self.assertIn(NAME, host.run("status", "--due", "3650d", expect=0).stdout)

        self.platform.start()  # which has forgotten everything but its authorities: its users vanished at once
        host.run("reconcile")
        host.login()
        host.run("reconcile", "--accept-loss", expect=0)
        self.healthy()

    def test_the_disk_is_full(self):
        host = Host(self.platform)
        self.addCleanup(host.remove)
        self.host_ = host
        host.state_dir.rename(host.state_dir.with_suffix(".kept"))
        host.state_dir.mkdir(mode=0o711)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=0711", "tmpfs", host.state_dir],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"nothing can be mounted here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", host.state_dir], check=False)
        shutil.copytree(host.state_dir.with_suffix(".kept"), host.state_dir, dirs_exist_ok=True,
                        ignore=lambda _, names: [n for n in names if n.endswith(".sock")])
        host.run("reconcile", expect=0)
        self.addCleanup(host.stop_daemon)
        host.start_daemon()
        wait_until(lambda: host.status()["users"][0]["state"] == "valid")
        filler = test_disk.fill(host.state_dir)
        self.platform.clear_requests()
        host.run("rotate", NAME, expect=1)
        self.shows("status", rf"{host.state_dir}.*(no space|full|space left)")
        self.attention()
        checks = {c["name"]: c for c in host.json("doctor", expect=1)["checks"]}
        self.assertEqual(checks["state directory"]["verdict"], "failed")
        self.assertNotIn("create_user", self.platform.operations())
        self.assertTrue(host.published("siem-forwarder").key_matches())

        self.done("df -h /var/lib/exposure-agent")
        filler.unlink()
        self.do("exposure-agent reconcile")
        self.healthy()

    def test_the_broker_refuses_the_new_certificate(self):
        host = self.host()
        host.stop_daemon()
        first = host.published("siem-forwarder").generation
        host.settings["exposures"][0].update(broker="broker.example.com:9093")
        host.write_config()
        host.with_broker("not_authorized_topic", "topic logs-orion-123: not authorized")
        host.start_daemon()
        host.run("rotate", "--timeout", "10s", NAME, expect=1)
        self.shows("status", "the broker does not accept the new certificate")
        self.attention()
        said = self.do(f"exposure-agent explain {NAME}").stdout
        self.assertIn("topic logs-orion-123: not authorized", said)
        self.assertEqual(host.published("siem-forwarder").generation, first)
        self.assertEqual(len(self.platform.users()), 2)
        self.assertIn("topic logs-orion-123", self.do("exposure-agent doctor", expect=1).stdout)

        host.with_broker("accepted", "accepted")  # the operator grants it
        self.do(f"exposure-agent reconcile {NAME}")
        self.assertNotEqual(host.published("siem-forwarder").generation, first)
        self.healthy()

    def test_the_consumer_does_not_restart(self):
        restart = self.scratch() / "restart"
        write_program(restart, "exit 0")
        host = self.host(hooks=[{"command": [str(restart)]}])
        first = host.published("siem-forwarder").generation
        write_program(restart, "echo no such topic >&2; exit 3")
        host.run("rotate", NAME, expect=1)
        self.shows("status", r"failed", rf"{NAME}: hook failed \(\S+: exit 3: no such topic\); next retry (in|now).*\. Retry now: exposure-agent deploy {NAME}")
        self.attention()
        self.assertEqual(len(self.platform.users()), 2)
        self.assertIn("exit 3", host.run("history", expect=0).stdout)
        wait_until(lambda: host.metric("deploy_pending") == 1)

        # it cannot work with the new one, but with the previous one
        write_program(restart, f'[ "$EXPOSURE_GENERATION" = {first} ]')
        self.do(f"exposure-agent deploy {NAME}", expect=1)
        self.do(f"exposure-agent rollback {NAME}")
        self.assertEqual(host.published("siem-forwarder").generation, first)
        wait_until(lambda: host.run("status", "--check").returncode == 0)
        # or it is fixed
        write_program(restart, "exit 3")
        host.run("rotate", NAME, expect=1)
        write_program(restart, "exit 0")
        self.do(f"exposure-agent deploy {NAME}")
        self.assertNotEqual(host.published("siem-forwarder").generation, first)
        self.healthy()

    def test_a_certificate_has_expired(self):
        host = self.host()
        (user,) = self.platform.users()
        self.platform.fault(operation="create_user", status=403, times=0)
        self.platform.change_user(user["id"], fields={"expirationDate": "2020-01-01T00:00:00Z"})
        host.run("reconcile", expect=1)
        self.shows("status", rf"{NAME} +(expired|blocked)", "403 Forbidden")
        self.attention()
        self.assertIn("403 Forbidden", self.do(f"exposure-agent explain {NAME}").stdout)
        wait_until(lambda: any(t.endswith(NAME) for t in host.told()))
        wait_until(lambda: host.metric("certificate_not_after_timestamp_seconds") < time.time())

        self.platform.clear_faults()
        self.do("exposure-agent doctor")
        self.do(f"exposure-agent rotate {NAME}")
        self.healthy()

    def test_the_machine_was_cloned(self):
        host = self.host()
        host.stop_daemon()
        host.change_state("UPDATE kept SET value = ? WHERE name = 'installation'",
                          json.dumps({"owner": "web-01", "machine": "0" * 64}).encode())
        self.platform.clear_requests()
        host.start_daemon()
        self.shows("status", "copied from another machine", "exposure-agent takeover")
        self.attention()
        self.assertIn("copied from another machine", host.run("doctor", expect=1).stdout)
        wait_until(lambda: "raised blocked state directory" in host.told())
        self.assertFalse({"token", "create_user", "delete_user"} & set(self.platform.operations()))

        host.stop_daemon()
        self.do("exposure-agent takeover")
        host.start_daemon()
        self.do("exposure-agent reconcile")
        wait_until(lambda: "over blocked state directory" in host.told())
        self.healthy()

    def test_the_service_instance_is_gone(self):
        host = self.host()
        self.platform.delete_instances()
        host.run("reconcile", expect=1)
        self.shows("status", "is gone from the platform, so nothing is created")
        self.attention()
        self.assertNotIn("No changes", host.run("plan").stdout)
        wait_until(lambda: "raised blocked logs" in host.told())
        wait_until(lambda: "is gone from the platform" in host.log())
        self.assertIn("No exposure has a service instance", self.do("exposure-agent instances").stdout)
        self.do("exposure-agent users logs")

        self.do("exposure-agent reconcile --accept-loss")
        wait_until(lambda: "over blocked logs" in host.told())
        self.healthy()

    def test_the_budget_is_spent(self):
        host = self.host()
        host.stop_daemon()
        host.settings["reconcile"]["max_creates_per_user"] = 1
        host.write_config()
        host.start_daemon()
        self.platform.delete_users()
        host.run("reconcile", expect=1)
        self.shows("status", rf"{NAME} +blocked", "max_creates_per_user")
        self.assertEqual(host.status(NAME)["reason"], "budget_spent")
        self.attention()
        self.assertIn("budget_spent", self.do(f"exposure-agent explain {NAME}").stdout)
        wait_until(lambda: f"raised blocked {NAME}" in host.told())
        self.do("exposure-agent users logs")

        self.do(f"exposure-agent rotate {NAME}")
        wait_until(lambda: f"over blocked {NAME}" in host.told())
        self.healthy()

    def test_the_configuration_is_wrong(self):
        host = self.host()
        right = host.config_file.read_text()
        wrong = right.replace('"consumer_group"', '"consumer_grp"')
        host.config_file.write_text(wrong)
        wait_until(lambda: re.search(rf"{host.config_file}:\d+:\d+: .*consumer_grp", host.log()))
        for verb in ("plan", "reconcile", "users"):
            host.run(verb, expect=78)
        shown = host.run("status", expect=78)  # the last configuration in force
        self.assertRegex(shown.stdout, rf"{NAME} +valid")
        self.assertRegex(self.do("exposure-agent check", expect=78).stdout, r":\d+:\d+: .*did you mean `consumer_group`")
        self.assertEqual(len(self.platform.users()), 1)

        host.config_file.write_text(right)
        self.do("exposure-agent check")
        self.assertIn("No changes", self.do("exposure-agent plan").stdout)
        self.done("systemctl reload exposure-agent")
        host.daemon.send_signal(signal.SIGHUP)
        self.healthy()

    def test_the_clock_is_wrong(self):
        host = self.host()
        self.platform.behave(clock_offset_s=-3600)
        host.run("reconcile", expect=1)
        self.shows("status", "this host's clock is (59 min|60 min|1 h) ahead of the platform's")
        self.attention()
        checks = {c["name"]: c for c in host.json("doctor", expect=1)["checks"]}
        self.assertEqual(checks["clock"]["verdict"], "failed")
        before = len(self.platform.users())
        host.run("rotate", NAME, expect=1)
        self.assertEqual(len(self.platform.users()), before)

        self.platform.behave(clock_offset_s=0)
        self.do("exposure-agent reconcile")
        self.healthy()

    def test_notifications_do_not_arrive(self):
        host = self.host()
        pager = host.directory / "page-me"
        write_program(pager, "cat >/dev/null; echo no modem >&2; exit 3")
        self.platform.revoke_tokens()
        host.run("reconcile", expect=77)
        wait_until(lambda: host.status()["notify"]["last_error"])
        self.assertRegex(self.do("exposure-agent status").stdout, "notification not sent: .*exit 3: no modem")
        self.attention()
        wait_until(lambda: host.metric("notify_failing") == 1)
        self.assertIn("no modem", self.do("exposure-agent notify --test", expect=1).stderr)

        write_program(pager, f"cat >>{host.told_file}")
        self.do("exposure-agent notify --test")
        self.assertIn("test test", " ".join(host.told()))
        host.login()
        host.run("reconcile", expect=0)
        self.healthy()

    def test_a_host_is_taken_out_of_service(self):
        host = self.host()
        host.settings["exposures"][0]["users"][0]["rotation"] = {"retire_after": "1h"}
        host.write_config()
        host.run("reconcile", expect=0)
        host.run("decommission", "--yes", expect=0)
        self.shows("status", "is being decommissioned", "removing")
        self.do("exposure-agent decommission --undo")  # before the end
        wait_until(lambda: host.status(NAME)["state"] == "valid")

        said = self.host_.run("decommission", "--now", expect=64).stderr  # off a terminal, a person confirms
        self.assertIn("--yes", said)
        self.done("exposure-agent decommission --now")
        host.run("decommission", "--now", "--yes", expect=0)
        self.assertIn("This host was decommissioned", self.do("exposure-agent status").stdout)
        self.assertEqual(self.platform.users(), [])
        tokens = json.loads(host.stored_tokens())["tokens"]
        self.assertEqual((tokens["access_token"], tokens["refresh_token"]), ("", ""))
        self.assertFalse(os.path.lexists(host.published("siem-forwarder").current))
        self.all_done()


if __name__ == "__main__":
    unittest.main()
