"""What a stranger's checks found: the sentence, the exit code and what stays untouched, by the program as a user runs it."""

import hashlib
import json
import os
import signal
import time
import unittest

import harness

ELSEWHERE = json.dumps({"owner": "web-01", "machine": hashlib.sha256(b"another machine").hexdigest()})


class Findings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.built("exposure-agent")
        cls.platform = harness.Simulator({"exposure": {"ready_delay_ms": 0, "instance_ready_delay_ms": 0}})
        cls.addClassCleanup(cls.platform.stop)

    def setUp(self):
        self.platform.reset()

    def agent(self, *users, served=True, **more):
        agent = harness.Agent(self.platform, users=list(users) or ["siem"], **more)
        self.addCleanup(agent.remove)
        if served:
            agent.run("reconcile", expect=0)
        return agent

    def edit(self, agent, **user):
        agent.settings["exposures"][0]["users"][0].update(user)
        agent.write_config()

    def checks(self, agent, expect=1):
        return {c["name"]: c for c in agent.json("doctor", expect=expect)["checks"]}

    def test_a_copied_state_directory(self):
        agent = self.agent()
        agent.change_state("UPDATE kept SET value = ? WHERE name = 'installation'", ELSEWHERE.encode())
        self.platform.expire_tokens()
        self.platform.clear_requests()
        agent.run("status", "--check", expect=1)
        for verb in (["plan"], ["reconcile"], ["rotate", "logs/siem"]):
            agent.run(*verb, expect=77)
        for check in ("login", "exposure logs"):
            self.assertIn("run: exposure-agent takeover", self.checks(agent)[check]["remedy"])
        said = agent.run("decommission", "--now", "--yes", expect=1).stderr
        self.assertIn("run: exposure-agent takeover", said)
        self.assertNotIn("This decommissions", said)
        self.assertNotIn("token", self.platform.operations())
        self.assertEqual(len(self.platform.users()), 1)

        agent.run("takeover", expect=0)
        self.assertNotIn("takeover", agent.run("status", expect=0).stdout)  # before the next pass, too
        agent.run("reconcile", expect=0)

    def test_damage_in_the_private_store_is_said(self):
        for column, value in (("key", b"\0" * 200), ("certificate", ""), ("certificate", "garbage")):
            with self.subTest(column=column, value=value):
                agent = self.agent(owner="o" + hashlib.sha256(repr((column, value)).encode()).hexdigest()[:8])
                agent.change_state(f"UPDATE generations SET {column} = ?", value)
                shown = agent.status("logs/siem")
                self.assertEqual((shown["state"], shown["reason"]), ("failing", "key_lost"))
                self.assertIn(f"private key or certificate (generation {shown['generation']}) is missing or damaged",
                              agent.run("status", "--check", expect=1).stdout)
                agent.run("reconcile", expect=0)
                agent.run("status", "--check", expect=0)
                self.assertTrue(agent.published("siem").key_matches())

    def test_a_damaged_record_is_found_by_doctor(self):
        agent = self.agent()
        agent.change_state("UPDATE users SET record = 'garbage'")
        self.assertIn("is damaged", self.checks(agent)["logs/siem: private store"]["evidence"])
        agent.run("reconcile", expect=0)
        self.checks(agent, expect=0)

    def test_a_plan_shows_what_blocks_a_whole_exposure(self):
        agent = self.agent()
        self.platform.delete_instances()
        text = agent.run("plan", expect=0).stdout
        self.assertNotIn("No changes", text)
        self.assertRegex(text, r"(?m)^logs +blocked +instance \S+ is gone from the platform.*exposure-agent reconcile --accept-loss")
        (blocked,) = agent.json("plan")["blocked"]
        self.assertEqual((blocked["exposure"], blocked["name"]), ("logs", None))
        self.assertIn("is gone from the platform", agent.json("explain", "logs/siem")["facts"]["exposure_blocked"])

    def test_a_failed_deletion_is_explained(self):
        agent = self.agent()
        self.platform.fault(operation="delete_user", status=403, times=0)
        agent.run("rotate", "logs/siem", "--retire-now", expect=1)
        self.assertIn("403", agent.json("explain", "logs/siem")["facts"]["last_deletion_failure"])

    def test_one_failure_is_said_once(self):
        self.platform.behave(exposure={"group_id_required": True})
        agent = self.agent(served=False)
        said = agent.run("reconcile", expect=1).stderr
        self.assertEqual(sum("create the instance" in line for line in said.splitlines() if line.startswith(("exposure", "logs"))), 1, said)
        self.assertEqual(agent.run("status", expect=0).stdout.count("create the instance"), 1)

    def test_groups_are_shown(self):
        self.platform.put_instance(group_id="group-1", group_name="default group")
        agent = self.agent()
        mine = agent.status("logs/siem")["remote_id"]
        self.assertIn("default group (group-1)", agent.run("users", expect=0).stdout)
        self.assertRegex(agent.run("users", "show", "logs", mine, expect=0).stdout,
                         r"(?m)^business group +default group \(group-1\)$")

    def test_a_known_instance_is_read_by_its_id(self):
        agent = self.agent()
        self.platform.clear_requests()
        agent.run("instances", "logs", expect=0)
        self.assertEqual(self.platform.operations(), ["get_instance"])
        self.platform.delete_instances()
        self.assertIn("No exposure has a service instance", agent.run("instances", "logs", expect=0).stdout)

    def test_doctor_on_outputs(self):
        agent = self.agent(served=False)
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

    def test_an_output_is_named_by_its_whole_path(self):
        agent = self.agent()
        directory = agent.published("siem").directory
        (directory / "current").unlink()
        os.symlink("/etc", directory / "current")
        self.assertIn(f"{directory}/current is a symbolic link not created by exposure-agent", agent.run("status").stdout)

    def test_a_directory_is_no_hook(self):
        agent = self.agent(served=False)
        self.edit(agent, hooks=[{"command": ["/tmp"]}])
        said = agent.run("check", expect=0).stderr
        self.assertIn("/tmp is a directory", said)
        self.assertNotIn("chmod", said)  # a remedy that would open /tmp to nobody's use

    def test_a_daemon_that_hangs(self):
        agent = self.agent()
        daemon = agent.start("run")
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        harness.wait_until(lambda: (agent.state_dir / "control.sock").exists())
        daemon.send_signal(signal.SIGSTOP)
        check = self.checks(agent)["platform"]
        self.assertEqual(check["remedy"], "run: systemctl restart exposure-agent")

    def test_time_limits(self):
        agent = self.agent(served=False)
        for wrong in ("0s", "-1s", "", "5"):
            self.assertIn("--timeout", agent.run("reconcile", "--timeout", wrong, expect=64).stderr)
        self.assertEqual(self.platform.requests("list_instances"), [])

    def test_history_says_what_is_in_use(self):
        agent = self.agent()
        events = {e["event"]: e for e in agent.json("history")["events"]}
        self.assertEqual(events["in_use"]["detail"], f"valid until {agent.status('logs/siem')['not_after']}")

    def test_nothing_is_due(self):
        self.assertIn("Nothing expires or rotates within 24 h.", agent_text(self.agent(), "status", "--due", "1d"))

    def test_a_login_of_another_person(self):
        agent = self.agent(served=False)
        token = agent.directory / "token"
        token.touch(mode=0o600)
        token.write_text(self.platform.refresh_token(person="alice"))
        said = agent.run("login", "--refresh-token-file", token, expect=1).stderr
        self.assertIn("with a new code or refresh token, run: exposure-agent login --force", said)
        self.assertEqual(agent.status()["login"], "ok")  # the login before goes on

    def test_a_token_file_that_is_a_pipe(self):
        said = self.agent(served=False).run("login", "--refresh-token-file", "/dev/stdin", expect=1).stderr
        self.assertIn("is not a regular file", said)
        self.assertNotIn("move it away", said)


def agent_text(agent, *verb):
    return agent.run(*verb, expect=0).stdout


if __name__ == "__main__":
    unittest.main()
