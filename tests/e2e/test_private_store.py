"""The private store (contract section 5): damage in it, and one that was copied from another machine."""

import hashlib
import json
import unittest

import harness

ELSEWHERE = json.dumps({"owner": "web-01", "machine": hashlib.sha256(b"another machine").hexdigest()})


class PrivateStoreTest(harness.PlatformCase):
    def checks(self, agent, expect=1):
        return {c["name"]: c for c in agent.json("doctor", expect=expect)["checks"]}

    def test_a_copied_state_directory(self):
        agent = self.served("siem")
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
                agent = self.served("siem", owner="o" + hashlib.sha256(repr((column, value)).encode()).hexdigest()[:8])
                agent.change_state(f"UPDATE generations SET {column} = ?", value)
                shown = agent.status("logs/siem")
                self.assertEqual((shown["state"], shown["reason"]), ("failing", "key_lost"))
                self.assertIn(f"private key or certificate (generation {shown['generation']}) is missing or damaged",
                              agent.run("status", "--check", expect=1).stdout)
                agent.run("reconcile", expect=0)
                agent.run("status", "--check", expect=0)
                self.assertTrue(agent.published("siem").key_matches())

    def test_a_damaged_record_is_found_by_doctor(self):
        agent = self.served("siem")
        agent.change_state("UPDATE users SET record = 'garbage'")
        self.assertIn("is damaged", self.checks(agent)["logs/siem: private store"]["evidence"])
        agent.run("reconcile", expect=0)
        self.checks(agent, expect=0)


if __name__ == "__main__":
    unittest.main()
