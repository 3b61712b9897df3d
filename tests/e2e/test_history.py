"""`history`: what happened to each user, when, and who requested it; from the disk alone."""

import datetime
import json
import os
import pwd
import unittest

import harness

SUDO = {"SUDO_USER": "daemon"}  # an account that exists on every host
SERVICE = {"INVOCATION_ID": "0" * 32}  # set by the service manager for units
ROTATION = ["rotation_requested", "created", "submitted", "accepted", "issued", "in_use"]


def login_account():
    """The account behind this test: the one that logged in, otherwise the test's own."""
    with open("/proc/self/loginuid", encoding="ascii") as file:
        uid = int(file.read())
    unset = uid == 0xFFFFFFFF
    return pwd.getpwuid(os.getuid() if unset else uid).pw_name, unset


class HistoryTest(harness.PlatformCase):
    def setUp(self):
        super().setUp()
        self.host = self.agent("siem", "backup")

    def events(self, *arguments, of="siem"):
        shown = self.host.json("history", *arguments)
        self.assertEqual(shown["schema"], "exposure-agent.history/v1")
        return [e for e in shown["events"] if of in (None, e["name"])]

    def words(self, *arguments, of="siem"):
        return [e["event"] for e in self.events(*arguments, of=of)]

    def test_nothing_yet(self):
        self.assertEqual(self.events(of=None), [])
        self.assertEqual(self.host.run("history", expect=0).stdout, "No events.\n")

    def test_the_log_tells_a_rotation_from_a_first_certificate(self):
        """A certificate that replaces another one is `rotated`; the first one, and one returned to, are `published`."""
        for verb, expected in (("reconcile", "published"), ("rotate", "rotated"), ("rollback", "published")):
            done = self.host.run("--log-format", "json", verb, "logs/siem", expect=0)
            logged = [json.loads(line).get("event") for line in done.stderr.splitlines() if line.startswith("{")]
            with self.subTest(verb=verb):
                self.assertEqual([e for e in logged if e in ("published", "rotated", "repaired")], [expected])

    def test_a_user_from_its_first_key_to_its_end(self):
        account, unset = login_account()
        self.host.run("reconcile", expect=0)
        first = self.events()
        self.assertEqual([e["event"] for e in first], ["created", "submitted", "accepted", "issued", "in_use"])
        generation = self.host.status("logs/siem")["generation"]
        for event in first:
            self.assertEqual(set(event), {"at", "exposure", "name", "generation", "event", "detail", "actor", "by"})
            self.assertEqual((event["exposure"], event["generation"]), ("logs", generation))
            self.assertEqual((event["actor"], event["by"]), ("person", account))
            datetime.datetime.strptime(event["at"], "%Y-%m-%dT%H:%M:%SZ")
        self.assertIn(self.host.status("logs/siem")["serial"], first[3]["detail"])

        self.host.run("rotate", "logs/siem", environment=SUDO, expect=0)
        rotation = self.events()[len(first):]
        self.assertEqual([e["event"] for e in rotation], ROTATION)
        self.assertEqual({e["by"] for e in rotation}, {"daemon"})
        self.assertIsNone(rotation[0]["generation"])
        self.host.run("rollback", "logs/siem", environment=SUDO, expect=0)
        self.assertIn("rolled_back", self.words())
        self.assertEqual(self.events()[-1]["by"], "daemon")

        # a unit started by a timer counts as the schedule
        self.host.settings["exposures"][0]["users"] = [{"name": "backup", "consumer_group": "backup"},
                                                       {"name": "late", "consumer_group": "late"}]
        self.host.write_config()
        self.host.run("reconcile", environment=SERVICE, expect=0)
        late = {(e["actor"], e["by"]) for e in self.events(of="late")}
        self.assertEqual(late, {("schedule", None)} if unset else {("person", account)})
        # a user that is no longer in the configuration keeps its history
        self.assertEqual(self.words("logs/siem", of=None), self.words())
        self.assertIn("unwanted", self.words("logs/siem"))

    def test_history_says_what_is_in_use(self):
        self.host.run("reconcile", expect=0)
        events = {e["event"]: e for e in self.events()}
        self.assertEqual(events["in_use"]["detail"], f"valid until {self.host.status('logs/siem')['not_after']}")

    def test_selection_and_form(self):
        self.host.run("reconcile", expect=0)
        self.assertEqual({e["name"] for e in self.events("logs/backup", of=None)}, {"backup"})
        self.assertEqual(len(self.events("--since", "1h")), 5)
        self.assertEqual(self.events("--since", "2099-01-01"), [])
        shown = self.host.run("history", "logs/siem", expect=0).stdout.splitlines()
        self.assertEqual(shown[0].split(), ["AT", "USER", "GENERATION", "EVENT", "BY", "DETAIL"])
        self.assertEqual(len(shown), 6)
        self.assertRegex(shown[1], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  logs/siem  [0-9a-f]{8} +created +\w+ +logs-\S+ \(absent\)")
        for wrong, said in ((("logs/sime",), "did you mean logs/siem?"), (("siem",), "did you mean logs/siem?"),
                            (("--since", "soon"), "--since: 'soon' is not a valid duration")):
            with self.subTest(wrong):
                self.assertIn(said, self.host.run("history", *wrong, expect=64).stderr)

    def test_without_network_beside_the_daemon(self):
        self.host.run("reconcile", expect=0)
        with self.host.daemon():
            self.host.run("rotate", "logs/siem", environment=SUDO, expect=0)
            self.assertEqual([(e["event"], e["by"]) for e in self.events()[5:]], [(word, "daemon") for word in ROTATION])
            self.platform.halt()
            self.addCleanup(self.platform.start)
            self.assertEqual(len(self.events()), 11)


if __name__ == "__main__":
    unittest.main()
