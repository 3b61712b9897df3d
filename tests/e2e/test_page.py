"""The status page on the metrics listener: its content, and how it looks in a browser."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
import unittest
import urllib.request
import xml.etree.ElementTree

import harness

CHROMIUM = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--hide-scrollbars")
HOSTILE = "<img src=x onerror=alert(1)>"


class PageTest(harness.PlatformCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        paused = {"name": "paused", "consumer_group": "p", "rotation": {"paused": True}}
        broken = {"name": "broken", "consumer_group": "b", "hooks": [{"command": ["/bin/sh", "-c", f"echo '{HOSTILE}'; exit 1"]}]}
        cls.url = f"http://127.0.0.1:{harness.free_port()}"
        users = ["siem-forwarder", "a-name-that-is-as-long-as-a-name-may-be", paused, broken]
        cls.host = cls.enterClassContext(harness.Agent(
            cls.platform, users=users, settings={"metrics": {"listen": cls.url.removeprefix("http://")}}))
        cls.enterClassContext(cls.host.daemon())
        harness.wait_until(lambda: (cls.host.status("logs/broken"))["deploy"] == "failed")
        harness.wait_until(lambda: all(u["generation"] for u in cls.host.status()["users"]))
        harness.wait_until(lambda: "3 of 4 users up to date" in cls.page()[1])

    def setUp(self):
        """No reset: the tests look at one page."""

    @classmethod
    def page(cls):
        with urllib.request.urlopen(cls.url + "/", timeout=harness.RUN_TIMEOUT) as answer:
            return answer.headers, answer.read().decode()

    def test_what_it_says(self):
        headers, text = self.page()
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        self.assertIn("3 of 4 users up to date", text)
        for user in self.host.status()["users"]:
            self.assertIn(f"<td data-label=\"User\">logs/{user['name']}</td>", text)
            if user["name"] == "paused":
                self.assertIsNone(user["rotate_at"])
            else:
                self.assertIn(user["rotate_at"][:10], text)
        self.assertRegex(text, r"<li>logs/broken: hook failed .*<br><code>exposure-agent deploy logs/broken</code></li>")
        for line in self.host.run("forecast", expect=0).stdout.splitlines():
            if " expire " in line:
                self.assertIn(f"{line.split()[0]} logs/paused: expire", text)

    def test_alerts_watch_a_paused_user(self):
        """Their thresholds are relative to the time from rotate_at to expiry: 0 would raise all of them."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=harness.RUN_TIMEOUT) as answer:
            metrics = answer.read().decode()
        (at,) = re.findall(r'rotate_at_timestamp_seconds\{exposure="logs",user="paused"\} (\S+)', metrics)
        self.assertGreater(float(at), 1e9)

    def test_nothing_in_it_runs_or_comes_from_elsewhere(self):
        headers, text = self.page()
        style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        self.assertEqual(headers["Content-Security-Policy"],
                         f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
                         "frame-ancestors 'none'")
        self.assertEqual((headers["X-Content-Type-Options"], headers["Referrer-Policy"]), ("nosniff", "no-referrer"))
        self.assertNotIn("<img", text)
        self.assertIn("&lt;img src=x onerror=alert(1)&gt;", text)
        self.assertNotRegex(text, r"<script|<link|@import|url\(|\sstyle=|\ssrc=\"|<[^>]*\son\w+=")
        self.assertEqual(set(re.findall(r'href="([^"]*)"', text)), {"/status.json", "/metrics"})
        self.assertEqual(text.count("<svg"), 1)
        drawn = re.search(r"<svg.*?</svg>", text, re.DOTALL)[0]
        self.assertGreater(len(list(xml.etree.ElementTree.fromstring(drawn).iter())), 20)

    def test_in_a_browser(self):
        """On a phone, a tablet and a desktop: no line is cut off, nothing scrolls sideways, nothing else is loaded."""
        browser = shutil.which("chromium")
        if not browser:
            self.skipTest("chromium is not installed")
        text = self.page()[1]
        probe = self.host.directory / "probe.html"
        for width in (320, 360, 768, 1280):
            with self.subTest(width=width):
                probe.write_text(f"""<!DOCTYPE html><meta charset="utf-8"><body><iframe id="page" width="{width}" height="900"
                    srcdoc="{html.escape(text)}"></iframe><script>
                    onload = () => {{
                        const w = document.getElementById("page").contentWindow, d = w.document;
                        const inside = e => !e.closest(".scroll") && !e.closest("thead");
                        document.body.dataset.found = JSON.stringify({{
                            width: w.innerWidth, scroll: d.documentElement.scrollWidth,
                            loaded: w.performance.getEntriesByType("resource").map(e => e.name),
                            wide: [...d.body.querySelectorAll("*")].filter(inside).filter(
                                e => e.getBoundingClientRect().right > w.innerWidth + 1).map(e => e.outerHTML.slice(0, 80)),
                            rows: d.querySelectorAll("tbody tr").length}});
                    }};</script>""")
                done = subprocess.run([browser, *CHROMIUM, f"--user-data-dir={self.host.directory}/browser", "--virtual-time-budget=3000",
                                       "--dump-dom", probe.as_uri()], capture_output=True, text=True, timeout=harness.RUN_TIMEOUT, check=True)
                found = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', done.stdout)[1]))
                self.assertEqual(found["width"], width)
                self.assertLessEqual(found["scroll"], width)
                self.assertEqual((found["loaded"], found["wide"]), ([], []))
                self.assertGreaterEqual(found["rows"], 4)

    def test_the_browser_obeys_the_policy(self):
        browser = shutil.which("chromium")
        if not browser:
            self.skipTest("chromium is not installed")
        picture = self.host.directory / "page.png"
        done = subprocess.run([browser, *CHROMIUM, f"--user-data-dir={self.host.directory}/browser", "--enable-logging=stderr",
                               "--window-size=1000,1400", f"--screenshot={picture}", self.url + "/"],
                              capture_output=True, text=True, timeout=harness.RUN_TIMEOUT, check=True)
        self.assertNotRegex(done.stderr, "Refused to|Content Security Policy")
        self.assertGreater(picture.stat().st_size, 10000)


if __name__ == "__main__":
    unittest.main()
