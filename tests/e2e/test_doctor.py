"""`doctor` (contract section 4): each thing that can be broken, with the evidence and the remedy."""

import os
import signal
import socket
import unittest

import harness


class DoctorTest(harness.PlatformCase):
    def checks(self, agent, expect=1):
        """By name; of several of one name, the last."""
        return {c["name"]: c for c in agent.json("doctor", expect=expect)["checks"]}

    def edit(self, agent, **user):
        agent.settings["exposures"][0]["users"][0].update(user)
        agent.write_config()

    def diagnose(self, name, change, prepare=None, **more):
        """The check of `doctor` that reports what was broken."""
        agent = self.agent("siem", **more)
        change(agent.settings, agent)
        agent.write_config()
        if prepare:
            prepare(agent)
        checks = {c["name"]: c for c in agent.json("doctor", expect=1)["checks"] if c["verdict"] != "ok"}
        self.assertIn(name, checks)
        self.assert_form(checks[name]["evidence"] + checks[name]["remedy"])
        self.assertNotEqual(checks[name]["remedy"], "")
        return checks[name]

    def test_doctor(self):
        def user(**keys):
            return lambda settings, _: settings["exposures"][0]["users"][0].update(keys)

        def hook(agent_path):
            return user(hooks=[{"command": [agent_path]}])

        def credential(**keys):
            def add(settings, agent):
                settings["catalog"] = {"base_url": self.platform.base_url}
                output = {"file": str(agent.directory / "s3.env"), "format": "env"}
                settings["credentials"] = [{"name": "s3", "resource": "r", "action": "a", "elements": {"key": "k"},
                                            "output": {**output, **keys.pop("output", {})}, **keys}]
            return add

        def secret(source):
            return lambda settings, _: settings["identity"].update(client_secret=source)

        def empty_secret(agent):
            agent.secret_file.write_text("")

        def current_is_a_directory(agent):
            (agent.state_dir / "live/logs/siem/current").mkdir(parents=True)

        rows = (
            ("output owner", "logs/siem: output", user(output={"owner": "nobody-here"}), None, "nobody-here"),
            ("output group", "logs/siem: output", user(output={"group": "no-group-here"}), None, "no-group-here"),
            ("hook that is missing", "logs/siem: hook", hook("/nowhere/after.sh"), None, "/nowhere/after.sh does not exist"),
            ("hook that is a directory", "logs/siem: hook", hook("/tmp"), None, "/tmp is a directory"),
            ("hook that cannot run", "logs/siem: hook", hook("/etc/passwd"), None, "/etc/passwd cannot be executed"),
            ("hook's unit", "logs/siem: hook", user(hooks=[{"restart": "no-such-unit-of-ours.service"}]), None, ""),
            ("credential owner", "credential s3: output", credential(output={"owner": "nobody-here"}), None, "nobody-here"),
            ("credential hook", "credential s3: hook", credential(hooks=[{"command": ["/nowhere/x"]}]), None, "/nowhere/x"),
            ("credential file", "credential s3: output", credential(output={"file": "/usr/lib"}), None, "/usr/lib is not a file"),
            ("current", "logs/siem: output", lambda *_: None, current_is_a_directory, "current already exists"),
            ("empty secret", "identity.client_secret", lambda *_: None, empty_secret, "is empty"),
            ("unset variable", "identity.client_secret", secret({"env": "NOT_SET_ANYWHERE"}), None, "NOT_SET_ANYWHERE is not set"),
            ("ca_file", "network.ca_file", lambda s, _: s["network"].update(ca_file="/nowhere/ca.pem"), None, "/nowhere/ca.pem"),
        )
        for what, name, change, prepare, words in rows:
            with self.subTest(what):
                found = self.diagnose(name, change, prepare=prepare, login=False)
                self.assertIn(words, found["evidence"])

    def test_doctor_on_the_network(self):
        def base_url(url):
            return lambda settings, _: settings["exposures"][0].update(base_url=url)

        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            found = self.diagnose("metrics.listen", lambda s, _: s.update(metrics={"listen": address}))
            self.assertIn("in use", found["evidence"])
        found = self.diagnose("http://127.0.0.1:9", base_url("http://127.0.0.1:9/les"))
        self.assertIn("nothing listens at 127.0.0.1:9", found["remedy"])
        name = self.platform.base_url
        found = self.diagnose(name, lambda s, _: s["network"].pop("ca_file"))
        self.assertIn("network.ca_file", found["remedy"])
        for certificate, remedy in (("expired", "has expired"), ("other-host", "another host")):
            with self.subTest(certificate):
                self.platform.behave(server_certificate=certificate)
                try:
                    # a login would be refused as well
                    self.assertIn(remedy, self.diagnose(name, lambda *_: None, login=False)["remedy"])
                finally:
                    self.platform.behave(server_certificate="good")

    def test_doctor_on_the_platform(self):
        for status, words, never in ((503, "nothing to change here", "role"), (403, "role", "base_url"),
                                     (404, "base_url", "role")):
            with self.subTest(status=status):
                agent = self.agent("siem")
                self.platform.fault(operation="list_instances", status=status, times=0)
                try:
                    checks = self.checks(agent)
                finally:
                    self.platform.clear_faults()
                self.assertIn(words, checks["exposure logs"]["remedy"])
                self.assertNotIn(never, checks["exposure logs"]["remedy"])

    def test_doctor_on_a_revoked_login(self):
        agent = self.agent("siem")
        self.platform.fault(operation="list_instances", status=401, times=0)
        try:
            checks = self.checks(agent)
        finally:
            self.platform.clear_faults()
        self.assertEqual(checks["login"]["verdict"], "failed")
        self.assertEqual(checks["login"]["remedy"], "run: exposure-agent login")

    def test_doctor_on_a_lost_key(self):
        agent = self.served("siem")
        before = agent.published("siem").generation
        agent.change_state("UPDATE generations SET key = ? WHERE exposure = ? AND user = ?", b"damaged", "logs", "siem")
        checks = self.checks(agent)
        self.assertEqual(checks["logs/siem: private store"]["verdict"], "failed")
        self.assertIn("missing or damaged", checks["logs/siem: private store"]["evidence"])
        self.assertIn("exposure-agent reconcile", checks["logs/siem: private store"]["remedy"])

        agent.run("reconcile", expect=0)  # does what the remedy promises
        self.assertNotEqual(agent.published("siem").generation, before)
        self.assertTrue(agent.published("siem").key_matches())
        self.assertNotIn("logs/siem: private store", self.checks(agent, expect=0))

    def test_doctor_on_outputs(self):
        agent = self.agent("siem")
        directory = agent.directory / "tls"
        self.edit(agent, output={"directory": str(directory), "owner": "no-such-user", "group": "no-such-group"})
        found = [c for c in agent.json("doctor", expect=1)["checks"] if c["name"] == "logs/siem: output"]
        self.assertEqual([c["remedy"] for c in found if c["verdict"] == "failed"],
                         ["create the account, or correct output.owner", "create the account, or correct output.group"])
        self.edit(agent, output={"directory": str(directory)})
        directory.write_text("a file")
        self.assertIn("is not a directory", self.checks(agent)["logs/siem: output"]["evidence"])
        directory.unlink()
        directory.mkdir()
        os.symlink("/etc", directory / "current")
        self.assertIn("not created by exposure-agent", self.checks(agent)["logs/siem: output"]["evidence"])
        (directory / "current").unlink()
        os.symlink("/no/such/place", directory / "current")  # damage: it is replaced
        self.checks(agent, expect=0)
        agent.run("reconcile", expect=0)
        self.assertTrue(harness.Published(directory).key_matches())

    def test_a_daemon_that_hangs(self):
        agent = self.served("siem")
        with agent.daemon() as daemon:
            daemon.send_signal(signal.SIGSTOP)
            try:
                check = self.checks(agent)["platform"]
            finally:
                daemon.send_signal(signal.SIGCONT)
        self.assertEqual(check["remedy"], "run: systemctl restart exposure-agent")

    def test_doctor_while_all_is_well(self):
        agent = self.served(harness.user("one", hooks=[{"command": ["/bin/true"]}]))
        alone = agent.json("doctor", expect=0)
        with agent.daemon():
            agent.run("reconcile", expect=0)
            beside = agent.json("doctor", expect=0)
        for report in (alone, beside):
            self.assertEqual({c["verdict"] for c in report["checks"]}, {"ok"}, report)
            names = {c["name"] for c in report["checks"]}
            self.assertLessEqual({"configuration", "state directory", "network.ca_file", "identity.client_secret",
                                  "logs/one: output", "logs/one: hook", self.platform.base_url, "login",
                                  "exposure logs", "clock"}, names)

    def test_doctor_finds_the_cause(self):
        agent = self.agent(harness.user("one", output={"directory": "/proc/none"},
                                        hooks=[{"command": ["/nonexistent/hook"]}]))
        agent.settings["exposures"][0]["broker_ca_file"] = "/nonexistent/ca.pem"
        agent.write_config()
        self.platform.behave(clock_offset_s=3600)
        agent.run("logout", expect=0)
        (agent.state_dir / "private").chmod(0o750)
        bad = {c["name"]: c for c in agent.json("doctor", expect=1)["checks"] if c["verdict"] == "failed"}
        self.assertLessEqual({"logs: broker_ca_file", "logs/one: hook", "login"}, set(bad))
        self.assertTrue(all(c["remedy"] for c in bad.values()), bad)


if __name__ == "__main__":
    unittest.main()
