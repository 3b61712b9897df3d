"""`forecast`: coming events from the same decisions, as a table, JSON, a calendar and an image."""

import datetime
import re
import subprocess
import unittest
import xml.etree.ElementTree

import harness

DAY = datetime.timedelta(days=1)
SVG = "{http://www.w3.org/2000/svg}"


def time_of(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")


class ForecastTest(harness.PlatformCase):
    def setUp(self):
        super().setUp()
        paused = {"name": "paused", "consumer_group": "p", "description": "a, b; c", "rotation": {"paused": True}}
        self.host = self.agent("siem", paused)

    def entries(self, *arguments):
        shown = self.host.json("forecast", *arguments)
        self.assertEqual(shown["schema"], "exposure-agent.forecast/v1")
        times = [e["at"] for e in shown["entries"]]
        self.assertEqual(times, sorted(times))
        self.assertTrue(all(t <= shown["until"] for t in times))
        return shown["entries"]

    def told(self, *arguments):
        return [(e["name"], e["action"]) for e in self.entries(*arguments) if e["action"] != "refresh"]

    def test_the_dates_are_those_of_status_and_plan(self):
        self.assertEqual(self.told("--for", "30d"), [("paused", "create"), ("siem", "create")])
        self.host.run("reconcile", expect=0)
        status = {u["name"]: u for u in self.host.status()["users"]}
        entries = [e for e in self.entries() if e["action"] != "refresh"]
        self.assertEqual([(e["exposure"], e["name"], e["action"], e["reason"]) for e in entries], [
            ("logs", "siem", "rotate", "rotation_due"), ("logs", "siem", "retire", "superseded"),
            ("logs", "paused", "expire", "paused")])
        self.assertEqual(entries[0]["at"], status["siem"]["rotate_at"])
        self.assertEqual(time_of(entries[1]["at"]) - time_of(entries[0]["at"]), DAY)
        self.assertEqual(entries[2]["at"], status["paused"]["not_after"])

        self.host.run("rotate", "logs/siem", expect=0)
        retiring = self.host.status("logs/siem")["retiring"][0]
        self.assertEqual([e["at"] for e in self.entries("logs/siem") if e["action"] == "retire"][0], retiring["delete_at"])
        self.host.settings["exposures"] = [self.host.exposure(users=["siem"])]
        self.host.write_config()
        self.assertEqual(sorted(self.told("--for", "3d")), [("paused", "remove"), ("siem", "retire")])

    def test_refreshes_and_logins(self):
        refreshes = [e for e in self.entries("--for", "10d") if e["action"] == "refresh"]
        self.assertIn(len(refreshes), (10, 11))  # refresh_every: 24h, minus up to a tenth
        self.assertEqual({(e["exposure"], e["name"]) for e in refreshes}, {(None, None)})
        shown = self.host.run("forecast", "--for", "10d", expect=0).stdout
        self.assertRegex(shown, r"(?m)^The access token is refreshed 1[01] times, next at ")
        self.assertRegex(shown, r"(?m)^Until .*: 2 new certificates and 0 deletions, automatic; no login by a person$")
        self.host.run("logout", expect=0)
        self.assertEqual(self.told("--for", "1d")[0], (None, "login"))
        self.assertIn("Run: exposure-agent login", self.host.run("forecast", expect=0).stdout)

    def test_without_network_and_refusals(self):
        self.host.run("reconcile", expect=0)
        before = harness.footprint(self.host.state_dir)
        self.platform.halt()
        self.addCleanup(self.platform.start)
        self.assertEqual(self.told("logs/siem"), [("siem", "rotate"), ("siem", "retire")])
        self.assertEqual(harness.footprint(self.host.state_dir), before)
        for wrong, said in ((("logs/sime",), "did you mean logs/siem?"), (("--for", "soon"), "--for: 'soon' is not"),
                            (("--for", "1000y"), "'1000y' is not"), (("--for", "11y"), "10 years at most"),
                            (("-o", "pdf"), "'pdf' is not one of text|json|ics|svg")):
            with self.subTest(wrong):
                self.assertIn(said, self.host.run("forecast", *wrong, expect=64).stderr)

    def calendar(self):
        """The raw output: text mode would convert CRLF to LF."""
        return subprocess.run(self.host.command("forecast", "-o", "ics"), env=self.host.environment(), check=True,
                              capture_output=True).stdout

    def test_calendar_form(self):
        self.host.run("reconcile", expect=0)
        text = self.calendar()
        self.assertTrue(text.endswith(b"END:VCALENDAR\r\n"))
        self.assertEqual(text.count(b"\n"), text.count(b"\r\n"))
        self.assertTrue(all(len(line) <= 75 for line in text.split(b"\r\n")))
        lines = text.replace(b"\r\n ", b"").decode().split("\r\n")
        events = [line for line in lines if line == "BEGIN:VEVENT"]
        self.assertEqual(len(events), 3)
        ids = [line for line in lines if line.startswith("UID:")]
        self.assertEqual(len(set(ids)), 3)
        self.assertEqual(ids, re.findall(r"UID:\S+", self.calendar().decode()))  # stable across runs
        self.assertEqual(len([line for line in lines if re.fullmatch(r"DTSTAMP:\d{8}T\d{6}Z", line)]), 3)
        self.assertIn(r"unset it\, or run: exposure-agent rotate logs/paused", next(
            line for line in lines if "rotation.paused" in line))

    def test_calendar_in_a_parser(self):
        try:
            import icalendar
        except ImportError:
            self.skipTest("python3-icalendar is not installed")
        self.host.run("reconcile", expect=0)
        entries = [e for e in self.entries() if e["action"] != "refresh"]
        events = list(icalendar.Calendar.from_ical(self.calendar()).walk("VEVENT"))
        self.assertEqual([e.decoded("dtstart").strftime("%Y-%m-%dT%H:%M:%SZ") for e in events], [e["at"] for e in entries])
        self.assertEqual([str(e["summary"]) for e in events], [
            "logs/siem: certificate rotates", "logs/siem: replaced user is deleted", "logs/paused: certificate expires"])
        for event, entry in zip(events, entries):
            self.assertEqual(str(event["description"]), f"Host web-01: {entry['sentence']}")

    def test_picture(self):
        self.host.run("reconcile", expect=0)
        text = self.host.run("forecast", "-o", "svg", expect=0).stdout
        root = xml.etree.ElementTree.fromstring(text)
        self.assertEqual(root.tag, f"{SVG}svg")
        self.assertRegex(root.find(f"{SVG}title").text, r"^Certificates of web-01, \d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d$")
        labels = [e.text for e in root.iter(f"{SVG}text")]
        for label in ("logs/siem", "logs/paused", "new certificate (automatic)", "a person logs in"):
            self.assertIn(label, labels)
        self.assertGreater(len([label for label in labels if re.match(r"[A-Z][a-z]{2}( \d{4})?$", label)]), 10)
        titles = " ".join(e.text for e in root.iter(f"{SVG}title"))
        self.assertIn("logs/siem: a valid certificate is in use", titles)
        self.assertIn("logs/paused: expire", titles)
        self.assertIn("prefers-color-scheme:dark", root.find(f"{SVG}style").text)
        self.assertNotRegex(text, r"<script|href|url\(|@import|\son\w+=")


class ReadmePicturesTest(unittest.TestCase):
    def test_they_are_there_in_light_and_dark(self):
        readme = (harness.ROOT / "README.md").read_text()
        pictures = [harness.ROOT / path for path in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", readme)]
        self.assertEqual([p.name for p in pictures], ["rotation.svg", "status-page.png", "fleet.svg"])
        for picture in pictures:
            with self.subTest(picture.name):
                if picture.suffix == ".png":
                    self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
                    continue
                text = picture.read_text()
                xml.etree.ElementTree.fromstring(text)
                self.assertRegex(text, r"prefers-color-scheme: ?dark")
                self.assertNotRegex(text, r"<script|href|url\(|@import")


if __name__ == "__main__":
    unittest.main()
