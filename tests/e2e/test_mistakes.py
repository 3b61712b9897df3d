"""Beginners' mistakes: messages and exit codes. Every message names its subject and a remedy."""

import os
import pathlib
import re
import shutil
import tempfile
import unittest

import harness

# arguments, exit code, part of the message
COMMAND_LINE = (
    (["sttus"], 64, "unknown command 'sttus'; did you mean status?"),
    (["recncile"], 64, "did you mean reconcile?"),
    (["frobnicate"], 64, "unknown command 'frobnicate'"),
    ([], 64, "a command is missing: run, reconcile"),
    (["catalog"], 64, "a command is missing: template, request, show"),
    (["catalog", "tmplate"], 64, "did you mean template?"),
    (["action", "formm"], 64, "did you mean form?"),
    (["plan", "--detailed-exit-code"], 64, "did you mean --detailed-exitcode?"),
    (["status", "--chek"], 64, "unknown option '--chek'; did you mean --check?"),
    (["status", "--output", "xml"], 64, "'xml' is not one of text|json"),
    (["--log-level", "loud", "status"], 64, "'loud' is not one of debug|error|info|warn"),
    (["--log-format", "xml", "status"], 64, "--log-format: 'xml' is not one of"),
    (["run", "--deploy", "direkt"], 64, "'direkt' is not one of direct|unit"),
    (["completion"], 64, "SHELL (bash|zsh|fish) is missing"),
    (["completion", "tcsh"], 64, "'tcsh' is not one of bash|zsh|fish"),
    (["check", "again"], 64, "unexpected argument 'again'"),
    (["takeover", "now"], 64, "unexpected argument 'now'"),
    (["rotate"], 64, "rotate needs the name of a user. Run: exposure-agent rotate logs/siem-forwarder"),
    (["rollback"], 64, "Run: exposure-agent rollback logs/siem-forwarder"),
    (["deploy", "--force"], 64, "Run: exposure-agent deploy --force logs/siem-forwarder"),
    (["explain"], 64, "EXPOSURE/USER is missing"),
    (["rotate", "siem"], 64, "'siem' is not a user name (EXPOSURE/USER); did you mean logs/siem-forwarder?"),
    (["rotate", "siem-forwarder"], 64, "did you mean logs/siem-forwarder?"),
    (["rotate", "siem-forwardr"], 64, "did you mean logs/siem-forwarder?"),
    (["rotate", "logs"], 64, "'logs' is not a user name"),
    (["rotate", "logs/"], 64, "'logs/' is not a user name"),
    (["rotate", "/siem-forwarder"], 64, "did you mean logs/siem-forwarder?"),
    (["rotate", "logs/siem-forwarder/x"], 64, "did you mean logs/siem-forwarder?"),
    (["rotate", "logs/siem-forwardr"], 64, "logs/siem-forwardr is not in the configuration; did you mean logs/siem-forwarder?"),
    (["rotate", "log/siem-forwarder"], 64, "did you mean logs/siem-forwarder?"),
    (["status", "siem"], 64, "did you mean logs/siem-forwarder?"),
    (["plan", "logs/nobody"], 64, "logs/nobody is not in the configuration"),
    (["explain", "siem"], 64, "did you mean logs/siem-forwarder?"),
    (["reconcile", "logs/nobody"], 64, "logs/nobody is not in the configuration"),
    (["reconcile", "--timeout", "soon"], 64, "--timeout: 'soon' is not a valid duration (for example 90s, 15m or 2h)"),
    (["reconcile", "--timeout", ""], 64, "--timeout: '' is not a valid duration"),
    (["reconcile", "--timeout", "-5s"], 64, "-5s"),
    (["rotate", "--timeout", "15", "logs/siem-forwarder"], 64, "'15' is not a valid duration"),
    (["reconcile", "--timeout"], 64, "--timeout needs a value"),
    (["users", "lgs"], 64, "'lgs' is not an exposure in the configuration; did you mean logs?"),
    (["users", "logs/siem-forwarder"], 64, "is not an exposure in the configuration"),
    (["users", "delete"], 64, "users delete: ID is missing"),
    (["users", "delete", "logs"], 64, "users delete: ID is missing. To delete all orphans, add --orphans"),
    (["users", "delete", "logs", "x", "--orphans"], 64, "give ids or --orphans, not both"),
    (["users", "show", "logs"], 64, "ID is missing"),
    (["users", "show", "logs", "no-such-id"], 1, "logs: no user has the id no-such-id. Run: exposure-agent users logs"),
    (["instances", "log"], 64, "did you mean logs?"),
    (["users", "delete", "logs", "no-such-id", "--yes"], 1, "logs: no user has the id no-such-id; nothing was deleted"),
    (["rollback", "logs/siem-forwarder"], 1, "logs/siem-forwarder: no previous certificate"),
    (["catalog", "template"], 64, "ITEM is missing"),
    (["catalog", "template", "item", "--business-group", "bg"], 78, "catalog.base_url is not set"),
    (["catalog", "request", "item"], 64, "--business-group"),
    (["-c", "x", "status"], 64, "--config was given more than once"),
)

# a change of the file and the message of `check` for it (always with FILE:LINE:COLUMN, and exit code 78)
WRONG_FILES = (
    ("consumer_group", "consumer_grp", "did you mean consumer_group|consumer_group"),
    ('"logs"', '"Logs!"', "Logs!"),
    ('"log"', '"logs-variant"', "log, health or lifecycle|log \\| health|health"),
    ("ecdsa-p256", "ecdsa-p265", "ecdsa-p256"),
    ("team@example.com", "team", "mail"),
    ("https://", "ftp://", "https"),
    ('"1s"', '"soon"', "soon"),
    ('"version": 1', '"version": 2', "version"),
    ('"owner": "web-01"', '"owner": "web 01"', "owner"),
    ('"tenant"', '"tennant"', "tenant"),
    ('"client_secret": {', '"client_secret": "secret", "x": {', "client_secret"),
)


class MistakesTest(harness.PlatformCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.host = cls.enterClassContext(harness.Agent(cls.platform, users=["siem-forwarder", "backup"]))
        cls.host.run("reconcile", expect=0)

    def setUp(self):
        """No reset: the users of `host` stay."""

    def test_command_line(self):
        for arguments, code, words in COMMAND_LINE:
            with self.subTest(arguments=arguments):
                done = self.host.run(*arguments, expect=code)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assert_form(done.stderr)

    def test_wrong_files(self):
        good = self.host.config_file.read_text()
        for before, after, words in WRONG_FILES:
            with self.subTest(change=after):
                self.assertIn(before, good)
                wrong = self.agent("siem-forwarder", "backup", login=False)
                wrong.config_file.write_text(wrong.config_file.read_text().replace(before, after))
                done = wrong.run("check", expect=78)
                self.assertRegex(done.stdout, rf"(?m)^{re.escape(str(wrong.config_file))}:\d+:\d+: ")
                self.assertRegex(done.stdout, words)

    def test_before_the_first_login(self):
        fresh = self.agent("siem", login=False)
        for verb in ("reconcile", "plan", "users"):
            with self.subTest(verb):
                self.assertIn("exposure-agent login", fresh.run(verb, expect=77).stderr)
        shown = fresh.run("status", expect=0).stdout
        self.assertIn("exposure-agent login", shown)
        self.assertIn("0 of 1 user up to date", shown)

    def test_no_file(self):
        done = harness.subprocess.run([harness.built("exposure-agent"), "-c", "/nowhere/agent.yaml", "status"],
                                      capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 78)
        self.assertIn("/nowhere/agent.yaml:1:1: not found; create it with `exposure-agent init`", done.stderr)

    def test_standard_output_is_full(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = harness.subprocess.run(self.host.command("status"), stdout=full, stderr=harness.subprocess.PIPE,
                                          text=True, env=self.host.environment(), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write to standard output: No space left on device", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_without_sudo(self):
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)
            program = pathlib.Path(directory) / "exposure-agent"
            program.write_bytes(harness.built("exposure-agent").read_bytes())
            program.chmod(0o755)
            os.chmod(self.host.directory, 0o755)
            for verb in ("reconcile", "plan", "status"):
                with self.subTest(verb):
                    done = harness.subprocess.run([program, "-c", self.host.config_file, verb], user=65534, group=65534,
                                                  capture_output=True, text=True, check=False,
                                                  env=self.host.environment())
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn("sudo", done.stderr)

    def test_everything_is_well(self):
        self.assertIn("2 of 2 users up to date", self.host.run("reconcile", expect=0).stdout)
        self.assertIn("No changes. The platform and this host match the configuration.",
                      self.host.run("plan", expect=0).stdout)
        for verb in (["status"], ["plan"], ["users"], ["instances"], ["doctor"], ["check"], ["token"], ["takeover"],
                     ["explain", "logs/backup"], ["--help"], ["deploy"]):
            with self.subTest(verb=verb):
                self.assert_form(self.host.run(*verb, expect=0).stdout)

    def test_every_member_of_the_json_is_in_the_manual(self):
        manual = (harness.ROOT / "systemd/man/exposure-agent-json.7").read_text()
        remote_id = self.host.status("logs/backup")["remote_id"]

        def members(value):
            if isinstance(value, dict):
                for key, inner in value.items():
                    yield key
                    yield from members(inner)
            elif isinstance(value, list):
                for inner in value:
                    yield from members(inner)

        for verb in (["status"], ["plan"], ["users"], ["instances"], ["doctor"], ["check"], ["token"], ["reconcile"],
                     ["users", "show", "logs", remote_id, "--certificate"], ["explain", "logs/backup"]):
            with self.subTest(verb=verb):
                shown = self.host.json(*verb)
                self.assertIn(shown.pop("schema"), manual)
                shown.pop("facts", None)
                for member in set(members(shown)):
                    self.assertRegex(manual, rf"\b{member}\b")

    @unittest.skipUnless(shutil.which("jq"), "needs jq")
    def test_the_manuals_recipes_work(self):
        manual = (harness.ROOT / "systemd/man/exposure-agent-json.7").read_text()
        recipes = re.findall(r"(?m)^exposure-agent (.*) \| (jq .*)$", manual.replace("\\(aq", "'").replace("\\e", "\\").replace("\\-", "-"))
        self.assertGreater(len(recipes), 4)
        for command, recipe in recipes:
            if "action values" in command or " ID " in command:
                continue  # needs a catalog or an id
            with self.subTest(command):
                shown = self.host.run(*command.split()).stdout
                harness.subprocess.run(["sh", "-c", recipe], input=shown, text=True, check=True, stdout=harness.subprocess.DEVNULL)


if __name__ == "__main__":
    unittest.main()
