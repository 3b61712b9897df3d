"""`check` beyond the file itself: things it names that this host does not have, each with a position and a remedy."""

import pathlib
import re
import subprocess
import tempfile
import unittest

import harness

FILE = """
identity:
  auth_url: https://login.example.com/SAAS/t/orion-123
  client_id: exposure-automation
  client_secret: {client_secret}
network: {{proxy_auth: {{username: agent, password: {password}}}}}
exposures:
  - name: logs
    variant: log
    base_url: https://les.example.com
    tenant: orion-123
    users:
      - name: siem
        consumer_group: siem
        contact: soc@example.com
        output: {{directory: {directory}, owner: {owner}, group: {group}}}
        hooks: [{hook}]
"""


class CheckTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.secret = self.directory / "secret"
        self.secret.write_text("s3cret")
        self.secret.chmod(0o600)
        self.program = self.directory / "after"
        self.program.write_text("#!/bin/sh\n")
        self.program.chmod(0o755)

    def check(self, environment=None, code=0, **changes):
        """The warnings about a file that is valid in itself."""
        values = {"client_secret": f"{{file: {self.secret}}}", "password": f"{{file: {self.secret}}}",
                  "directory": "/var/lib/exposure-agent/live/elsewhere", "owner": "root", "group": "root",
                  "hook": f"{{command: [{self.program}]}}", **changes}
        file = self.directory / "agent.yaml"
        file.write_text(FILE.format(**values))
        file.chmod(0o600)
        done = subprocess.run([harness.built("exposure-agent"), "-c", file, "check"], capture_output=True, text=True,
                              timeout=60, check=False, env={"PATH": "/usr/bin:/bin", **(environment or {})})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code == 78:
            self.assertNotIn(": ok", done.stdout)
            return done.stdout
        self.assertIn(": ok (1 exposure, 1 user)\n", done.stdout)
        for line in done.stderr.splitlines():
            self.assertRegex(line, rf"^{re.escape(str(file))}:\d+:\d+: .* \(warning\)$")
        self.assertNotIn("s3cret", done.stderr)
        return done.stderr

    def test_nothing_is_missing(self):
        self.assertEqual(self.check(), "")

    def test_secret_files(self):
        self.assertRegex(self.check(client_secret="{file: /nowhere/secret}"),
                         r":5:\d+: identity\.client_secret: /nowhere/secret does not exist")
        self.secret.write_text("")
        self.assertRegex(self.check(), r":6:\d+: network\.proxy_auth\.password: .*/secret is empty")
        self.secret.write_text("s3cret")
        self.secret.chmod(0o644)
        self.assertIn(f"is world-readable; run: chmod o= {self.secret}", self.check())

    def test_variables_and_credentials(self):
        told = self.check(client_secret="{env: NOT_SET_HERE}")
        self.assertIn("the environment variable NOT_SET_HERE is not set", told)
        told = self.check(client_secret="{env: EMPTY_HERE}", environment={"EMPTY_HERE": ""})
        self.assertIn("the environment variable EMPTY_HERE is empty", told)
        self.assertEqual(self.check(client_secret="{env: SET_HERE}", environment={"SET_HERE": "x"}), "")
        told = self.check(client_secret="{credential: no-such-credential}")
        self.assertIn("add LoadCredential=no-such-credential:PATH", told)

    def test_accounts(self):
        told = self.check(owner="no-such-user", group="no-such-group")
        self.assertRegex(told, r":16:\d+: logs/siem: output\.owner: this host has no user no-such-user")
        self.assertRegex(told, r":16:\d+: logs/siem: output\.group: this host has no group no-such-group")

    def test_hooks(self):
        self.assertRegex(self.check(hook="{restart: no-such-unit.service}"),
                         r":17:\d+: logs/siem: hook: this host has no unit no-such-unit\.service")
        self.assertIn("logs/siem: hook: /nowhere/after does not exist", self.check(hook="{command: [/nowhere/after]}"))
        self.program.chmod(0o644)
        self.assertIn(f"{self.program} is not an executable file; run: chmod 0755 {self.program}", self.check())

    def test_a_directory_is_no_hook(self):
        said = self.check(hook="{command: [/tmp]}")
        self.assertIn("/tmp is a directory", said)
        self.assertNotIn("chmod", said)  # a remedy that would open /tmp to nobody's use

    def test_sandbox(self):
        self.assertRegex(self.check(directory="/tmp/tls"), r":16:\d+: logs/siem: /tmp/tls is in the service's private /tmp")
        self.assertIn("/home/siem/tls is hidden from the service", self.check(directory="/home/siem/tls"))
        self.assertIn("/root/tls is hidden from the service", self.check(directory="/root/tls"))

    def test_the_sandbox_of_an_installed_service(self):
        """What it hides or makes read-only is a mistake; a drop-in opens it."""
        units = self.directory / "units"
        (units / "exposure-agent.service.d").mkdir(parents=True)
        (units / "exposure-agent.service").write_text("[Service]\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\n")
        installed = {"SYSTEMD_UNIT_PATH": str(units)}
        for directory, why in (("/etc/siem/tls", "is read-only for the service"), ("/home/siem/tls", "is hidden from the service"),
                               ("/tmp/tls", "is in the service's private /tmp")):
            with self.subTest(directory=directory):
                said = self.check(installed, 78, directory=directory)
                self.assertRegex(said, rf":16:\d+: logs/siem: {directory} {why}")
        self.check(installed)
        (units / "exposure-agent.service.d" / "output.conf").write_text("[Service]\nReadWritePaths=/etc/siem/tls\n")
        self.check(installed, directory="/etc/siem/tls")


if __name__ == "__main__":
    unittest.main()
