"""`import` (contract sections 4 and 10): a user created by hand comes under management."""

import base64
import shutil
import unittest

import harness
from harness import openssl, wait_until

NAME = "logs/siem"


class ImportCase(harness.PlatformCase):
    def setUp(self):
        super().setUp()
        self.directory = self.scratch()
        self.instance = self.platform.put_instance()
        self.output = self.directory / "tls"

    def by_hand(self, common_name="hand-made", description="made by hand", group="siem", contact="team@example.com"):
        """Creates a user as in the portal; returns (id, key file, certificate file)."""
        name = f"logs-{harness.TENANT}-{common_name}"
        key, csr = harness.make_csr(self.directory, name)
        token = self.platform.access_token()
        path = f"/les/api/v1/tenants/{harness.TENANT}/instances/{self.instance}/users"
        body = {"csr": harness.encode_csr(csr, "pem"), "consumerGroup": group, "contact": {"email": contact},
                "description": description, "businessGroupId": "bg", "businessGroupName": harness.TENANT}
        answer = self.platform.call("POST", path, body, token)
        self.assertEqual(answer.status, 201, answer.body)
        user = answer.json["id"]
        shown = wait_until(lambda: self.platform.call("GET", f"{path}/{user}", token=token).json.get("certificate"))
        certificate = self.directory / f"{common_name}.pem"
        pem = shown if "BEGIN" in shown else base64.b64decode(shown).decode()
        certificate.write_text(pem)
        return user, key, certificate

    def consumer(self, **user):
        """An agent whose user has its own output directory."""
        return self.agent({"name": "siem", "consumer_group": "siem", "output": {"directory": str(self.output)}, **user})

    def take(self, agent, made, *more, expect=0):
        _, key, certificate = made
        return agent.run("import", NAME, "--key", key, "--certificate", certificate, *more, expect=expect)

    def ids(self):
        return {u["id"] for u in self.platform.users()}


class Import(ImportCase):
    def test_the_pair_is_published_and_its_user_is_ours(self):
        made = self.by_hand(contact="old@example.com")
        agent = self.consumer(hooks=[{"command": [str(self.hook())]}])
        done = self.take(agent, made)
        self.assertIn(f"imported user {made[0]}", done.stdout)
        self.assertIn("contact stays 'old@example.com' until the first rotation, then 'team@example.com'", done.stdout)
        self.assertIn("to delete it, use --retire", done.stdout)
        published = harness.Published(self.output)
        self.assertTrue(published.key_matches())
        self.assertEqual(published.read("cert.pem").split(), made[2].read_text().split("-----END CERTIFICATE-----")[0].split()
                         + ["-----END", "CERTIFICATE-----"])
        self.assertEqual(self.runs(), 1)
        status = agent.status(NAME)
        self.assertEqual((status["state"], status["remote_id"]), ("valid", made[0]))
        self.assertEqual([(u["managed"], u["role"]) for u in agent.json("users")["users"]], [("this", "in_use")])
        self.assertEqual(agent.json("plan")["unmanaged"], [])
        agent.run("plan", "--detailed-exitcode", expect=0)
        agent.run("reconcile", expect=0)
        self.assertEqual(self.ids(), {made[0]})
        self.assertEqual(self.runs(), 1)
        self.assertIn("imported", [e[0] for e in agent.stored("SELECT json_extract(record, '$.event') FROM events")])

    def hook(self):
        return harness.write_program(self.directory / "hook", f"echo run >>{self.directory}/runs")

    def runs(self):
        path = self.directory / "runs"
        return len(path.read_text().split()) if path.exists() else 0

    def test_without_retire_the_user_outlives_its_rotation_and_its_removal(self):
        made = self.by_hand()
        agent = self.consumer(rotation={"retire_after": "0s"})
        self.take(agent, made)
        agent.run("rotate", NAME, expect=0)
        agent.run("reconcile", expect=0)
        self.assertIn(made[0], self.ids())
        self.assertEqual(len(self.ids()), 2)
        self.assertEqual(agent.status(NAME)["retiring"], [])
        self.assertNotIn("orphan", {u["role"] for u in agent.json("users")["users"]})
        self.assertEqual({u["role"] for u in agent.json("users")["users"] if u["remote_id"] == made[0]}, {None})
        self.assertNotIn("retire", {e["action"] for e in agent.json("forecast", "--for", "30d")["entries"]})
        agent.settings["exposures"][0]["users"] = []
        agent.write_config()
        agent.run("reconcile", expect=0)
        self.assertEqual(self.ids(), {made[0]})

    def test_with_retire_it_is_deleted_after_its_rotation(self):
        made = self.by_hand()
        agent = self.consumer(rotation={"retire_after": "0s"})
        done = self.take(agent, made, "--retire")
        self.assertNotIn("not be deleted", done.stdout)
        agent.run("reconcile", expect=0)
        self.assertEqual(self.ids(), {made[0]})
        agent.run("rotate", NAME, expect=0)
        self.assertNotIn(made[0], self.ids())
        self.assertEqual(len(self.ids()), 1)

    def test_hooks_stay_quiet_where_the_files_are_there_already(self):
        made = self.by_hand()
        agent = self.consumer(hooks=[{"command": [str(self.hook())]}])
        self.take(agent, made)
        shutil.rmtree(agent.state_dir)
        agent.login()
        self.take(agent, made)
        self.assertEqual(self.runs(), 1)
        self.assertEqual(agent.status(NAME)["deploy"], "done")

    def test_every_kind_of_key_file(self):
        password = self.directory / "password"
        password.write_text("correct horse\n")
        rsa = self.directory / "rsa.key"
        openssl("genrsa", "-out", rsa, "2048")
        forms = {
            "pkcs8": ("pkey", "-in"), "sec1": ("ec", "-in"),
            "encrypted": ("pkcs8", "-topk8", "-v2", "aes256", "-passout", f"file:{password}", "-in"),
            "encrypted-sec1": ("ec", "-aes256", "-passout", f"file:{password}", "-in"),
        }
        for name, command in forms.items():
            with self.subTest(name):
                self.platform.reset()
                self.instance = self.platform.put_instance()
                user, key, certificate = self.by_hand(common_name=name)
                form = self.directory / f"{name}.form"
                openssl(*command, key, "-out", form)
                agent = self.consumer()
                if "encrypted" in name:
                    refused = self.take(agent, (user, form, certificate), expect=64)
                    self.assertIn("is encrypted; give its password with --password-file", refused.stderr)
                    self.take(agent, (user, form, certificate), "--password-file", password)
                else:
                    self.take(agent, (user, form, certificate))
                shutil.rmtree(self.output)

    def test_what_is_refused(self):
        made = self.by_hand()
        other = self.by_hand(common_name="other")
        agent = self.consumer()
        done = self.take(agent, (made[0], other[1], made[2]), expect=1)
        self.assertIn("the certificate does not match this private key", done.stderr)
        done = self.take(agent, made, "--remote-id", "00000000-0000-0000-0000-000000000000", expect=1)
        self.assertIn("the platform has no user 0000", done.stderr)
        done = self.take(agent, made, "--remote-id", other[0], expect=1)
        self.assertIn("has another certificate", done.stderr)
        done = agent.run("import", "logs/nobody", "--key", made[1], "--certificate", made[2], expect=64)
        self.assertIn("is not in the configuration", done.stderr)
        self.platform.change_user(made[0], description="x [exposure-agent owner=web-02 user=logs/siem key=0123456789abcdef]")
        done = self.take(agent, made, expect=1)
        self.assertIn("belongs to exposure-agent of owner web-02", done.stderr)
        self.platform.delete_users(id=made[0])
        done = self.take(agent, made, expect=1)
        self.assertIn("no user on the platform has this certificate", done.stderr)
        self.assertEqual(agent.status(NAME)["state"], "absent")
        self.take(agent, other)
        done = self.take(agent, other, expect=1)
        self.assertIn("it already has a certificate", done.stderr)
        self.assertIn("exposure-agent rotate logs/siem", done.stderr)

    def test_a_running_daemon_does_it(self):
        made = self.by_hand()
        self.platform.behave(exposure={"ready_delay_ms": 3600000})
        agent = self.consumer()
        with agent.daemon():
            wait_until(lambda: agent.status(NAME)["state"] == "issuing")
            self.take(agent, made)
            wait_until(lambda: agent.status(NAME)["remote_id"] == made[0])
        self.assertNotIn("PRIVATE KEY", agent.log())


if __name__ == "__main__":
    unittest.main()
