"""The Ansible role: lint, its examples, and roll-outs to a booted machine over SSH.

A transcript of all commands and their output is written to ansible-KEEPER-OR-READER.txt in the build directory.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import tempfile
import unittest

import support
from machine import Machine
from package_test import rebuilt

sys.path.insert(0, str(support.SOURCE / "tests/e2e"))
import harness

ROLE = support.SOURCE / "systemd/ansible"
EXAMPLES = ("keeper-01.example.com", "web-20.example.com")
UNIT = "exposure-agent.service"
CONFIGURATION = "/etc/exposure-agent/agent.yaml"
CA_FILE = "/etc/exposure-agent/platform-ca.pem"
PUBLISHED = "/var/lib/exposure-agent/published-token"
KEEPER, READER, NEXT = "keeper-01.example.com", "reader-01.example.com", "reader-02.example.com"
YAMLLINT = "{extends: default, rules: {line-length: {max: 120}}}"


def ansible(program, *arguments, home, **environment):
    """Runs a program of Ansible with the defaults of ansible-core and without this account's settings."""
    support.require(program)
    settings = pathlib.Path(home, "ansible.cfg")
    settings.touch()
    return support.run(program, *arguments, check=False, cwd=ROLE, env={
        **os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_CONFIG": str(settings), "ANSIBLE_HOME": f"{home}/ansible",
        "ANSIBLE_NOCOLOR": "1", "NO_COLOR": "1", **environment})


class role(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(tempfile.TemporaryDirectory())

    def test_ansible_lint_finds_no_fault(self):
        # in a copy, because it looks for a Git repository and leaves a cache
        copy = pathlib.Path(self.home, "role")
        shutil.copytree(ROLE, copy)
        done = ansible("ansible-lint", "--offline", "--strict", "--profile", "production", "--project-dir", copy,
                       copy / "site.yml", copy / "roles/exposure_agent", home=self.home)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_yamllint_finds_no_fault(self):
        done = ansible("yamllint", "--strict", "-d", YAMLLINT, ".", home=self.home)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_example_inventory_makes_valid_configurations(self):
        support.require_program(support.PROGRAM)
        done = ansible("ansible", "-i", "inventory", "all", "--limit", ",".join(EXAMPLES), "-c", "local", "-m",
                       "ansible.builtin.template", "-a", "src=roles/exposure_agent/templates/agent.yaml.j2 "
                       f"dest={self.home}/{{{{ inventory_hostname }}}} validate='{support.PROGRAM} --config %s check'",
                       home=self.home)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        keeper, reader = (pathlib.Path(self.home, host).read_text() for host in EXAMPLES)
        self.assertIn("publish:", keeper)
        self.assertIn("access_token:", reader)


class rollout(unittest.TestCase):
    """One machine at a time, as keeper or as reader; connections to the other hosts of the inventory are recorded."""

    @classmethod
    def setUpClass(cls):
        support.require_root()
        support.require("ansible-playbook", "ssh", "ssh-keygen", "mmdebstrap", "systemd-nspawn")
        support.require_program(support.SIMULATOR)
        cls.deb = support.package()

    def setUp(self):
        self.root = self.enterContext(support.bootable_root(self.deb))
        self.simulator = self.enterContext(harness.Simulator())
        self.home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.variables = {"all": {
            "exposure_agent_timeout": "90s",
            "exposure_agent_config": {
                "version": 1, "owner": "web-01",
                "network": {"ca_file": CA_FILE, "timeout": "10s"},
                "defaults": {"contact": "team@example.com", "key": "ecdsa-p256"},
                "exposures": [{"name": "logs", "variant": "log", "base_url": self.simulator.service_url("log"),
                               "tenant": harness.TENANT,
                               "users": [{"name": "siem-forwarder", "consumer_group": "siem"}]}]},
        }, "keepers": {
            "exposure_agent_identity": {
                "auth_url": self.simulator.auth_url(), "client_id": harness.CLIENT_ID,
                "client_secret": {"file": "/etc/exposure-agent/client-secret"}, "redirect_url": harness.REDIRECT_URL,
                "publish": {"command": ["/usr/bin/dd", f"of={PUBLISHED}", "status=none"]}},
            "exposure_agent_secrets": {"client-secret": harness.CLIENT_SECRET},
        }, "readers": {
            "exposure_agent_identity": {"access_token": {"command": ["/usr/bin/cat", "/etc/exposure-agent/token"]}},
            "exposure_agent_secrets": {"token": self.simulator.access_token()},
        }}

    def boot(self, host):
        """Boots the machine as this host of the inventory; the others cannot be reached."""
        self.machine = Machine(self.root, support.BUILD / f"ansible-{host.split('-')[0]}.txt")
        self.addCleanup(self.machine.stop)
        key = self.home / "key"
        support.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        self.machine.write("/root/.ssh/authorized_keys", key.with_suffix(".pub").read_text(), 0o600)
        self.machine.write(CA_FILE, self.simulator.ca_file.read_text())
        self.machine.run("mkdir", "-p", "/run/sshd")
        self.contacted = self.home / "contacted"
        other = harness.write_program(self.home / "other", f"touch {self.contacted}; exit 1")
        # the machine shares the host's network: sshd serves connections on standard input instead of a port
        sshd = ["setsid", *self.machine.enter("/usr/sbin/sshd", "-i", "-o", "UsePAM=no")]
        ways = {KEEPER: other, READER: other, NEXT: other, host: shlex.join(sshd)}
        common = {"ansible_user": "root", "ansible_ssh_private_key_file": str(key),
                  "ansible_python_interpreter": "/usr/bin/python3", **self.variables["all"]}
        self.inventory = self.home / "inventory.json"
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ProxyCommand="
        self.inventory.write_text(json.dumps({"all": {"vars": common, "children": {group: {
            "vars": self.variables[group],
            "hosts": {name: {"ansible_ssh_common_args": f"{options}'{ways[name]}'"} for name in names},
        } for group, names in (("keepers", [KEEPER]), ("readers", [READER, NEXT]))}}}))

    def play(self, *arguments, expect=0, **variables):
        """Runs the playbook; returns its output and the number of changes at each host that was reached."""
        extra = self.home / "extra.json"
        extra.write_text(json.dumps(variables))
        try:
            done = ansible("ansible-playbook", "-i", self.inventory, "-e", f"@{extra}", *arguments, "site.yml",
                           home=self.home, ANSIBLE_PIPELINING="1", ANSIBLE_SSH_CONTROL_PATH_DIR=str(self.home / "ssh"))
        finally:
            self.close_connections()
        shown = done.stdout + done.stderr
        self.machine.note(f"ansible-playbook {shlex.join(arguments)} {json.dumps(variables)}\n{shown}")
        self.assertEqual(done.returncode, expect, shown)
        for secret in (harness.CLIENT_SECRET, *self.variables["readers"]["exposure_agent_secrets"].values()):
            self.assertNotIn(secret, shown)
        recap = re.findall(r"(?m)^(\S+) +: ok=.* changed=(\d+)", shown)
        return shown, {host: int(changes) for host, changes in recap}

    def close_connections(self):
        """Ends the connections that Ansible keeps open for its next run: none may outlive the machine."""
        for socket in self.home.glob("ssh/*"):
            support.run("ssh", "-F", "none", "-o", f"ControlPath={socket}", "-O", "exit", "machine")

    def config(self, **change):
        return {**self.variables["all"]["exposure_agent_config"], **change}

    def assert_served(self, login):
        """The agent runs now and after a boot, its user has a certificate, and nothing needs attention."""
        self.machine.wait_until(lambda: self.machine.show(UNIT, "ActiveState") == "active", "the service is active")
        self.assertEqual(self.machine.run("systemctl", "is-enabled", UNIT).stdout.strip(), "enabled")
        status = json.loads(self.machine.run("exposure-agent", "status", "--check", "-o", "json").stdout)
        self.assertEqual((status["login"], [user["state"] for user in status["users"]]), (login, ["valid"]))

    def stat(self, path):
        return self.machine.run("stat", "-c", "%U:%G %a", path).stdout.strip()

    def version(self):
        return self.machine.run("dpkg-query", "-W", "-f", "${Version}", "exposure-agent").stdout

    def test_keeper_from_a_package_file(self):
        self.boot(KEEPER)
        deb = {"exposure_agent_deb": str(self.deb)}

        with self.subTest("before its login: the agent runs, the playbook says what to do and stops"):
            told, reached = self.play(expect=2, **deb)
            self.assertIn("exposure-agent login", told)
            self.assertEqual(list(reached), [KEEPER])
            self.assertFalse(self.contacted.exists())
            self.machine.wait_until(lambda: self.machine.show(UNIT, "ActiveState") == "active", "the service is active")

        with self.subTest("after its login: every user is up to date, and the token is published"):
            self.machine.run("exposure-agent", "login", "--code", self.simulator.code())
            self.play("--limit", "keepers", **deb)
            self.assert_served("ok")
            self.assertEqual(self.stat("/etc/exposure-agent/client-secret"), "exposure-agent:root 600")
            self.assertEqual(self.stat(CONFIGURATION), "root:root 644")
            self.assertTrue(self.machine.inside(PUBLISHED).read_text())

        with self.subTest("a second run changes nothing"):
            self.assertEqual(self.play("--limit", "keepers", **deb)[1], {KEEPER: 0})

        with self.subTest("an unknown key: `check` rejects it, nothing changes, and no other host is reached"):
            file, process = self.machine.inside(CONFIGURATION), self.machine.show(UNIT, "MainPID")
            before = (file.read_bytes(), file.stat().st_ino, file.stat().st_mtime_ns)
            wrong = self.config(reconcile={"intervall": "10m"})
            told, reached = self.play(expect=2, exposure_agent_config=wrong, **deb)
            self.assertRegex(told, r'"exit_status": 78,.*unknown key \\"intervall\\"; did you mean `interval`\?')
            self.assertEqual(reached, {KEEPER: 0})
            self.assertFalse(self.contacted.exists())
            self.assertEqual((file.read_bytes(), file.stat().st_ino, file.stat().st_mtime_ns), before)
            self.assertEqual(self.machine.show(UNIT, "MainPID"), process)
            self.assert_served("ok")

        with self.subTest("a new configuration is in force without a restart"):
            self.play("--limit", "keepers", exposure_agent_config=self.config(reconcile={"interval": "10m"}), **deb)
            self.assertIn("interval: 10m", self.machine.inside(CONFIGURATION).read_text())
            self.assertEqual(self.machine.show(UNIT, "MainPID"), process)
            self.assert_served("ok")

        with self.subTest("upgrade, and roll-back to the package and the configuration of before"):
            version = self.version()
            self.play("--limit", "keepers", exposure_agent_deb=str(rebuilt(self.deb, "99.1")))
            self.assertEqual(self.version(), "99.1")
            self.assert_served("ok")
            self.play("--limit", "keepers", **deb)
            self.assertEqual((self.version(), file.read_bytes()), (version, before[0]))
            self.assert_served("ok")

    def test_reader_from_an_apt_source(self):
        support.require("dpkg-scanpackages")
        repository = self.root / "srv/repository"
        repository.mkdir()
        shutil.copy(self.deb, repository)
        (repository / "Packages").write_text(support.run("dpkg-scanpackages", ".", cwd=repository).stdout)
        (self.root / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/srv/repository ./\n")
        self.boot(READER)
        with self.subTest("a mistake ends the roll-out at the first reader"):
            told, reached = self.play("--limit", "readers", expect=2, exposure_agent_config=self.config(nonsense=1))
            self.assertIn("unknown key", told)
            self.assertEqual(list(reached), [READER])
            self.assertFalse(self.contacted.exists())
            self.assertEqual(self.machine.show(UNIT, "ActiveState"), "inactive")

        with self.subTest("with the token of a keeper, every user is up to date"):
            self.play("--limit", READER)
            self.assert_served("external")
            self.assertEqual(self.stat("/etc/exposure-agent/token"), "exposure-agent:root 600")

        with self.subTest("a second run changes nothing, and goes on to the next reader"):
            told, reached = self.play("--limit", "readers", expect=4, exposure_agent_version=self.version())
            self.assertEqual(reached[READER], 0)
            self.assertIn(f"fatal: [{NEXT}]: UNREACHABLE!", told)
            self.assertTrue(self.contacted.exists())


if __name__ == "__main__":
    support.main()
