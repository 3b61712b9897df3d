"""The first hour: `init` writes a working configuration, from options or from questions; then login and status."""

import os
import pty
import re
import select
import stat
import subprocess
import unittest

import harness


class InitTest(harness.PlatformCase):
    def setUp(self):
        super().setUp()
        self.directory = self.scratch()
        self.file = self.directory / "etc/agent.yaml"
        self.secret = self.directory / "secret"
        self.secret.touch(mode=0o600)
        self.secret.write_text(harness.CLIENT_SECRET + "\n")
        self.environment = {"PATH": os.environ["PATH"], "STATE_DIRECTORY": str(self.directory / "state")}

    def run_agent(self, *arguments, expect=0):
        done = subprocess.run([harness.built("exposure-agent"), "-c", self.file, *arguments], text=True, check=False,
                              stdin=subprocess.DEVNULL, capture_output=True, env=self.environment)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def options(self, **changed):
        given = {"auth-url": self.platform.auth_url(), "client-id": harness.CLIENT_ID,
                 "client-secret-file": self.secret, "base-url": self.platform.service_url("log"),
                 "user": "siem-forwarder", "contact": "soc@example.com", "ca-file": self.platform.ca_file, **changed}
        return [text for name, value in given.items() if value for text in (f"--{name}", str(value))]

    def test_the_first_hour(self):
        said = self.run_agent("init", *self.options()).stdout
        self.assertIn(f"Wrote {self.file}.", said)
        self.assertIn("login", said)
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o644)
        self.assertIn("ok (1 exposure, 1 user)", self.run_agent("check").stdout)
        self.assertIn("exposure-agent login", self.run_agent("status").stdout)
        token = self.directory / "token"
        token.touch(mode=0o600)
        token.write_text(self.platform.refresh_token())
        self.run_agent("login", "--refresh-token-file", token)
        self.assertIn("1 of 1 user up to date", self.run_agent("reconcile").stdout)
        shown = self.run_agent("status").stdout
        self.assertRegex(shown, r"logs/siem-forwarder +valid")
        transcript = "".join(f"    {line}\n" for line in shown.splitlines())  # as shown in the README
        self.assertIn(re.sub(r"\d+ d", "N d", transcript),
                      re.sub(r"\d+ d", "N d", (harness.ROOT / "README.md").read_text()))

    def test_an_existing_file_is_left_alone(self):
        self.file.parent.mkdir()
        self.file.write_text("mine\n")
        self.assertIn("already exists", self.run_agent("init", *self.options(), expect=1).stderr)
        self.assertEqual(self.file.read_text(), "mine\n")
        self.run_agent("init", "--force", *self.options())
        self.run_agent("check")

    def test_what_is_missing_is_named(self):
        said = self.run_agent("init", "--no-input", expect=64).stderr
        for flag in ("--auth-url", "--client-id", "--client-secret-file", "--base-url", "--user", "--contact"):
            self.assertIn(flag, said)
        self.assertFalse(self.file.exists())

    def test_what_does_not_work_is_not_written(self):
        for changed, code, words in (({"client-id": "nobody"}, 77, "client"),
                                     ({"ca-file": None}, 69, "certificate"),
                                     ({"base-url": "https://127.0.0.1:9/les"}, 69, "127.0.0.1:9"),
                                     ({"user": "Two Words"}, 64, "--user"),
                                     ({"variant": "logs"}, 64, "--variant"),
                                     ({"contact": "team"}, 64, "--contact"),
                                     ({"client-secret-file": "/nowhere/secret"}, 64, "/nowhere/secret: not found")):
            with self.subTest(changed=changed):
                self.assertIn(words, self.run_agent("init", *self.options(**changed), expect=code).stderr)
                self.assertFalse(self.file.exists())

    def test_questions(self):
        answers = [("Address of the login server", self.platform.auth_url()),
                   ("certificate", None),  # explains why the address is not trusted
                   ("File with the CA", str(self.platform.ca_file)),
                   ("OAuth client id", harness.CLIENT_ID), ("OAuth client secret", harness.CLIENT_SECRET),
                   ("Redirect address", ""), ("Tenant", ""), ("What to consume", "everything"), ("What to consume", ""),
                   ("Address of the event exposure service", self.platform.service_url("log")),
                   ("Name for this exposure", ""), ("Name for the consumer", "siem"), ("consumer group", ""),
                   ("E-mail", "soc@example.com"), ("broker", "")]
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(harness.built("exposure-agent"), ["exposure-agent", "-c", str(self.file), "init"], self.environment)
        seen = shown = ""
        for question, answer in answers:
            while question not in shown:
                self.assertTrue(select.select([terminal], [], [], 20)[0], f"no question {question}: {seen}")
                shown += os.read(terminal, 4096).decode()
            seen += shown
            shown = shown.split(question, 1)[1]
            if answer is not None:
                os.write(terminal, f"{answer}\n".encode())
        while True:
            try:
                seen += os.read(terminal, 4096).decode()
            except OSError:
                break
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, seen)
        self.assertNotIn(harness.CLIENT_SECRET, seen)
        written = self.file.parent / "client-secret"
        self.assertEqual(written.read_text(), harness.CLIENT_SECRET + "\n")
        self.assertEqual(stat.S_IMODE(written.stat().st_mode) & 0o007, 0)
        self.run_agent("check")
        self.assertIn(f"tenant: {harness.TENANT}", self.file.read_text())


if __name__ == "__main__":
    unittest.main()
