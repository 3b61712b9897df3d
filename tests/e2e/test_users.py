"""`users` and `instances` (contract section 4): what the platform has, whose it is, and the deletion of what nobody uses."""

import contextlib
import hashlib
import ssl
import unittest

import harness
from harness import TIME, user


class UsersTest(harness.PlatformCase):
    def deletions(self):
        return len(self.platform.requests("delete_user"))

    def test_users(self):
        agent = self.served(user("siem"))
        other = "[exposure-agent owner=web-02 user=logs/far key=0123456789abcdef]"
        strangers = [self.platform.put_user(common_name="by-hand", description="made by hand"),
                     self.platform.put_user(common_name="from-another", description=other)]
        shown = agent.json("users")
        self.assertEqual(shown["schema"], "exposure-agent.users/v1")
        rows = {u["remote_id"]: u for u in shown["users"]}
        for row in rows.values():
            self.assert_keys(row, "exposure", "remote_id", "name", "status", "managed", "owner", "user", "consumer_group",
                             "expiration_date", "description")
            self.assertRegex(row["expiration_date"], TIME)
            self.assertEqual((row["exposure"], row["status"]), ("logs", "READY"))
        mine = rows.pop(agent.status("logs/siem")["remote_id"])
        self.assertEqual((mine["managed"], mine["owner"], mine["user"]), ("this", "web-01", "logs/siem"))
        self.assertEqual((mine["consumer_group"], mine["role"]), ("group-siem", "in_use"))
        by_hand, far = (rows.pop(i) for i in strangers)
        self.assertEqual((by_hand["managed"], by_hand["owner"], by_hand["user"]), ("none", None, None))
        self.assertEqual((far["managed"], far["owner"], far["description"]), ("other", "web-02", other))
        self.assertEqual(rows, {})
        self.assertEqual(agent.json("users", "logs"), shown)
        text = agent.run("users", expect=0).stdout
        for word in ("by-hand", "web-02", "logs/siem"):
            self.assertIn(word, text)

    def test_users_show(self):
        agent = self.served(user("siem"))
        mine = agent.status("logs/siem")["remote_id"]
        shown = agent.json("users", "show", "logs", mine, "--certificate")
        self.assertEqual((shown["schema"], shown["user"]["role"]), ("exposure-agent.user/v1", "in_use"))
        self.assertEqual(shown["user"]["certificate"].strip(), agent.published("siem").read("fullchain.pem").strip())
        self.assertEqual(shown["user"]["created_by"], "svc-exposure")
        self.assertNotIn("certificate", agent.json("users", "show", "logs", mine)["user"])
        text = agent.run("users", "show", "logs", mine, expect=0).stdout
        self.assertRegex(text, r"(?m)^created by +svc-exposure$")
        self.assertIn("no user has the id nobody", agent.run("users", "show", "logs", "nobody", expect=1).stderr)

    def test_groups_are_shown(self):
        self.platform.put_instance(group_id="group-1", group_name="default group")
        agent = self.served("siem")
        mine = agent.status("logs/siem")["remote_id"]
        self.assertIn("default group (group-1)", agent.run("users", expect=0).stdout)
        self.assertRegex(agent.run("users", "show", "logs", mine, expect=0).stdout,
                         r"(?m)^business group +default group \(group-1\)$")

    def test_users_delete(self):
        agent = self.served(user("siem"))
        strangers = [self.platform.put_user(common_name=f"by-hand-{n}") for n in range(2)]
        agent.run("users", "delete", "logs", *strangers, expect=64)
        agent.run("users", "delete", "logs", strangers[0], "no-such-id", "--yes", expect=1)
        self.assertEqual(self.deletions(), 0)
        agent.run("users", "delete", "logs", *strangers, "--yes", expect=0)
        self.assertEqual([u["id"] for u in self.platform.users()], [agent.status("logs/siem")["remote_id"]])

    def test_users_delete_spares_what_is_in_use(self):
        agent = self.served(user("siem"))
        mine = agent.status("logs/siem")["remote_id"]
        said = agent.run("users", "delete", "logs", mine, "--yes", expect=1).stderr
        self.assertIn(f"logs: user {mine} is in use by logs/siem; nothing was deleted", said)
        self.assertEqual(self.deletions(), 0)
        agent.run("users", "delete", "logs", mine, "--yes", "--force", expect=0)
        self.assertEqual(self.platform.users(), [])

    def test_a_deleted_retiring_user_is_not_announced_any_more(self):
        agent = self.served(user("siem", rotation={"retire_after": "2h"}))
        for daemon in (False, True):
            with self.subTest(daemon=daemon), agent.daemon() if daemon else contextlib.nullcontext():
                agent.run("rotate", "logs/siem", expect=0)
                (retiring,) = agent.status("logs/siem")["retiring"]
                done = agent.json("users", "delete", "logs", retiring["remote_id"], "--yes")
                self.assertEqual(done, {"schema": "exposure-agent.users-delete/v1", "users": [
                    {"exposure": "logs", "remote_id": retiring["remote_id"], "deleted": True, "error": None}]})
                self.assertEqual(agent.status("logs/siem")["retiring"], [])
                planned = agent.json("plan")
                self.assertEqual((planned["changes"], [c["action"] for c in planned["later"]]), ([], ["rotate"]))
                self.assertEqual([u["id"] for u in self.platform.users()], [agent.status("logs/siem")["remote_id"]])

    def test_users_delete_in_json(self):
        agent = self.served("siem")
        self.assertEqual(agent.json("users", "delete", "--orphans", "--yes"),
                         {"schema": "exposure-agent.users-delete/v1", "users": []})
        stranger = self.platform.put_user(common_name="by-hand")
        self.platform.fault(operation="delete_user", status=403, times=0)
        (row,) = agent.json("users", "delete", "logs", stranger, "--yes", expect=1)["users"]
        self.assertEqual((row["remote_id"], row["deleted"]), (stranger, False))
        self.assertIn("403", row["error"])

    def test_users_delete_looks_after_a_lost_answer(self):
        agent = self.served(user("siem"))
        stranger = self.platform.put_user(common_name="by-hand")
        self.platform.fault(operation="delete_user", nth=1, close="after")
        self.assertEqual(agent.run("users", "delete", "logs", stranger, "--yes", expect=0).stdout, f"deleted {stranger}\n")

    def test_roles_and_orphans(self):
        agent = self.served(user("siem", rotation={"retire_after": "2h"}))
        agent.run("rotate", "logs/siem", expect=0)
        mark = "[exposure-agent owner=web-01 user=logs/siem key={}]"
        other = self.platform.put_user(common_name="copied", description=mark.format("0123456789abcdef"))
        _, csr = harness.make_csr(agent.directory, f"logs-{harness.TENANT}-lost")
        key = hashlib.sha256(ssl.PEM_cert_to_DER_cert(
            harness.openssl("req", "-pubkey", "-noout", stdin=csr.encode()).replace("PUBLIC KEY", "CERTIFICATE")))
        lost = self.platform.put_user(common_name="lost", description=mark.format(key.hexdigest()[:16]),
                                      csr=harness.encode_csr(csr))
        roles = {u["remote_id"]: (u["managed"], u["role"]) for u in agent.json("users")["users"]}
        self.assertEqual(roles.pop(agent.status("logs/siem")["remote_id"]), ("this", "in_use"))
        self.assertEqual(roles.pop(agent.status("logs/siem")["retiring"][0]["remote_id"]), ("this", "retiring"))
        self.assertEqual(roles, {other: ("none", None), lost: ("this", "orphan")})
        agent.run("users", "delete", "--orphans", expect=64)
        agent.run("users", "delete", "logs", lost, "--orphans", "--yes", expect=64)
        agent.run("users", "delete", "--orphans", "--yes", expect=0)
        self.assertEqual(sorted(u["id"] for u in self.platform.users()),
                         sorted(u["remote_id"] for u in agent.json("users")["users"]))
        self.assertNotIn(lost, [u["id"] for u in self.platform.users()])
        self.assertIn("No orphans", agent.run("users", "delete", "logs", "--orphans", "--yes", expect=0).stdout)

    def test_a_known_instance_is_read_by_its_id(self):
        agent = self.served("siem")
        agent.run("instances", "logs", expect=0)
        self.assertEqual(self.platform.operations(), ["get_instance"])
        self.platform.delete_instances()
        self.assertIn("No exposure has a service instance", agent.run("instances", "logs", expect=0).stdout)


if __name__ == "__main__":
    unittest.main()
