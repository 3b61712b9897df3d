"""`status` (contract section 4): every user, what wants a person, and nothing said twice; from the disk alone."""

import datetime
import os
import re
import signal
import subprocess
import unittest

import harness
from harness import TIME, user, wait_until


class StatusTest(harness.PlatformCase):
    def test_status(self):
        agent = self.served(user("siem"))
        agent.run("rotate", "logs/siem", expect=0)
        shown = agent.status()
        self.assertEqual((shown["schema"], shown["owner"], shown["login"]), ("exposure-agent.status/v1", "web-01", "ok"))
        self.assertEqual(shown["credentials"], [])
        (entry,) = shown["users"]
        self.assert_keys(
            entry, "exposure", "name", "state", "reason", "generation", "remote_id", "common_name", "serial", "not_before",
            "not_after", "expiration_date", "rotate_at", "directory", "deploy", "proof", "pending", "retiring", "failures",
            "last_error", "next_attempt")
        published = agent.published("siem")
        (remote,) = [u for u in self.platform.users() if u["id"] == entry["remote_id"]]
        self.assertEqual((entry["exposure"], entry["name"], entry["state"]), ("logs", "siem", "valid"))
        self.assertEqual(entry["common_name"], remote["name"])
        self.assertEqual(entry["generation"], remote["public_key_sha256"][:8])
        self.assertEqual(entry["serial"].lower(), published.serial())
        self.assertEqual(entry["directory"], str(published.directory))
        self.assertEqual((entry["deploy"], entry["proof"], entry["pending"]), ("none", "local", None))
        self.assertEqual((entry["failures"], entry["last_error"], entry["next_attempt"]), (0, None, None))
        for key in ("not_before", "not_after", "expiration_date", "rotate_at"):
            self.assertRegex(entry[key], TIME)
        self.assert_keys(entry["retiring"][0], "remote_id", "common_name", "delete_at")
        self.assertRegex(entry["retiring"][0]["delete_at"], TIME)
        self.check_rotation_time(entry)

    def check_rotation_time(self, entry):
        begin, end, at = (datetime.datetime.fromisoformat(entry[k]) for k in ("not_before", "not_after", "rotate_at"))
        before_end = (end - at) / (end - begin)
        self.assertTrue(0.3299 <= before_end <= 0.3801, before_end)

    def test_status_needs_no_network_and_knows_who_waits(self):
        agent = self.agent(user("siem"))
        (entry,) = agent.status()["users"]
        self.assertEqual((entry["state"], entry["generation"], entry["not_after"]), ("absent", None, None))
        self.platform.behave(exposure={"ready_delay_ms": -1})
        self.platform.clear_requests()
        agent.run("reconcile", "--timeout", "5s", expect=1)
        (entry,) = agent.status()["users"]
        self.assertEqual(entry["state"], "issuing")
        self.assert_keys(entry["pending"], "generation", "remote_id", "since")
        self.assertEqual(entry["pending"]["remote_id"], self.platform.users()[0]["id"])
        seen = len(self.platform.requests())
        agent.run("status", "--check")
        self.assertEqual(len(self.platform.requests()), seen)

    def test_status_check(self):
        agent = self.served(user("siem"))
        agent.run("status", "--check", expect=0)
        self.platform.behave(exposure={"certificate": {"key": "other"}})
        agent.run("rotate", "logs/siem", expect=1)
        agent.run("status", "--check", expect=1)
        self.assertTrue(agent.published("siem").key_matches())

    def test_status_wide_and_due(self):
        agent = self.served(user("siem"))
        text = agent.run("status", "-o", "wide", expect=0).stdout
        entry = agent.status("logs/siem")
        for key in ("not_before", "rotate_at", "common_name", "serial", "directory"):
            self.assertIn(entry[key], text)
        self.assertIn(f"logs-{harness.TENANT} ", text)
        days = (datetime.datetime.fromisoformat(entry["rotate_at"]) - datetime.datetime.now(datetime.timezone.utc)).days
        self.assertEqual([u["name"] for u in agent.json("status", "--due", f"{days + 1}d")["users"]], ["siem"])
        self.assertEqual(agent.json("status", "--due", f"{days - 1}d")["users"], [])
        agent.run("status", "--due", "soon", expect=64)

    def test_nothing_is_due(self):
        said = self.served(user("siem")).run("status", "--due", "1d", expect=0).stdout
        self.assertIn("Nothing expires or rotates within 24 h.", said)

    def test_a_missing_key_is_not_valid(self):
        agent = self.served(user("siem"))
        (agent.published("siem").current / "key.pem").unlink()
        entry = agent.status("logs/siem")
        self.assertEqual((entry["state"], entry["reason"]), ("failing", "output_damaged"))
        agent.run("status", "--check", expect=1)

    def test_an_output_is_named_by_its_whole_path(self):
        agent = self.served("siem")
        directory = agent.published("siem").directory
        (directory / "current").unlink()
        os.symlink("/etc", directory / "current")
        self.assertIn(f"{directory}/current is a symbolic link not created by exposure-agent", agent.run("status").stdout)

    def test_a_removed_user_forgets_what_failed_before(self):
        agent = self.agent(user("siem", hooks=[{"command": ["/bin/false"]}]), user("two"))
        agent.run("reconcile", "--timeout", "5s", expect=1)
        self.assertIsNotNone(agent.status("logs/siem")["last_error"])
        del agent.settings["exposures"][0]["users"][0]
        agent.write_config()
        agent.run("reconcile", expect=0)
        entry = agent.status("logs/siem")
        self.assertEqual((entry["state"], entry["last_error"], entry["failures"]), ("removing", None, 0))
        self.assertIn("will be deleted in", agent.run("status", expect=0).stdout)

    def test_status_of_a_wrong_file(self):
        """Shows the mistake and the status of the last valid configuration, so that an edit never hides the status."""
        agent = self.agent(user("siem"))
        good = agent.config_file.read_text()
        agent.config_file.write_text(good + "open: [\n")
        self.assertEqual(agent.run("status", expect=78).stdout, "")
        agent.config_file.write_text(good)
        agent.run("reconcile", expect=0)
        serial = agent.status("logs/siem")["serial"]
        self.assertRegex(agent.run("status", expect=0).stderr, "^$")
        for wrong in (good + "open: [\n", good.replace('"owner"', '"owners"'), good.replace('"logs"', '"logs!"')):
            agent.config_file.write_text(wrong)
            for more in ([], ["--check"], ["logs/siem"]):
                with self.subTest(wrong=wrong[-20:], more=more):
                    done = agent.run("status", *more, expect=78)
                    self.assertRegex(done.stderr, rf"{re.escape(str(agent.config_file))}:\d+:\d+: ")
                    self.assertIn(f"the last configuration in force, from {agent.state_dir}", done.stderr)
                    self.assertRegex(done.stdout, r"logs/siem +valid")
            self.assertEqual(agent.json("status", expect=78)["users"][0]["serial"], serial)

    def test_being_removed_is_not_up_to_date(self):
        agent = self.served("stays", "goes")
        del agent.settings["exposures"][0]["users"][1]
        agent.write_config()
        self.assertIn("1 of 1 user up to date, 1 being removed", agent.run("reconcile", expect=0).stdout)
        self.assertIn("1 of 1 user up to date, 1 being removed", agent.run("status", expect=0).stdout)

    def test_status_says_what_retires_and_when(self):
        agent = self.served(user("one", rotation={"retire_after": "2h"}))
        agent.run("rotate", "logs/one", expect=0)
        self.assertRegex(agent.run("status", expect=0).stdout,
                         r"logs/one: logs-orion-123-one-\w{8} will be deleted in (2 h|119 min)\n")
        agent.settings["exposures"][0]["users"][0]["rotation"]["retire_after"] = "0s"
        agent.write_config()
        said = agent.run("status", expect=0).stdout
        self.assertRegex(said, r"logs/one: logs-orion-123-one-\w{8} will be deleted in the next pass\n")
        self.assertNotIn("in now", said)

    def test_a_lead_of_the_whole_lifetime_is_warned_of(self):
        self.platform.behave(exposure={"certificate": {"lifetime_s": 30 * 86400}})
        agent = self.agent(user("siem", rotation={"renew_before": "90d"}), "two")
        warning = "logs/siem: rotation.renew_before (90 d) is not shorter than the lifetime of its certificate (30 d); rotating 10 d"
        self.assertIn(warning, agent.run("reconcile", expect=0).stderr)
        said = agent.run("status", "--check", expect=0).stdout
        self.assertEqual(said.count(warning), 1, said)
        self.assertIn(agent.status("logs/siem")["warning"], warning + " before expiry instead. Set a shorter renew_before")
        self.assertIsNone(agent.status("logs/two")["warning"])
        self.assertIn("warning: rotation.renew_before", agent.run("explain", "logs/siem", expect=0).stdout)

    def test_a_paused_user_has_no_rotation_to_come(self):
        agent = self.served(user("siem", rotation={"paused": True}))
        entry = agent.status("logs/siem")
        self.assertEqual((entry["state"], entry["rotate_at"]), ("valid", None))
        self.assertIn("Next    no action\n", agent.run("explain", "logs/siem", expect=0).stdout)
        agent.settings["exposures"][0]["users"][0]["description"] = "another"
        agent.write_config()
        done = agent.run("reconcile", expect=0)
        self.assertEqual(done.stdout, "0 of 1 user up to date, 1 paused\n")
        self.assertIn("logs/siem: description changed: (none) → another, but rotation.paused is true", done.stderr)
        self.assertIn("0 of 1 user up to date, 1 paused\n", agent.run("status", "--check", expect=0).stdout)

    def test_a_deletion_that_is_stopped_is_not_announced(self):
        agent = self.served("stays", "goes", "too", settings={"reconcile": {"max_deletes": 1}})
        for entry in agent.settings["exposures"][0]["users"]:
            entry["rotation"] = {"retire_after": "0s"}
        agent.write_config()
        agent.run("reconcile", expect=0)
        del agent.settings["exposures"][0]["users"][1:]
        agent.write_config()
        self.assertIn("reconcile.max_deletes allows 1", agent.run("reconcile", expect=1).stderr)
        said = agent.run("status", expect=0).stdout
        self.assertIn("1 of 1 user up to date, 2 no longer in the configuration\n", said)
        self.assertIn("logs/goes: this pass would delete 2 users", said)
        self.assertNotIn("will be deleted", said)

    def test_what_is_asked_for_and_no_more(self):
        """One of two exposures is dead: the other's users are shown, and the exit code reports a partial result."""
        agent = self.agent(exposures=[{"variant": "log", "users": ["one"]}, {"variant": "health", "users": ["two"]}])
        agent.run("reconcile", expect=0)
        agent.settings["exposures"][1]["base_url"] = "http://127.0.0.1:9/hes"
        agent.write_config()
        agent.run("reconcile", expect=1)
        self.assertEqual(len(agent.json("users", expect=1)["users"]), 1)
        self.assertEqual(len(agent.json("instances", expect=1)["instances"]), 1)
        agent.run("users", "health", expect=69)
        self.assertIn("exposure health: ", agent.run("status").stdout)
        self.assertNotIn("exposure health: ", agent.run("status", "logs/one").stdout)

    def test_nothing_is_said_twice(self):
        hooked = self.agent(user("one", hooks=[{"command": ["/bin/false"]}]))
        hooked.run("reconcile", expect=1)
        with hooked.daemon():
            wait_until(lambda: "logs/one: hook failed" in hooked.log())
        self.assertNotIn("logs/one: logs/one", hooked.log())
        agent = self.agent("one")
        agent.settings["exposures"][0]["base_url"] = "http://127.0.0.1:9/les"
        agent.write_config()
        said = agent.run("reconcile", expect=69).stderr + agent.run("status").stdout + agent.run("doctor").stdout
        self.assertIn("exposure logs", said)
        self.assertNotRegex(said, r"exposure logs: *exposure logs|exposure logs +failed +exposure logs")

    def test_one_failure_is_said_once(self):
        self.platform.behave(exposure={"group_id_required": True})
        agent = self.agent("siem")
        said = agent.run("reconcile", expect=1).stderr
        lines = [line for line in said.splitlines() if line.startswith(("exposure", "logs"))]
        self.assertEqual(sum("create the instance" in line for line in lines), 1, said)
        self.assertEqual(agent.run("status", expect=0).stdout.count("create the instance"), 1)

    def test_watch(self):
        agent = self.agent("one")
        with open(agent.directory / "screen", "wb") as screen:
            shown = subprocess.Popen(agent.command("status", "--watch"), stdout=screen, env=agent.environment())
        self.addCleanup(shown.kill)
        screen = agent.directory / "screen"
        wait_until(lambda: "logs/one  absent" in screen.read_text())
        agent.run("reconcile", expect=0)  # the watcher holds no lock
        wait_until(lambda: "logs/one  valid" in screen.read_text())
        shown.send_signal(signal.SIGINT)
        self.assertEqual(shown.wait(harness.RUN_TIMEOUT), 0)


if __name__ == "__main__":
    unittest.main()
