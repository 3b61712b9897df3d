"""The package under a real systemd: what an operator does in the first hour, and what can go wrong.

A transcript of all commands and their output is written to boot-transcript-SUITE.txt in the build directory.
"""

import json
import re
import shutil
import socket
import sys
import unittest

import support
from machine import Machine
from monitoring_test import METRICS

sys.path.insert(0, str(support.SOURCE / "tests/e2e"))
import harness

UNIT, DEPLOY = "exposure-agent.service", "exposure-agent-deploy.service"
CONFIGURATION = "/etc/exposure-agent/agent.yaml"
CA_FILE = "/etc/exposure-agent/platform-ca.pem"
NAME = "logs/siem-forwarder"
LIVE = f"/var/lib/exposure-agent/live/{NAME}"
# exec: a start returns when the credentials are there
CONSUMER = f"""[Service]
Type=exec
LoadCredential=client.crt:{LIVE}/current/fullchain.pem
LoadCredential=client.key:{LIVE}/current/key.pem
User=daemon
ExecStart=/bin/sh -c 'sha256sum < "$CREDENTIALS_DIRECTORY/client.crt"; exec sleep infinity'
"""


class boot(unittest.TestCase):
    suite = support.HOST

    def setUp(self):
        deb = support.package()
        support.require_program(support.SIMULATOR)
        self.root = self.enterContext(support.bootable_root(deb, self.suite))
        shutil.copy(deb, self.root / "root/package.deb")
        self.simulator = self.enterContext(harness.Simulator())
        self.machine = Machine(self.root, support.BUILD / f"boot-transcript-{self.suite}.txt")
        self.addCleanup(self.machine.stop)
        self.settings = {
            "version": 1,
            "owner": "web-01",
            "identity": {"auth_url": self.simulator.auth_url(), "client_id": harness.CLIENT_ID,
                         "client_secret": {"credential": "client-secret"}, "redirect_url": harness.REDIRECT_URL},
            "network": {"ca_file": CA_FILE, "timeout": "10s"},
            "metrics": {"listen": "unix:/run/exposure-agent/metrics.sock"},
            "defaults": {"contact": "team@example.com", "key": "ecdsa-p256"},
            "exposures": [{"name": "logs", "variant": "log", "base_url": self.simulator.service_url("log"),
                           "tenant": harness.TENANT, "users": [{"name": "siem-forwarder", "consumer_group": "siem",
                                                                "hooks": [{"restart": "consumer.service"}]}]}],
        }

    def run_in(self, *command, **options):
        return self.machine.run(*command, **options)

    def user(self, name=NAME):
        done = self.run_in("exposure-agent", "status", "-o", "json", check=False, quiet=True)
        users = json.loads(done.stdout)["users"] if done.stdout.startswith("{") else []
        return next((user for user in users if f"{user['exposure']}/{user['name']}" == name), {"state": "absent"})

    def converged(self, name=NAME):
        user = self.user(name)
        return user["state"] == "valid" and user["deploy"] in ("done", "none") and user

    def journal(self, *match):
        lines = self.run_in("journalctl", "--no-pager", "-o", "json", *match, quiet=True).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def configure(self):
        self.machine.write(CONFIGURATION, harness.to_yaml(self.settings) + "\n")

    def wait(self, condition, what):
        try:
            return self.machine.wait_until(condition, what)
        except AssertionError as failure:
            status = self.run_in("exposure-agent", "status", check=False).stdout
            log = self.run_in("journalctl", "--no-pager", "-o", "cat", "-n", "20", "-u", UNIT, check=False).stdout
            raise AssertionError(f"{failure}\n{status}\n{log}") from None

    def test_first_hour(self):
        self.install_without_configuration()
        self.start_and_log_in()
        self.consumer_reads_credentials()
        self.edit_rotates_and_restarts_the_consumer()
        self.consumer_that_dies_holds_on_to_the_old_user()
        self.wrong_edit_changes_nothing()
        self.operators_see_it()
        self.killed_it_comes_back()
        self.stuck_it_is_killed_and_comes_back()
        self.wrong_file_holds_up_hooks_but_loses_none()
        self.strange_spool_entries_do_no_harm()
        self.files_for_a_group()
        self.timer_instead_of_daemon()
        self.removal()

    def install_without_configuration(self):
        self.machine.note("Installed, but not configured: enabled, and quiet")
        self.run_in("dpkg", "--install", "/root/package.deb")
        self.assertEqual(self.machine.show(UNIT, "ActiveState"), "inactive")
        self.assertEqual(self.machine.show(UNIT, "ConditionResult"), "no")
        self.assertEqual(self.run_in("systemctl", "is-enabled", UNIT).stdout.strip(), "enabled")
        self.assertEqual(self.run_in("systemctl", "--failed", "--quiet").stdout, "")

    def start_and_log_in(self):
        self.machine.note("Written by init, which names a secret that the service cannot read")
        self.machine.write(CA_FILE, self.simulator.ca_file.read_text())
        self.run_in("install", "-m", "0600", "/dev/stdin", "/root/secret", stdin=harness.CLIENT_SECRET)
        told = self.run_in("exposure-agent", "init", "--no-input", "--output", "/root/agent.yaml",
                           "--auth-url", self.simulator.auth_url(), "--client-id", harness.CLIENT_ID,
                           "--client-secret-file", "/root/secret", "--ca-file", CA_FILE,
                           "--base-url", self.simulator.service_url("log"), "--user", "siem-forwarder",
                           "--contact", "team@example.com").stderr
        self.assertIn("/root/secret: the service (user exposure-agent) cannot read it.", told)
        self.assertNotIn(f"{CA_FILE}: ", told)
        self.machine.note("Configured, with an encrypted client secret; it waits for a login, then works")
        self.run_in("mkdir", "-p", "/etc/credstore.encrypted")
        self.run_in("systemd-creds", "encrypt", "--name=client-secret", "-",
                    "/etc/credstore.encrypted/exposure-agent.client-secret", stdin=harness.CLIENT_SECRET)
        for unit in (UNIT, "exposure-agent-reconcile.service"):
            self.run_in("mkdir", "-p", f"/etc/systemd/system/{unit}.d")
            self.run_in("cp", "/usr/share/doc/exposure-agent/examples/drop-ins/exposure-agent.service.d/client-secret.conf",
                        f"/etc/systemd/system/{unit}.d/")
        self.machine.write("/etc/systemd/system/consumer.service", CONSUMER)
        self.configure()
        self.run_in("exposure-agent", "check")
        self.run_in("systemctl", "daemon-reload")
        self.run_in("systemctl", "start", UNIT)
        self.assertEqual(self.machine.show(UNIT, "ActiveState"), "active")
        self.assertEqual(self.machine.show("exposure-agent-deploy.path", "ActiveState"), "active")
        self.run_in("exposure-agent", "login", "--code", self.simulator.code())
        self.wait(self.converged, f"{NAME} is valid")
        self.run_in("exposure-agent", "status")
        self.run_in("ls", "-la", f"{LIVE}/", f"{LIVE}/current/")

    def consumer_reads_credentials(self):
        self.machine.note("A consumer with LoadCredential=, of a user that may not read the agent's files")
        self.run_in("systemctl", "start", "consumer.service")
        self.assertNotEqual(self.run_in("setpriv", "--reuid=daemon", "--clear-groups", "cat", f"{LIVE}/current/key.pem",
                                        check=False).returncode, 0)
        self.assertEqual(self.certificate_of_consumer(), self.published_certificate())

    def published_certificate(self):
        return self.run_in("sha256sum", f"{LIVE}/current/fullchain.pem", quiet=True).stdout.split()[0]

    def certificate_of_consumer(self):
        return self.run_in("sha256sum", "/run/credentials/consumer.service/client.crt", quiet=True).stdout.split()[0]

    def rotated(self, before, name=NAME):
        return lambda: (user := self.converged(name)) and user["generation"] != before and user

    def edit_rotates_and_restarts_the_consumer(self):
        self.machine.note("An edit of the file: another key type, so the user rotates and root's helper restarts the consumer")
        before, started = self.user()["generation"], self.machine.show("consumer.service", "InvocationID")
        self.settings["exposures"][0]["users"][0]["key"] = "ecdsa-p384"
        self.configure()
        self.wait(self.rotated(before), "the user has rotated and its hook has passed")
        self.assertNotEqual(self.machine.show("consumer.service", "InvocationID"), started)
        self.assertEqual(self.certificate_of_consumer(), self.published_certificate())
        self.assertEqual(self.machine.show(DEPLOY, "Result"), "success")
        self.assertEqual(self.run_in("ls", "/run/exposure-agent-deploy/spool").stdout, "")

    def consumer_that_dies_holds_on_to_the_old_user(self):
        self.machine.note("The restarted consumer dies: the hook has not passed, not even when systemctl returns 0 for the dead unit")
        before = self.user()["generation"]
        self.machine.write("/etc/systemd/system/consumer.service.d/dies.conf", "[Service]\nExecStartPre=/bin/false\n")
        self.run_in("systemctl", "daemon-reload")
        self.run_in("exposure-agent", "rotate", "--timeout", "30s", NAME, check=False)
        self.assertEqual(self.run_in("systemctl", "try-restart", "consumer.service").returncode, 0)
        self.run_in("exposure-agent", "deploy", NAME, check=False)
        user = self.user()
        self.assertNotEqual(user["generation"], before)
        self.assertEqual(user["deploy"], "failed")
        self.assertIn("(restart consumer.service: it is in state failed", user["last_error"])
        self.run_in("rm", "-r", "/etc/systemd/system/consumer.service.d")
        self.run_in("systemctl", "daemon-reload")
        self.run_in("systemctl", "start", "consumer.service")
        self.run_in("exposure-agent", "deploy", NAME)
        self.assertEqual(self.user()["deploy"], "done")

    def wrong_edit_changes_nothing(self):
        self.machine.note("A wrong edit: said with line and column, and the last good configuration keeps working")
        before = self.user()["generation"]
        good = self.settings["reconcile"] = {"interval": "10m"}
        self.settings["reconcile"] = {"intervall": "10m"}
        self.configure()
        self.wait(lambda: [entry for entry in self.journal("-u", UNIT, "-p", "err")
                           if "intervall" in str(entry["MESSAGE"]) and f"{CONFIGURATION}:" in str(entry["MESSAGE"])],
                  "the mistake is in the journal")
        self.wait(lambda: self.machine.show(UNIT, "ActiveState") == "active", "the service is active, not reloading")
        self.settings["reconcile"] = good
        self.configure()
        self.run_in("systemctl", "reload", UNIT)
        self.wait(lambda: self.machine.show(UNIT, "ActiveState") == "active", "the service is active, not reloading")
        self.assertEqual(self.user()["generation"], before)

    def operators_see_it(self):
        self.machine.note("What operators see: journal fields, status, metrics")
        entries = self.journal("EXPOSURE=logs", "EXPOSURE_USER=siem-forwarder")
        self.assertTrue([entry for entry in entries if entry.get("EXPOSURE_GENERATION") == self.user()["generation"]
                         and len(entry.get("MESSAGE_ID", "")) == 32])
        self.run_in("journalctl", "--no-pager", "-u", UNIT)
        self.run_in("journalctl", "--no-pager", "-u", DEPLOY)
        shown = self.run_in("systemctl", "status", "--no-pager", UNIT).stdout
        self.assertIn("Status: ", shown)
        self.assertIn("active (running)", shown)
        self.assertEqual(self.run_in("stat", "-c", "%U:%G %a", "/run/exposure-agent/metrics.sock").stdout,
                         "exposure-agent:exposure-agent 660\n")
        page = self.metrics()
        self.assertIn('exposure_agent_certificate_ready{exposure="logs",user="siem-forwarder"} 1', page)
        self.assertEqual(dict(re.findall(r"# TYPE (\S+) (\S+)", page)), METRICS)

    def metrics(self):
        with self.ask("/run/exposure-agent/metrics.sock", "GET /metrics") as answer:
            return answer.read().replace("\r", "")

    def ask(self, path, request, body=""):
        """Sends a request over a socket in the machine; returns the answer as a file object."""
        connection = self.enterContext(socket.socket(socket.AF_UNIX))
        connection.connect(str(self.machine.inside(path)))
        connection.sendall(f"{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                           f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        return connection.makefile(encoding="utf-8", newline="")

    def killed_it_comes_back(self):
        self.machine.note("Killed, it comes back, and knows what it knew")
        generation, process = self.user()["generation"], self.machine.show(UNIT, "MainPID")
        self.run_in("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT)
        self.wait(lambda: self.machine.show(UNIT, "NRestarts") == "1"
                  and self.machine.show(UNIT, "ActiveState") == "active", "it runs again")
        self.assertNotEqual(self.machine.show(UNIT, "MainPID"), process)
        self.wait(self.converged, "it still serves its user")
        self.assertEqual(self.user()["generation"], generation)

    def stuck_it_is_killed_and_comes_back(self):
        self.machine.note("Stopped in the middle of its work: the watchdog is not fed, systemd kills it, and it comes back")
        drop_in = f"/etc/systemd/system/{UNIT}.d/watchdog.conf"
        self.machine.write(drop_in, "[Service]\nWatchdogSec=2s\nTimeoutAbortSec=1s\n")
        self.run_in("systemctl", "daemon-reload")
        self.run_in("systemctl", "restart", UNIT)
        process = self.machine.show(UNIT, "MainPID")
        self.run_in("sleep", "5")  # the watchdog is fed meanwhile
        self.assertEqual(self.machine.show(UNIT, "MainPID"), process)
        self.run_in("systemctl", "kill", "--kill-whom=main", "--signal=STOP", UNIT)
        self.wait(lambda: self.machine.show(UNIT, "NRestarts") == "1"
                  and self.machine.show(UNIT, "ActiveState") == "active", "it runs again")
        self.assertNotEqual(self.machine.show(UNIT, "MainPID"), process)
        self.assertTrue([entry for entry in self.journal("-u", UNIT) if "Watchdog timeout" in str(entry["MESSAGE"])])
        self.run_in("rm", drop_in)
        self.run_in("systemctl", "daemon-reload")
        self.run_in("systemctl", "restart", UNIT)
        self.wait(self.converged, "it still serves its user")

    def wrong_file_holds_up_hooks_but_loses_none(self):
        self.machine.note("A hook is due while the file is wrong: the helper refuses it, and runs the hook once it is right")
        before = self.user()["generation"]
        good = (self.root / CONFIGURATION.lstrip("/")).read_text()
        self.machine.write(CONFIGURATION, good.replace('"version": 1', '"version": 1, "nonsense": 1'))
        # sent directly, because the CLI would reject the file first
        with self.ask("/var/lib/exposure-agent/control.sock", "POST /v1/rotate", json.dumps({"names": [NAME]})) as answer:
            self.wait(lambda: self.machine.show(DEPLOY, "ExecMainStatus") == "78", "the helper has refused")
            self.machine.write(CONFIGURATION, good)
            self.wait(self.rotated(before), "the hook has passed")
            self.assertIn(" 200 ", answer.readline())
        self.assertEqual(self.machine.show("exposure-agent-deploy.path", "ActiveState"), "active")

    def strange_spool_entries_do_no_harm(self):
        self.machine.note("What the agent's user could put into the spool: thrown away, or put aside")
        spool, shadow = "/run/exposure-agent-deploy/spool", self.run_in("sha256sum", "/etc/shadow").stdout
        self.run_in("setpriv", "--reuid=exposure-agent", "--regid=exposure-agent", "--clear-groups", "sh", "-c",
                    f"cd {spool}; mkdir -m 0700 directory; ln -s /etc/shadow logs+siem-forwarder; mkfifo pipe; "
                    "echo '{}' > logs+other; touch ..strange")
        self.wait(lambda: self.run_in("ls", spool, quiet=True).stdout == "", "all is gone, or has a hidden name")
        self.assertEqual(self.run_in("sha256sum", "/etc/shadow").stdout, shadow)
        before = self.user()["generation"]
        self.run_in("exposure-agent", "rotate", NAME)
        self.wait(self.rotated(before), "hooks still run")

    def files_for_a_group(self):
        self.machine.note("A directory outside of the state directory, keys for a group: both drop-ins that are shipped")
        self.run_in("groupadd", "--system", "siem")
        for drop_in, mode, output in (("output-group.conf", "2750", {}), ("give-to-group.conf", "0755", {"group": "siem"})):
            name = drop_in.removesuffix(".conf")
            self.run_in("install", "-d", "-o", "exposure-agent", "-g", "siem", "-m", mode, "/etc/siem/tls")
            self.run_in("cp", f"/usr/share/doc/exposure-agent/examples/drop-ins/exposure-agent.service.d/{drop_in}",
                        f"/etc/systemd/system/{UNIT}.d/")
            self.run_in("systemctl", "daemon-reload")
            self.run_in("systemctl", "restart", UNIT)
            self.settings["exposures"][0]["users"].append(
                {"name": name, "consumer_group": "siem", "output": {"directory": "/etc/siem/tls", "mode": "0640", **output}})
            self.configure()
            self.wait(lambda: self.converged(f"logs/{name}"), f"logs/{name} is valid")
            self.assertEqual(self.run_in("stat", "-L", "-c", "%U:%G %a", "/etc/siem/tls/current/key.pem").stdout,
                             "exposure-agent:siem 640\n")
            self.run_in("setpriv", "--reuid=daemon", "--regid=siem", "--clear-groups", "test", "-r",
                        "/etc/siem/tls/current/key.pem")
            self.settings["exposures"][0]["users"].pop()
            self.configure()
            self.run_in("rm", "-r", f"/etc/systemd/system/{UNIT}.d/{drop_in}", "/etc/siem/tls")

    def timer_instead_of_daemon(self):
        self.machine.note("The timer instead of the daemon")
        self.settings["exposures"][0]["users"][0]["key"] = "rsa-2048"
        before = self.user()["generation"]
        self.run_in("systemctl", "disable", "--now", UNIT)
        self.assertEqual(self.machine.show(UNIT, "Result"), "success")
        self.configure()
        told = self.run_in("exposure-agent", "rotate", NAME, check=False)
        self.assertEqual(told.returncode, 1)
        self.assertIn("sudo -u exposure-agent", told.stderr)
        self.run_in("systemctl", "enable", "--now", "exposure-agent-reconcile.timer")
        self.run_in("systemctl", "start", "exposure-agent-reconcile.service", check=False)
        self.run_in("journalctl", "--no-pager", "-u", "exposure-agent-reconcile.service")
        self.assertEqual(self.machine.show("exposure-agent-reconcile.service", "Result"), "success")
        self.assertTrue(self.rotated(before)())
        self.assertEqual(self.certificate_of_consumer(), self.published_certificate())

    def removal(self):
        self.machine.note("Removed and purged: nothing runs, nothing is left")
        self.run_in("dpkg", "--purge", "exposure-agent")
        self.assertEqual(self.run_in("systemctl", "list-units", "--all", "--no-legend", "exposure-agent*",
                                     "--state=active").stdout, "")
        for path in ("/etc/exposure-agent", "/var/lib/exposure-agent", "/run/exposure-agent", "/run/exposure-agent-deploy"):
            self.assertNotEqual(self.run_in("test", "-e", path, check=False).returncode, 0, path)


class boot_on_ubuntu_24_04(boot):
    """The same package on another distribution: what depends on its systemd and its libraries."""

    suite = "noble"

    def test_first_hour(self):
        self.install_without_configuration()
        self.start_and_log_in()
        self.consumer_reads_credentials()
        self.edit_rotates_and_restarts_the_consumer()
        self.killed_it_comes_back()
        self.removal()


if __name__ == "__main__":
    support.main()
