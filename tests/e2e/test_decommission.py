"""`decommission` (contract sections 4 and 10): a host leaves without a trace."""

import json
import unittest

import harness
from harness import wait_until


class DecommissionCase(harness.PlatformCase):
    def host(self, retire_after="24h"):
        """A host with two users that have their certificates."""
        users = [{"name": u, "consumer_group": u, "rotation": {"retire_after": retire_after}} for u in ("a", "b")]
        made = self.served(*users, settings={"reconcile": {"interval": "1s", "max_deletes": 1}})
        self.assertEqual(len(self.platform.users()), len(users))
        return made

    def gone(self, agent):
        self.assertEqual(self.platform.users(), [])
        self.assertFalse(agent.published("a").exists())
        self.assertEqual(agent.private_keys(), [])
        self.assertEqual(agent.status()["login"], "required")
        tokens = json.loads(agent.stored_tokens())["tokens"]
        self.assertEqual((tokens["access_token"], tokens["refresh_token"]), ("", ""))


class Decommission(DecommissionCase):
    def test_at_once(self):
        agent = self.host()
        done = agent.run("decommission", "--now", "--yes", expect=0)
        self.assertRegex(done.stderr, r"(?m)^This decommissions the host web-01 ")
        self.assertIn("2 users will be deleted on the platform at once:", done.stderr)
        self.assertIn("logs/a  logs-orion-123-a-", done.stderr)
        self.assertEqual(done.stdout, "Decommissioned: no user of this host is left, and its keys and tokens are deleted.\n")
        self.gone(agent)
        # the file still lists its users
        agent.run("reconcile", expect=0)
        self.assertEqual(self.platform.users(), [])
        self.assertIn("This host was decommissioned at ", agent.run("status", expect=0).stdout)
        self.assertIn("No changes. This host was decommissioned;", agent.run("plan", expect=0).stdout)
        self.assertIsNotNone(agent.status()["decommission"]["finished_at"])
        agent.run("status", "--check", expect=0)
        self.assertEqual(agent.json("plan")["changes"], [])
        self.assertIsNone(agent.status()["login_detail"])
        with agent.daemon():
            wait_until(lambda: "this host is decommissioned" in agent.log())
        self.assertNotIn("exposure-agent login", agent.log() + agent.run("doctor", expect=0).stdout)

    def test_users_wait_for_retire_after_and_nothing_is_created_meanwhile(self):
        agent = self.host(retire_after="24h")
        done = agent.run("decommission", "--yes", expect=0)
        self.assertIn("each after its retire_after", done.stderr)
        self.assertIn("2 users will be deleted after retire_after", done.stdout)
        self.assertEqual(len(self.platform.users()), 2)
        self.assertTrue(agent.published("a").exists())
        self.assertEqual({u["state"] for u in agent.status()["users"]}, {"removing"})
        for verb in (("rotate", "logs/a"), ("deploy",), ("rollback", "logs/a")):
            self.assertIn("decommission --undo", agent.run(*verb, expect=1).stderr)
        agent.settings["exposures"][0]["users"].append({"name": "c", "consumer_group": "c"})
        agent.write_config()
        agent.run("reconcile", expect=0)
        self.assertEqual(len(self.platform.users()), 2)
        self.assertLessEqual(len(self.platform.requests("delete_user")), 6)  # three attempts each, with backoff
        self.assertEqual(agent.status()["login"], "ok")
        self.assertIn("This host is being decommissioned", agent.run("status", expect=0).stdout)
        # --now: at once
        agent.run("decommission", "--now", "--yes", expect=0)
        self.gone(agent)

    def test_it_goes_on_by_itself(self):
        agent = self.host(retire_after="2s")
        agent.run("decommission", "--yes", expect=0)

        def over():
            agent.run("reconcile", expect=0)
            return not self.platform.users()

        wait_until(over, pause=0.5)
        self.gone(agent)

    def test_undo(self):
        agent = self.host()
        before = {u["id"] for u in self.platform.users()}
        agent.run("decommission", "--yes", expect=0)
        self.assertIn("Decommissioning cancelled", agent.run("decommission", "--undo", expect=0).stdout)
        agent.run("reconcile", expect=0)
        self.assertEqual({u["id"] for u in self.platform.users()}, before)
        self.assertEqual({u["state"] for u in agent.status()["users"]}, {"valid"})
        self.assertIsNone(agent.status()["decommission"])
        self.assertIn("nothing to undo", agent.run("decommission", "--undo", expect=0).stdout)

    def test_after_the_end_a_login_brings_it_back(self):
        agent = self.host()
        agent.run("decommission", "--now", "--yes", expect=0)
        self.assertIn("exposure-agent login", agent.run("decommission", "--undo", expect=0).stdout)
        agent.login()
        agent.run("reconcile", expect=0)
        self.assertEqual(len(self.platform.users()), 2)

    def test_off_a_terminal_it_wants_a_yes(self):
        agent = self.host()
        self.assertIn("to confirm, add --yes", agent.run("decommission", expect=64).stderr)
        agent.run("decommission", "--now", "--undo", expect=64)
        self.assertEqual({u["state"] for u in agent.status()["users"]}, {"valid"})

    def test_interrupted_the_next_pass_goes_on(self):
        agent = self.host()
        self.platform.fault(operation="delete_user", status=503, times=0)
        agent.run("decommission", "--now", "--yes", "-o", "json", expect=1)
        self.assertEqual(len(self.platform.users()), 2)
        self.assertLessEqual(len(self.platform.requests("delete_user")), 6)  # three attempts each, with backoff
        self.assertEqual(agent.status()["login"], "ok")
        self.assertEqual(len(agent.private_keys()), 2)
        self.platform.clear_faults()
        agent.run("reconcile", expect=0)
        self.gone(agent)

    def test_a_host_that_was_never_logged_in(self):
        agent = self.agent("a", login=False)
        agent.run("decommission", "--yes", expect=0)
        self.assertIsNotNone(agent.status()["decommission"]["finished_at"])


class Daemon(DecommissionCase):
    def test_a_running_daemon_does_it(self):
        agent = self.host(retire_after="2s")
        with agent.daemon() as process:
            agent.run("decommission", "--yes", expect=0)
            wait_until(lambda: not self.platform.users())
            wait_until(lambda: agent.status()["decommission"]["finished_at"])
            self.gone(agent)
            self.assertIsNone(process.poll())


if __name__ == "__main__":
    unittest.main()
