"""Every variant of the platform's responses that the agent accepts (contract section 3), one subtest each."""

import datetime
import time
import unittest

import harness

A_YEAR_S = 365 * 86400


class FormatCase(harness.PlatformCase):
    """One agent whose users are served one at a time, each with a different behaviour."""

    def certificate(self, **rules):
        self.platform.behave(exposure={"certificate": None})
        self.platform.behave(exposure={"certificate": rules})


class CertificateTest(FormatCase):
    FORMATS = ("pem", "pem-crlf", "pem-escaped", "pem-text", "base64-pem")
    CHAINS = (("none", "leaf-first", 1), ("intermediate", "leaf-first", 2), ("intermediate", "leaf-last", 2),
              ("full", "leaf-first", 3), ("full", "shuffled", 3))

    def test_every_format_chain_and_order(self):
        cases = [(f, chain, order, length) for f in self.FORMATS for chain, order, length in self.CHAINS]
        cases.append(("base64-der", "none", "leaf-first", 1))
        names = [f"{f}-{chain}-{order}" for f, chain, order, _ in cases]
        agent = self.agent(*names)
        for (form, chain, order, length), name in zip(cases, names):
            with self.subTest(format=form, chain=chain, order=order):
                self.certificate(format=form, chain=chain, order=order)
                agent.run("reconcile", f"logs/{name}", expect=0)
                self.check(agent.published(name), length)

    def check(self, published, length):
        self.assertTrue(published.key_matches())
        self.assertEqual(published.read("cert.pem").count("BEGIN CERTIFICATE"), 1)
        self.assertEqual(published.read("fullchain.pem"), published.read("cert.pem") + published.read("chain.pem"))
        self.assertEqual(published.read("fullchain.pem").count("BEGIN CERTIFICATE"), length)
        for name in ("cert.pem", "fullchain.pem"):
            self.assertNotIn("\r", published.read(name))
        if length > 1:
            self.assertTrue(published.verifies(self.platform.issuer_ca_file))

    def test_what_is_used_by_its_extended_key_usage(self):
        agent = self.agent("both", "none", "server")
        for usage, code in (("both", 0), ("none", 0), ("server", 1)):
            with self.subTest(usage=usage):
                self.certificate(usage=usage)
                agent.run("reconcile", f"logs/{usage}", expect=code)
                self.assertEqual(agent.published(usage).exists(), code == 0)

    def test_what_is_never_used(self):
        cases = {"other-key": {"key": "other"}, "over": {"lifetime_s": -3600, "not_before_offset_s": -7200},
                 "not-yet": {"not_before_offset_s": 86400}}
        agent = self.agent(*cases)
        for name, rules in cases.items():
            with self.subTest(name):
                self.certificate(**rules)
                agent.run("reconcile", f"logs/{name}", expect=1)
                self.assertFalse(agent.published(name).exists())

    def test_a_certificate_that_is_not_there_yet(self):
        for answer in ("absent", "null", "empty", "garbage"):
            with self.subTest(answer=answer):
                self.platform.reset()
                agent = self.agent("siem")
                self.certificate(answer=answer)
                agent.run("reconcile", "--timeout", "1s", expect=1)
                self.assertFalse(agent.published("siem").exists())
                self.certificate(answer="present")
                agent.run("reconcile", expect=0)
                self.assertTrue(agent.published("siem").key_matches())
                self.assertEqual(len(self.platform.requests("create_user")), 1)


class DateTest(FormatCase):
    EXACT = ("iso", "iso-millis", "iso-nanos", "iso-offset", "iso-compact-offset", "iso-no-zone", "blank", "blank-millis",
             "rfc1123", "unix", "unix-text", "unix-ms", "unix-ms-text")
    NONE = ("garbage", "empty", "null", "absent")

    def reconciled(self, agent, form, **more):
        self.platform.behave(exposure={"date_format": form, **more})
        agent.run("reconcile", f"logs/{form}", expect=0)
        self.assertTrue(agent.published(form).key_matches())
        return agent.status(f"logs/{form}")

    def test_every_spelling(self):
        agent = self.agent(*self.EXACT, "date", *self.NONE)
        for form in self.EXACT:
            with self.subTest(format=form):
                shown = self.reconciled(agent, form)
                self.assertEqual(shown["expiration_date"], shown["not_after"])
                listed = [u for u in agent.json("users")["users"] if u["user"] == f"logs/{form}"]
                self.assertEqual([u["expiration_date"] for u in listed], [shown["not_after"]])
        with self.subTest(format="date"):
            shown = self.reconciled(agent, "date")
            self.assertEqual(shown["expiration_date"][:10], shown["not_after"][:10])
        for form in self.NONE:
            with self.subTest(format=form):
                shown = self.reconciled(agent, form)
                self.assertEqual((shown["expiration_date"], shown["state"]), (None, "valid"))
                self.assertIsNotNone(shown["rotate_at"])

    def test_the_earlier_end_counts(self):
        for offset_s in (-A_YEAR_S // 2, A_YEAR_S):
            with self.subTest(offset_s=offset_s):
                self.platform.reset()
                shown = self.reconciled(self.agent("iso"), "iso", expiration_offset_s=offset_s)
                end, rotate_at = (datetime.datetime.fromisoformat(shown[k]).timestamp() for k in ("not_after", "rotate_at"))
                lifetime_s = A_YEAR_S + min(offset_s, 0)
                from_start = (rotate_at - time.time()) / lifetime_s
                self.assertTrue(0.61 < from_start < 0.68, (shown, from_start))
                self.assertLess(abs(end - time.time() - A_YEAR_S), 86400)


class ContactTest(FormatCase):
    def test_every_spelling(self):
        agent = self.agent("siem")
        harness.settle(agent)
        self.platform.clear_requests()
        before = harness.footprint(agent.state_dir)
        for spelling, shown in (("nested", True), ("flat", True), ("both", True), ("null", False), ("absent", False)):
            with self.subTest(contact=spelling):
                self.platform.behave(exposure={"contact": spelling})
                (listed,) = agent.json("users")["users"]
                self.assertEqual(listed["contact"], "team@example.com" if shown else "")
                agent.run("reconcile", expect=0)
                self.assertEqual(harness.footprint(agent.state_dir), before)
        self.assertEqual(self.platform.requests("create_user"), [])


class GroupTest(FormatCase):
    """The group of the instance, as read from the response, is sent with its users."""

    GROUP, SPACE = ("businessGroupId", "businessGroupName"), ("spaceID", "spaceName")
    OWN = {"log": GROUP, "health": SPACE, "lifecycle": GROUP}
    SHOWN = {"business-group": GROUP, "space-id": SPACE, "space": SPACE}

    def test_every_spelling(self):
        spellings = ("variant", "business-group", "space-id", "space", "all", "null", "absent")
        for variant, own in self.OWN.items():
            exposures = [{"name": s, "variant": variant, "tenant": f"{variant}-{s}", "users": ["siem"]} for s in spellings]
            agent = self.agent(exposures=exposures)
            for spelling in spellings:
                with self.subTest(variant=variant, group=spelling):
                    tenant = f"{variant}-{spelling}"
                    self.platform.put_instance(variant, tenant, group_id="group-77", group_name="operations")
                    self.platform.behave(exposure={"group": spelling})
                    self.platform.clear_requests()
                    agent.run("reconcile", f"{spelling}/siem", expect=0)
                    (sent,) = self.platform.requests("create_user")
                    group = {k: v for k, v in sent["body"].items() if k.startswith(("businessGroup", "space"))}
                    id_key, name_key = self.SHOWN.get(spelling, own)  # mirrors what the instance shows
                    known = {id_key: "group-77", name_key: "operations"}
                    self.assertEqual(group, {name_key: tenant} if spelling in ("null", "absent") else known)

    def names_sent(self):
        return [sorted(k for k in r["body"] if k.startswith(("businessGroup", "space")))
                for r in self.platform.requests("create_user")]

    def test_a_service_that_wants_the_other_names(self):
        agent = self.agent(exposures=[{"variant": "health", "users": ["siem", "web"]}])
        self.platform.behave(exposure={"group_in_body": "business-group", "group": "absent"})
        agent.run("reconcile", "health/siem", expect=0)
        self.assertEqual(self.names_sent(), [["businessGroupName"]])  # learned when the instance was created
        self.platform.clear_requests()
        agent.run("reconcile", expect=0)  # remembered by another process
        self.assertEqual(self.names_sent(), [["businessGroupName"]])

    def test_the_names_that_the_file_wants(self):
        agent = self.agent(exposures=[{"variant": "health", "users": ["siem"], "group_fields": "business_group"}])
        self.platform.behave(exposure={"group_in_body": "business-group", "group": "absent"})
        agent.run("reconcile", expect=0)
        self.assertEqual([r["status"] for r in self.platform.requests("create_instance")], [201])

    def test_a_service_that_wants_the_id(self):
        agent = self.agent("siem")
        self.platform.behave(exposure={"group_id_required": True})
        done = agent.run("reconcile", expect=1)
        self.assertIn("businessGroupId is required", done.stderr)
        self.assertIn("set business_group: {id, name}", done.stderr)
        self.assertEqual(len(self.platform.requests("create_instance")), 2)  # both variants, once each


class EmptyListTest(FormatCase):
    def test_every_way_to_write_an_empty_list(self):
        for written in ("items", "null", "object"):
            with self.subTest(written):
                self.platform.reset()
                self.platform.behave(exposure={"empty_list": written})
                agent = self.agent("siem")
                agent.run("reconcile", expect=0)
                self.assertTrue(agent.published("siem").key_matches())

    def test_an_empty_object_is_no_reason_to_make_what_is_known_again(self):
        agent = self.agent("siem")
        agent.run("reconcile", expect=0)
        for operation in ("list_instances", "list_users", "get_instance", "get_user"):
            with self.subTest(operation):
                self.platform.clear_faults()
                if operation.startswith("list"):
                    agent.list_again()
                self.platform.clear_requests()
                self.platform.fault(operation=operation, times=0, status=200, body={})
                agent.run("reconcile")
                self.assertEqual(self.platform.requests("create_instance"), [])
                self.assertEqual(self.platform.requests("create_user"), [])


class OtherFieldsTest(FormatCase):
    def test_optional_and_unknown_fields(self):
        cases = ({"optional_fields": "null"}, {"optional_fields": "absent"}, {"unknown_fields": True}, {"show_csr": True},
                 {"id_in_answer": False}, {"create_status": 200}, {"delete_status": 200}, {"description_limit": 90},
                 {"list_lag_ms": 300})
        for behaviour in cases:
            with self.subTest(**behaviour):
                self.platform.reset()
                self.platform.behave(exposure={"ready_delay_ms": 300, **behaviour})
                agent = self.agent("siem")
                agent.run("reconcile", expect=0)
                agent.run("rotate", "--retire-now", "logs/siem", expect=0)
                harness.wait_until(lambda: agent.run("reconcile", expect=0) and len(self.platform.users()) == 1)
                self.assertTrue(agent.published("siem").key_matches())
                self.assertEqual(self.platform.users()[0]["id"], agent.status("logs/siem")["remote_id"])


if __name__ == "__main__":
    unittest.main()
