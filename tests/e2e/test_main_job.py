"""The main job: a YAML file becomes users on the platform and certificates on disk, and they stay that way."""

import base64
import datetime
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

import harness
from harness import TIME, user

NOW = {"retire_after": "0s"}


class MainJobCase(harness.PlatformCase):

    def edit(self, agent, *users):
        agent.settings["exposures"][0]["users"] = list(users)
        agent.write_config()

    def changes(self, agent, *arguments, expect=0):
        return [(c["exposure"], c["name"], c["action"]) for c in agent.json("plan", *arguments, expect=expect)["changes"]]

    def remote(self, agent_user):
        """The platform's users that carry our marker for `exposure/user`."""
        return [u for u in self.platform.users() if f" user={agent_user} " in u["description"]]

    def count(self, operation):
        return len(self.platform.requests(operation))


class TwentyUsersTest(MainJobCase):
    NAMES = [f"user-{n:02}" for n in range(10)]

    def twenty(self):
        users = [user(name) for name in self.NAMES]
        return self.agent(exposures=[{"variant": "log", "users": users}, {"variant": "health", "users": users}])

    def test_an_empty_tenant_gets_everything(self):
        self.platform.behave(exposure={"ready_delay_ms": 300, "instance_ready_delay_ms": 300})
        agent = self.twenty()
        agent.run("reconcile", expect=0)

        state = self.platform.state()
        self.assertEqual(sorted(i["variant"] for i in state["instances"]), ["health", "log"])
        self.assertEqual(len(state["users"]), 20)
        remote = {u["name"]: u for u in state["users"]}
        for exposure in ("logs", "health"):
            for name in self.NAMES:
                with self.subTest(user=f"{exposure}/{name}"):
                    published = agent.published(name, exposure)
                    self.assertTrue(published.key_matches())
                    self.assertTrue(published.verifies(self.platform.issuer_ca_file))
                    subject = published.subject()
                    self.assertRegex(subject, rf"^subject=CN={exposure}-{harness.TENANT}-{name}-[0-9a-f]{{8}}$")
                    self.check_sent(remote[subject.removeprefix("subject=CN=")], exposure, name)
        self.assertEqual([r["violations"] for r in self.platform.requests() if r["violations"]], [])

    def check_sent(self, sent, exposure, name):
        """Exactly as specified in contract section 3."""
        self.assertEqual(sent["name"], f"{exposure}-{harness.TENANT}-{name}-{sent['public_key_sha256'][:8]}")
        mark = f"owner=web-01 user={exposure}/{name} key={sent['public_key_sha256'][:16]}"
        self.assertEqual(sent["description"], f"[exposure-agent {mark}]")
        self.assertEqual(sent["email"], "team@example.com")
        self.assertEqual(sent["consumer_group"], f"group-{name}")
        self.check_csr(sent["csr"], sent["name"], sent["public_key_sha256"])

    def check_csr(self, encoded, common_name, fingerprint):
        pem = base64.b64decode(encoded, validate=True)
        subject = harness.openssl("req", "-noout", "-subject", "-nameopt", "RFC2253", stdin=pem)
        self.assertEqual(subject.strip(), f"subject=CN={common_name}")
        text = harness.openssl("req", "-noout", "-verify", "-text", stdin=pem)
        attributes = re.search(r"\n +Attributes:\n(.*?)\n +Signature Algorithm", text, re.DOTALL).group(1)
        self.assertEqual(
            [line.strip() for line in attributes.splitlines()],
            ["Requested Extensions:", "X509v3 Extended Key Usage:", "TLS Web Client Authentication"],
        )
        public_key = harness.openssl("req", "-noout", "-pubkey", stdin=pem).encode()
        der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=public_key, capture_output=True,
                             check=True).stdout
        self.assertEqual(hashlib.sha256(der).hexdigest(), fingerprint)

    def test_the_second_time_its_own_users_by_id_and_no_file(self):
        agent = self.twenty()
        harness.settle(agent)
        self.platform.clear_requests()
        before = harness.footprint(agent.state_dir)

        agent.run("reconcile", expect=0)

        self.assertEqual(sorted(self.platform.operations()), ["get_instance"] * 2 + ["get_user"] * 20)
        self.assertEqual({r["method"] for r in self.platform.requests()}, {"GET"})
        self.assertEqual(harness.footprint(agent.state_dir), before)

    def test_modes_from_the_start(self):
        for umask in (0o000, 0o077):
            with self.subTest(umask=oct(umask)):
                self.platform.reset()
                old = os.umask(umask)
                self.addCleanup(os.umask, old)
                agent = self.agent(user("siem"))
                agent.run("reconcile", expect=0)
                os.umask(old)
                self.check_modes(agent)

    def check_modes(self, agent):
        def mode(path):
            return oct(stat.S_IMODE(path.lstat().st_mode))

        self.assertEqual(mode(agent.state_dir), oct(0o711))
        self.assertEqual(mode(agent.state_dir / "private"), oct(0o700))
        for path in (agent.state_dir / "private").rglob("*"):
            self.assertEqual(mode(path), oct(0o700 if path.is_dir() else 0o600), path)
        published = agent.published("siem")
        self.assertEqual(mode(published.current / "key.pem"), oct(0o600))
        for name in ("cert.pem", "chain.pem", "fullchain.pem"):
            self.assertEqual(mode(published.current / name), oct(0o644))

    def test_what_is_sent_for_the_group(self):
        group = {"id": "5f0c-77", "name": "operations"}
        spellings = {"log": ("businessGroupId", "businessGroupName"), "health": ("spaceID", "spaceName"),
                     "lifecycle": ("businessGroupId", "businessGroupName")}
        for variant, (id_key, name_key) in spellings.items():
            for configured in (group, None):
                with self.subTest(variant=variant, configured=configured):
                    self.platform.reset()
                    more = {"business_group": configured} if configured else {}
                    self.served_group(variant, more)
                    shown = {id_key: group["id"], name_key: group["name"]} if configured else {name_key: harness.TENANT}
                    self.assertEqual(self.platform.requests("create_instance")[0]["body"], shown)
                    body = self.platform.requests("create_user")[0]["body"]
                    rest = {"consumerGroup", "contact", "csr", "description"}
                    self.assertEqual({k: v for k, v in body.items() if k not in rest}, shown)
                    self.assertEqual(body["contact"], {"email": "soc@example.com"})
                    self.assertRegex(body["description"], r"^SIEM forwarder \[exposure-agent owner=web-01 user=")

    def served_group(self, variant, more):
        entry = {"variant": variant, **more,
                 "users": [user("siem", contact="soc@example.com", description="SIEM forwarder")]}
        self.agent(exposures=[entry]).run("reconcile", expect=0)

    def test_every_key_type_and_the_der_encoding(self):
        for encoding in ("pem", "der"):
            for key in ("rsa-2048", "rsa-3072", "rsa-4096", "ecdsa-p256", "ecdsa-p384", "ed25519"):
                if encoding == "der" and key.startswith("rsa"):
                    continue
                with self.subTest(key=key, encoding=encoding):
                    self.platform.reset()
                    self.platform.behave(exposure={"csr_encoding": encoding})
                    agent = self.agent(exposures=[{"csr_encoding": encoding, "users": [user("siem", key=key)]}])
                    agent.run("reconcile", expect=0)
                    self.assertTrue(agent.published("siem").key_matches())


class PlanTest(MainJobCase):
    def test_before_between_and_after(self):
        first = [user("changed", rotation=NOW), user("kept"), user("removed", rotation=NOW)]
        agent = self.agent(*first)
        planned = self.changes(agent, "--detailed-exitcode", expect=2)
        self.assertEqual(planned, [("logs", None, "onboard")] + [("logs", u["name"], "create") for u in first])
        self.assertEqual({r["method"] for r in self.platform.requests() if r["operation"] != "token"}, {"GET"})
        agent.run("reconcile", expect=0)
        self.assertEqual((self.count("create_instance"), self.count("create_user"), self.count("delete_user")), (1, 3, 0))
        self.assertEqual(self.changes(agent, "--detailed-exitcode"), [])

        self.edit(agent, user("changed", rotation=NOW, contact="new@example.com"), user("kept"), user("new"))
        before = harness.footprint(agent.state_dir)
        planned = self.changes(agent, "--detailed-exitcode", expect=2)
        self.assertEqual(set(planned), {("logs", "changed", "rotate"), ("logs", "new", "create"), ("logs", "removed", "remove")})
        self.assertEqual(self.changes(agent, "logs/new"), [("logs", "new", "create")])
        self.assertEqual(self.changes(agent), planned)
        self.assertEqual(harness.footprint(agent.state_dir), before)
        self.platform.clear_requests()
        kept = self.remote("logs/kept")
        agent.run("reconcile", expect=0)
        self.assertEqual((self.count("create_user"), self.count("delete_user")), (2, 2))
        self.assertEqual(self.remote("logs/kept"), kept)
        self.assertEqual([u["email"] for u in self.remote("logs/changed")], ["new@example.com"])
        self.assertEqual(self.changes(agent, "--detailed-exitcode"), [])

    def test_later(self):
        agent = self.served(user("siem"), user("gone"))
        self.edit(agent, user("siem"), user("changed"))
        agent.run("reconcile", expect=0)
        self.edit(agent, user("siem"), user("changed", contact="new@example.com"))
        agent.run("reconcile", expect=0)
        planned = agent.json("plan", "--detailed-exitcode", expect=0)
        later = {(step["name"], step["action"]): step for step in planned["later"]}
        self.assertEqual(set(later), {("siem", "rotate"), ("changed", "rotate"), ("changed", "retire"), ("gone", "remove")})
        for step in planned["later"]:
            self.assertLessEqual({"exposure", "name", "action", "reason", "at"}, set(step))
            self.assertRegex(step["at"], TIME)
        self.assertEqual(later["changed", "retire"]["at"], agent.status("logs/changed")["retiring"][0]["delete_at"])
        self.assertEqual(later["gone", "remove"]["at"], agent.status("logs/gone")["retiring"][0]["delete_at"])
        self.assertEqual(later["siem", "rotate"]["at"], agent.status("logs/siem")["rotate_at"])
        text = agent.run("plan", expect=0).stdout
        self.assertIn("No changes.", text)
        self.assertIn("\nLater:\n", text)

        shown = agent.json("explain", "logs/gone")
        self.assertEqual(shown["next"], {"action": "remove", "at": later["gone", "remove"]["at"]})

    def test_a_changed_owner_is_asked_about(self):
        agent = self.served(user("siem"))
        before = agent.published("siem").generation
        agent.settings["owner"] = "web-02"
        agent.write_config()
        says = "owner changed: web-01 → web-02"
        self.assertIn(says, agent.run("check", expect=0).stderr)
        self.assertEqual(self.changes(agent, "--detailed-exitcode"), [])
        self.assertIn(says, agent.run("plan", expect=0).stdout)
        refused = agent.run("reconcile", expect=1)
        self.assertIn("reconcile --accept-loss", refused.stdout + refused.stderr)
        self.assertEqual((self.count("create_user"), agent.published("siem").generation), (0, before))
        self.assertEqual(agent.status("logs/siem")["reason"], "owner_changed")
        agent.run("reconcile", "--accept-loss", expect=0)
        self.assertNotEqual(agent.published("siem").generation, before)
        entry = agent.status("logs/siem")
        self.assertEqual((entry["state"], entry["retiring"]), ("valid", []))
        self.assertNotIn("web-01", agent.run("check", expect=0).stderr)

    def test_an_earlier_expiration_date_brings_the_rotation_forward(self):
        agent = self.served(user("siem"))
        before = agent.status("logs/siem")
        self.platform.behave(exposure={"expiration_offset_s": -86400})
        self.assertEqual(self.changes(agent), [])
        agent.run("reconcile", expect=0)
        after = agent.status("logs/siem")
        self.assertEqual(after["generation"], before["generation"])
        self.assertLess(after["expiration_date"], before["expiration_date"])
        self.assertLess(after["rotate_at"], before["rotate_at"])

    def test_strangers_are_shown(self):
        ours = "[exposure-agent owner=web-02 user=logs/siem key=0123456789abcdef]"
        stranger = self.platform.put_user(common_name="by-hand")
        other = self.platform.put_user(common_name="from-another", description=ours)
        shown = {u["remote_id"]: (u["exposure"], u["name"], u["owner"]) for u in self.agent(user("siem")).json("plan")["unmanaged"]}
        self.assertEqual(shown, {stranger: ("logs", "by-hand", None), other: ("logs", "from-another", "web-02")})

    def test_a_plan_shows_what_blocks_a_whole_exposure(self):
        agent = self.served(user("siem"))
        self.platform.delete_instances()
        text = agent.run("plan", expect=0).stdout
        self.assertNotIn("No changes", text)
        self.assertRegex(text, r"(?m)^logs +blocked +instance \S+ is gone from the platform.*exposure-agent reconcile --accept-loss")
        (blocked,) = agent.json("plan")["blocked"]
        self.assertEqual((blocked["exposure"], blocked["name"]), ("logs", None))
        self.assertIn("is gone from the platform", agent.json("explain", "logs/siem")["facts"]["exposure_blocked"])

    def test_only_the_named_user(self):
        agent = self.agent(user("one"), user("two"))
        agent.run("reconcile", "logs/two", expect=0)
        self.assertFalse(agent.published("one").exists())
        self.assertTrue(agent.published("two").key_matches())

    def test_a_changed_user_is_not_a_new_certificate_for_its_output(self):
        agent = self.served(user("siem"))
        generation = agent.published("siem").generation
        self.edit(agent, user("siem", output={"formats": ["pem", "bundle"]}))
        self.assertEqual(self.changes(agent), [("logs", "siem", "publish")])
        agent.run("reconcile", expect=0)
        self.assertTrue((agent.published("siem").current / "bundle.pem").exists())
        self.assertEqual((self.count("create_user"), agent.status("logs/siem")["generation"]), (0, generation[:8]))

    def test_what_is_damaged_is_published_again(self):
        agent = self.served(user("siem"))
        current = agent.published("siem").current
        key = current.joinpath("key.pem").read_text()
        for damage in (lambda: (current / "key.pem").unlink(), lambda: (current / "cert.pem").write_text("cut"),
                       lambda: (current / "key.pem").chmod(0o644), current.unlink,
                       lambda: shutil.rmtree(agent.published("siem").directory)):
            damage()
            self.assertEqual(self.changes(agent), [("logs", "siem", "publish")])
            agent.run("reconcile", expect=0)
            self.assertEqual((current / "key.pem").read_text(), key)
            self.assertEqual(stat.S_IMODE((current / "key.pem").stat().st_mode), 0o600)
            self.assertTrue(agent.published("siem").key_matches())
        self.assertEqual(self.count("create_user"), 0)


class LifeOfAUserTest(MainJobCase):
    def test_rotate_keeps_the_old_user_for_a_while(self):
        agent = self.served(user("siem"))
        old = agent.status("logs/siem")
        agent.run("rotate", "logs/siem", expect=0)
        new = agent.status("logs/siem")
        self.assertNotEqual(new["generation"], old["generation"])
        self.assertEqual([r["remote_id"] for r in new["retiring"]], [old["remote_id"]])
        self.assertEqual(new["retiring"][0]["common_name"], old["common_name"])
        self.assertEqual({u["id"] for u in self.remote("logs/siem")}, {old["remote_id"], new["remote_id"]})
        self.assertEqual(agent.published("siem").generation, new["generation"])
        self.assertTrue((agent.published("siem").directory / old["generation"] / "key.pem").exists())

    def test_rotate_and_retire_at_once(self):
        for how, rotation in (("0s", NOW), ("--retire-now", {})):
            with self.subTest(how=how):
                self.platform.reset()
                agent = self.served(user("siem", rotation=rotation))
                harness.settle(agent)
                old = agent.status("logs/siem")["remote_id"]
                agent.run("rotate", *([how] if how.startswith("-") else []), "logs/siem", expect=0)
                new = agent.status("logs/siem")
                self.assertEqual((new["retiring"], [u["id"] for u in self.remote("logs/siem")]), ([], [new["remote_id"]]))
                self.assertEqual([u["id"] for u in self.platform.state()["deleted_users"]], [old])
                self.assertTrue(agent.published("siem").key_matches())

    def test_three_rotations_keep_two_generations(self):
        agent = self.served(user("siem", rotation=NOW))
        for _ in range(3):
            agent.run("rotate", "logs/siem", expect=0)
        kept = [p.name for p in agent.published("siem").directory.iterdir() if not p.is_symlink()]
        self.assertEqual(len(kept), 2, kept)

    def test_replace_has_never_two_users(self):
        self.platform.behave(exposure={"exclusive_consumer_group": True})
        agent = self.served(user("siem", rotation={"strategy": "replace"}))
        agent.run("rotate", "logs/siem", expect=0)
        self.assertEqual([o for o in self.platform.operations() if o in ("create_user", "delete_user")],
                         ["delete_user", "create_user"])
        self.assertTrue(agent.published("siem").key_matches())

    def test_removed_at_once(self):
        agent = self.served(user("gone", rotation=NOW), user("kept"))
        self.edit(agent, user("kept"))
        agent.run("reconcile", expect=0)
        self.assertEqual((self.remote("logs/gone"), self.count("delete_user")), ([], 1))
        self.assertEqual([u["name"] for u in agent.status()["users"]], ["kept"])
        self.assertFalse(agent.published("gone").directory.exists() and any(agent.published("gone").directory.iterdir()))
        self.assertEqual([name for name, _ in agent.private_keys()], ["logs/kept"])

    def test_removed_after_a_while_and_named_again(self):
        entry = user("siem", rotation={"retire_after": "1h"})
        agent = self.served(entry, user("kept"))
        id_before = agent.status("logs/siem")["remote_id"]
        before = agent.published("siem").footprint()
        self.edit(agent, user("kept"))
        self.assertEqual(self.changes(agent), [("logs", "siem", "remove")])
        agent.run("reconcile", expect=0)
        shown = agent.status("logs/siem")
        self.assertEqual((shown["state"], len(self.remote("logs/siem"))), ("removing", 1))
        self.assertEqual(self.changes(agent, "--detailed-exitcode"), [])
        self.edit(agent, entry, user("kept"))
        agent.run("reconcile", expect=0)
        shown = agent.status("logs/siem")
        self.assertEqual((shown["state"], shown["remote_id"]), ("valid", id_before))
        self.assertEqual((self.count("create_user"), self.count("delete_user")), (0, 0))
        self.assertEqual(agent.published("siem").footprint(), before)

    def test_a_user_that_is_no_longer_ours_does_not_keep_the_others(self):
        agent = self.served(user("siem", rotation=NOW))
        (first,) = self.platform.users()
        self.platform.change_user(first["id"], description="taken over")
        agent.run("rotate", "logs/siem", expect=0)
        self.assertEqual(len(self.platform.users()), 2)
        self.edit(agent)
        run = agent.run("reconcile", expect=1)
        self.assertIn("logs/siem: user %s no longer has our marker, so it was not deleted" % first["id"], run.stderr)
        self.assertEqual([u["id"] for u in self.platform.users()], [first["id"]])
        self.platform.delete_users(id=first["id"])
        agent.run("reconcile", expect=0)
        self.assertEqual(agent.json("status")["users"], [])

    def test_prune_off_removes_nobody(self):
        agent = self.served(user("gone", rotation=NOW), user("kept"))
        agent.settings["reconcile"]["prune"] = False
        self.edit(agent, user("kept"))
        self.assertEqual(self.changes(agent), [])
        agent.run("reconcile", expect=0)
        self.assertEqual(self.count("delete_user"), 0)

    def test_a_lost_answer_is_found_again(self):
        agent = self.agent(user("siem"))
        self.platform.fault(operation="create_user", close="after")
        agent.run("reconcile", expect=0)
        self.assertEqual(self.count("create_user"), 1)
        self.assertEqual([u["id"] for u in self.remote("logs/siem")], [agent.status("logs/siem")["remote_id"]])
        self.assertTrue(agent.published("siem").key_matches())

    def test_a_lost_answer_after_the_end_of_the_program(self):
        agent = self.agent(user("siem"))
        agent.settings["reconcile"]["settle"] = "1h"
        agent.write_config()
        self.platform.fault(operation="create_user", close="after")
        self.platform.fault(operation="list_users", nth=2, times=0, status=500)
        agent.run("reconcile", "--timeout", "5s", expect=1)
        self.platform.clear_faults()
        self.assertEqual(self.changes(agent), [("logs", "siem", "adopt")])
        agent.run("reconcile", expect=0)
        self.assertEqual((self.count("create_user"), len(self.remote("logs/siem"))), (1, 1))
        self.assertTrue(agent.published("siem").key_matches())

    def test_a_user_that_somebody_deleted_is_made_again(self):
        agent = self.served(user("siem"), user("two"), user("three"))
        self.platform.delete_users(id=agent.status("logs/siem")["remote_id"])
        self.assertEqual(self.changes(agent), [("logs", "siem", "rotate")])
        agent.run("reconcile", expect=0)
        self.assertEqual((self.count("create_user"), len(self.remote("logs/siem"))), (1, 1))
        self.assertTrue(agent.published("siem").key_matches())

    def test_strangers_survive(self):
        other = "[exposure-agent owner=web-02 user=logs/siem key=0123456789abcdef]"
        strangers = {self.platform.put_user(common_name="by-hand", consumer_group="group-siem"),
                     self.platform.put_user(common_name="from-another", description=other)}
        agent = self.served(user("siem", rotation=NOW))
        agent.run("rotate", "logs/siem", expect=0)
        self.edit(agent)
        agent.run("reconcile", expect=0)
        self.assertEqual({u["id"] for u in self.platform.users()}, strangers)
        self.assertEqual(self.count("delete_user"), 2)

    def test_a_copied_marker_saves_somebody_elses_user(self):
        agent = self.served(user("siem"))
        (mine,) = self.platform.users()
        _, csr = harness.make_csr(agent.directory, f"logs-{harness.TENANT}-elsewhere")
        copy = self.platform.put_user(common_name="elsewhere", description=mine["description"],
                                      consumer_group=mine["consumer_group"], csr=harness.encode_csr(csr))
        agent.run("reconcile", expect=0)  # reads by id: does not see the copy
        agent.run("rotate", "logs/siem", "--retire-now", expect=0)  # reads the list: sees the copy
        agent.run("reconcile", expect=0)
        self.assertEqual({u["id"] for u in self.platform.users()}, {copy, agent.status("logs/siem")["remote_id"]})
        self.assertNotIn(mine["id"], {u["id"] for u in self.platform.users()})
        self.assertEqual(agent.run("plan", "--detailed-exitcode", expect=0).returncode, 0)
        # the copied marker is now that of the user in use
        self.platform.change_user(copy, description=next(
            u["description"] for u in self.platform.users() if u["id"] != copy))
        agent.run("rotate", "logs/siem", "--retire-now", expect=0)
        self.assertIn(copy, {u["id"] for u in self.platform.users()})

    def test_a_duplicate_is_planned_for_the_next_list(self):
        agent = self.served(user("siem"))
        harness.settle(agent)
        (mine,) = self.platform.users()
        self.platform.put_user(common_name="siem-again", description=mine["description"],
                               consumer_group=mine["consumer_group"], csr=mine["csr"])
        planned = agent.json("plan", "--detailed-exitcode", expect=0)
        self.assertEqual(planned["changes"], [])
        (retire,) = [step for step in planned["later"] if step["action"] == "retire"]
        self.assertRegex(retire["at"], TIME)
        agent.run("reconcile", expect=0)  # reads by id, as planned
        self.assertEqual((len(self.platform.users()), self.count("delete_user")), (2, 0))

    def test_a_user_that_the_platform_gives_up(self):
        self.platform.behave(exposure={"ready_delay_ms": -1})
        agent = self.agent(user("siem"))
        agent.run("reconcile", "--timeout", "5s", expect=1)
        (waiting,) = self.platform.users()
        self.platform.change_user(waiting["id"], status="FAILED")
        said = agent.run("reconcile", "--timeout", "1s", expect=1)
        self.assertIn(f"the platform reports FAILED for user {waiting['id']}", said.stdout + said.stderr)
        self.assertIn("FAILED", agent.run("explain", "logs/siem").stdout)
        self.assertIn("FAILED", json.dumps(agent.status("logs/siem")))
        self.platform.behave(exposure={"ready_delay_ms": 0})
        agent.run("reconcile", "--timeout", "60s", expect=0)
        self.assertEqual(agent.status("logs/siem")["state"], "valid")
        self.assertEqual([u["id"] for u in self.platform.users()], [agent.status("logs/siem")["remote_id"]])


class OutputTest(MainJobCase):
    def test_instances_token_and_check(self):
        agent = self.served(user("siem"), user("two"))
        (instance,) = self.platform.state()["instances"]
        shown_group = agent.json("instances", "logs")["instances"][0]["business_group"]
        self.assertEqual(set(shown_group), {"id", "name"})
        self.assertEqual(agent.json("instances"),
                         {"schema": "exposure-agent.instances/v1",
                          "instances": [{"exposure": "logs", "id": instance["id"], "name": instance["name"],
                                         "status": "READY", "topic": f"logs-{harness.TENANT}",
                                         "business_group": shown_group}]})
        token = agent.json("token")
        self.assertEqual((token["schema"], token["login"], token["source"]), ("exposure-agent.token/v1", "ok", "oauth"))
        self.assert_keys(token, "access_token_expires_at", "last_refresh_at")
        self.assertRegex(token["access_token_expires_at"], TIME)
        self.assertEqual(agent.run("check", expect=0).stdout, f"{agent.config_file}: ok (1 exposure, 2 users)\n")

    def test_explain(self):
        agent = self.served(user("siem"))
        shown = agent.json("explain", "logs/siem")
        self.assert_keys(shown, "schema", "exposure", "name", "facts", "finding", "reason", "next", "would_change")
        self.assertEqual((shown["schema"], shown["finding"], shown["next"]["action"]),
                         ("exposure-agent.explain/v1", "healthy", "rotate"))

    def test_a_failed_deletion_is_explained(self):
        agent = self.served(user("siem"))
        self.platform.fault(operation="delete_user", status=403, times=0)
        agent.run("rotate", "logs/siem", "--retire-now", expect=1)
        self.assertIn("403", agent.json("explain", "logs/siem")["facts"]["last_deletion_failure"])

    def test_data_goes_to_standard_output_and_has_no_colour(self):
        agent = self.served(user("siem"))
        for verb in (["status"], ["plan"], ["users"], ["instances"], ["token"]):
            with self.subTest(verb=verb):
                done = agent.run(*verb, expect=0)
                self.assertEqual(done.stderr, "")
                self.assertNotIn("\x1b", done.stdout)

    def test_nothing_secret_is_said(self):
        self.platform.behave(oauth={"access_token_lifetime_s": 5})  # forces frequent refreshes
        agent = self.agent(user("siem"))
        said, secrets = [], set()
        for verb in (["plan"], ["reconcile"], ["rotate", "--retire-now", "logs/siem"], ["status"], ["users"], ["token"],
                     ["explain", "logs/siem"], ["doctor"], ["reconcile"], ["plan"]):
            if verb == ["doctor"]:
                self.platform.fault(operation="list_users", status=500, body={"message": "no"})
            for form in ("text", "json"):
                done = agent.run("--log-level", "debug", "--log-format", form, *verb)
                said.append(done.stdout + done.stderr)
            said += [json.dumps(agent.status())]
            secrets |= self.secrets_of(agent)
            for secret in secrets:
                self.assertNotIn(secret, "".join(said))
        self.assertGreaterEqual(len(secrets), 8)

    def secrets_of(self, agent):
        """The client secret, every long string in the token store, and the lines of every key."""
        found = {harness.CLIENT_SECRET}
        for _, text in agent.private_keys():
            found.update(line for line in text.splitlines() if len(line) > 20 and "-----" not in line)
        found.update(t for t in re.findall(r'token"\s*:\s*"([^"]{12,})"', agent.stored_tokens()))
        return found


class ExitCodeTest(MainJobCase):
    def test_some_failed_others_were_served(self):
        self.platform.behave(exposure={"exclusive_consumer_group": True})
        self.platform.put_user(common_name="by-hand", consumer_group="group-taken")
        agent = self.agent(user("taken"), user("free"))
        agent.run("reconcile", expect=1)
        self.assertTrue(agent.published("free").key_matches())
        self.assertFalse(agent.published("taken").exists())

    def test_one_exposure_fails_the_other_is_served(self):
        agent = self.agent(exposures=[{"variant": "log", "users": ["siem"]}, {"variant": "health", "users": ["siem"]}])
        self.platform.fault(path="/hes/", status=500, times=0)
        agent.run("reconcile", "--timeout", "5s", expect=1)
        self.assertTrue(agent.published("siem", "logs").key_matches())

    def test_usage(self):
        agent = self.served(user("siem"))
        for arguments in (["no-such-verb"], [], ["plan", "--no-such-option"], ["rotate"], ["rotate", "logs/nobody"],
                          ["reconcile", "nonsense"], ["reconcile", "--timeout", "soon"], ["users", "elsewhere"]):
            with self.subTest(arguments=arguments):
                done = agent.run(*arguments, expect=64)
                self.assertEqual(done.stdout, "")
                self.assertNotEqual(done.stderr, "")

    def test_time_limits(self):
        agent = self.agent(user("siem"))
        for wrong in ("0s", "-1s", "", "5"):
            self.assertIn("--timeout", agent.run("reconcile", "--timeout", wrong, expect=64).stderr)
        self.assertEqual(self.platform.requests("list_instances"), [])

    def test_nothing_could_be_reached(self):
        agent = self.agent(user("siem"))
        agent.run("reconcile", expect=0)
        self.platform.halt()
        try:
            for verb in ("reconcile", "plan", "users", "instances"):
                with self.subTest(verb=verb):
                    agent.run(verb, expect=69)
            agent.run("status", expect=0)
        finally:
            self.platform.start()

    def test_another_agent_holds_the_state_directory(self):
        agent = self.served(user("siem"))
        with open(agent.state_dir / "lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            agent.run("reconcile", expect=75)
            agent.run("rotate", "logs/siem", expect=75)
            agent.run("status", expect=0)
        self.assertEqual(self.platform.requests(), [])

    def test_a_person_must_mend_the_login(self):
        with self.subTest("never logged in"):
            self.agent(user("siem"), login=False).run("reconcile", expect=77)
            self.assertEqual(self.count("create_instance"), 0)
        self.platform.behave(oauth={"access_token_lifetime_s": 1})
        with self.subTest("everything was revoked"):
            agent = self.served(user("siem"))
            self.outlive_token(agent)
            self.platform.revoke_tokens()
            agent.run("reconcile", expect=77)
            self.assertEqual(agent.status()["login"], "required")
        with self.subTest("the client is refused"):
            agent = self.served(user("siem"))
            agent.secret_file.write_text("another-secret\n")
            self.outlive_token(agent)
            agent.run("reconcile", expect=77)
        self.platform.reset()
        with self.subTest("401 for ever"):
            agent = self.served(user("siem"))
            self.platform.fault(operation=["list_instances", "list_users", "get_instance", "get_user"], status=401, times=0)
            agent.run("reconcile", "--timeout", "3s", expect=77)

    def outlive_token(self, agent):
        """Waits until it expires: a token refused (401) earlier is not replaced within seconds of its issue."""
        end = datetime.datetime.fromisoformat(agent.json("token")["access_token_expires_at"])
        harness.wait_until(lambda: datetime.datetime.now(datetime.timezone.utc) > end)

    def test_external_token(self):
        agent = self.agent(user("siem"), login=False)
        token_file = agent.directory / "token"
        agent.settings["identity"] = {"access_token": {"file": str(token_file)}}
        agent.write_config()
        token_file.touch(mode=0o600)
        token_file.write_text("stale-token\n")
        agent.run("reconcile", expect=77)
        token_file.write_text(self.platform.access_token() + "\n")
        agent.run("reconcile", expect=0)
        self.assertTrue(agent.published("siem").key_matches())
        self.assertEqual((agent.status()["login"], agent.json("token")["source"]), ("external", "external"))

    def test_wrong_configuration(self):
        agent = self.served(user("siem"))
        before = harness.footprint(agent.state_dir)
        agent.settings["exposures"][0]["tennant"] = "x"
        agent.settings["reconcile"]["settle"] = "soon"
        agent.write_config()
        for verb in ("check", "plan", "reconcile", "status", "users"):
            with self.subTest(verb=verb):
                done = agent.run(verb, expect=78)
                said = done.stdout if verb == "check" else done.stderr
                self.assertRegex(said, rf"{re.escape(str(agent.config_file))}:\d+:\d+: .*tennant.*tenant")
                self.assertRegex(said, rf"{re.escape(str(agent.config_file))}:\d+:\d+: .*soon")
        self.assertEqual(harness.footprint(agent.state_dir), before)
        self.assertEqual(self.platform.requests(), [])


class WrongServerTest(MainJobCase):
    """A server that cannot prove its identity gets nothing, not even a token."""

    def test_no_token_leaves_the_machine(self):
        agent = self.served(user("siem"))
        for certificate in ("unknown-ca", "other-host", "expired"):
            self.platform.behave(server_certificate=certificate)
            for verb in (["reconcile"], ["plan"], ["rotate", "logs/siem"], ["users"], ["login", "--code", "abc"]):
                with self.subTest(certificate=certificate, verb=verb[0]):
                    agent.run(*verb, expect=69)
        self.assertEqual(self.platform.requests(), [])
        self.assertGreater(self.platform.state()["connections"]["refused"], 0)
        self.platform.behave(server_certificate="good")
        agent.run("reconcile", expect=0)
        self.assertTrue(agent.published("siem").key_matches())

    def test_nor_does_a_login(self):
        agent = self.agent(user("siem"), login=False)
        seed = pathlib.Path(tempfile.mkdtemp(dir=agent.directory)) / "seed"
        seed.touch(mode=0o600)
        seed.write_text(self.platform.refresh_token() + "\n")
        self.platform.behave(server_certificate="unknown-ca")
        agent.run("login", "--refresh-token-file", seed, expect=69)
        self.assertEqual(self.platform.requests(), [])


if __name__ == "__main__":
    unittest.main()
