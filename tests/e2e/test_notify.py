"""`notify` (contract sections 2 and 10): who is told that action is needed, once, again, and when it is resolved."""

import http.server
import json
import os
import re
import shutil
import subprocess
import threading
import unittest

import harness
from harness import wait_until

SECRET_PATH = "/hooks/f3a1"


class Webhook:
    """A receiver of POSTs on a free port; answers with `status`."""

    def __init__(self):
        self.status = 204
        self.bodies = []
        self.requests = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append((self.path, self.headers["Content-Type"]))
                if outer.status < 300:
                    outer.bodies.append(json.loads(body))
                said = b"" if outer.status == 204 else f"not here: {self.path}".encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}{SECRET_PATH}"

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class NotifyCase(harness.PlatformCase):
    def setUp(self):
        super().setUp()
        self.directory = self.scratch()
        self.pager = self.directory / "page-me"
        self.write_pager("cat >>told; env >environment")

    def write_pager(self, text):
        harness.write_program(self.pager, f"cd {self.directory} || exit 99\n{text}")

    def told(self):
        """Every message passed to the command."""
        path = self.directory / "told"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def states(self):
        return [f"{t['state']} {t['case']} {t['subject']}" for t in self.told()]

    def teller(self, login=True, metrics=None, **notify):
        """An agent that notifies the pager, or as given."""
        settings = {"notify": notify or {"command": [str(self.pager)]}, **({"metrics": metrics} if metrics else {})}
        return self.agent("siem", settings=settings, login=login)

    def webhook(self):
        hook = Webhook()
        self.addCleanup(hook.stop)
        return hook


class OneShot(NotifyCase):
    def test_a_login_that_is_over_is_told_once_and_that_it_works_again(self):
        agent = self.teller(login=False)
        agent.run("reconcile", expect=77)
        (told,) = self.told()
        self.assertEqual(set(told), {"schema", "state", "case", "subject", "since", "message", "remedy", "host", "owner"})
        self.assertEqual(told["schema"], "exposure-agent.notify/v1")
        self.assertEqual((told["state"], told["case"], told["subject"]), ("raised", "login", "login"))
        self.assertEqual((told["owner"], told["remedy"]), ("web-01", "exposure-agent login"))
        self.assertIn("log", told["message"].lower())
        self.assertRegex(told["since"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        environment = (self.directory / "environment").read_text().splitlines()
        self.assertEqual({line.split("=")[0] for line in environment} - {"PWD", "SHLVL", "_", "OLDPWD"}, {"PATH"})
        agent.run("reconcile", expect=77)
        self.assertEqual(len(self.told()), 1)
        self.assertEqual([c["subject"] for c in agent.status()["notify"]["cases"]], ["login"])
        agent.login()
        agent.run("reconcile", expect=0)
        self.assertEqual(self.states(), ["raised login login", "over login login"])
        self.assertEqual(self.told()[1]["since"], told["since"])
        agent.run("reconcile", expect=0)
        self.assertEqual(len(self.told()), 2)

    def test_an_unchanged_case_is_repeated(self):
        agent = self.teller(login=False, command=[str(self.pager)], repeat="1s")

        def repeated():
            agent.run("reconcile", expect=77)
            return "repeated login login" in self.states()

        wait_until(repeated)
        self.assertEqual(self.states()[0], "raised login login")

    def test_a_blocked_user_and_a_certificate_close_to_expiry(self):
        agent = self.teller(command=[str(self.pager)], expiry_warning="3650d")
        agent.run("reconcile", expect=0)
        self.assertEqual(self.states(), ["raised expiry logs/siem"])
        (told,) = self.told()
        self.assertRegex(told["message"], r"^logs/siem: certificate expires at ")
        self.assertEqual(told["remedy"], "exposure-agent explain logs/siem")
        agent.settings["notify"]["expiry_warning"] = "1d"
        agent.write_config()
        self.platform.delete_instances()
        agent.run("reconcile", expect=1)
        self.assertEqual(self.states()[1:], ["raised blocked logs", "over expiry logs/siem"])

    def test_what_was_not_sent_is_sent_later(self):
        self.write_pager("cat >/dev/null; echo no modem >&2; exit 3")
        agent = self.teller(login=False)
        done = agent.run("reconcile", expect=77)
        self.assertRegex(done.stderr, r"notification not sent: notify.command \S+page-me: exit 3: no modem; next retry in")
        shown = agent.status()["notify"]
        self.assertEqual(shown["cases"], [])
        self.assertIn("exit 3: no modem", shown["last_error"])
        self.assertIsNotNone(shown["next_attempt"])
        self.assertIn("notification not sent", agent.run("status", expect=0).stdout)
        agent.login()
        agent.run("status", "--check", expect=1)
        agent.run("logout", expect=0)
        self.write_pager("cat >>told")

        def sent():
            agent.run("reconcile", expect=77)
            return self.told()

        wait_until(sent)
        self.assertEqual(self.states(), ["raised login login"])
        self.assertIsNone(agent.status()["notify"]["last_error"])

    @unittest.skipUnless(os.geteuid() == 0, "only root checks programs")
    def test_root_runs_no_program_that_others_can_change(self):
        self.pager.chmod(0o777)
        agent = self.teller(login=False)
        done = agent.run("reconcile", expect=77)
        self.assertIn("notification not sent", done.stderr)
        self.assertEqual(self.told(), [])

    def test_nothing_is_told_where_nobody_is_named(self):
        agent = self.teller(login=False)
        del agent.settings["notify"]
        agent.write_config()
        agent.run("reconcile", expect=77)
        self.assertIsNone(agent.status()["notify"])
        self.assertEqual(self.told(), [])


class Test(NotifyCase):
    """notify --test"""

    def test_a_command(self):
        self.write_pager("cat >>told; echo paged")
        agent = self.teller()
        done = agent.run("notify", "--test", expect=0)
        self.assertRegex(done.stdout, r"^Notification sent. notify.command \S+page-me: exit 0: paged\n$")
        (told,) = self.told()
        self.assertEqual((told["state"], told["case"]), ("test", "test"))
        shown = agent.json("notify", "--test")
        self.assertEqual((shown["schema"], shown["sent"]), ("exposure-agent.notify-test/v1", True))
        self.assertIn("paged", shown["answer"])

    def test_a_command_that_fails(self):
        self.write_pager("echo no modem; exit 3")
        done = self.teller().run("notify", "--test", expect=1)
        self.assertIn("notification not sent: notify.command", done.stderr)
        self.assertIn("exit 3: no modem", done.stderr)

    def test_a_webhook(self):
        hook = self.webhook()
        agent = self.teller(url=hook.url)
        done = agent.run("notify", "--test", expect=0)
        self.assertEqual(done.stdout, "Notification sent. notify.url: 127.0.0.1 answered 204, no output\n")
        self.assertEqual(hook.requests, [(SECRET_PATH, "application/json")])
        self.assertEqual(hook.bodies[0]["state"], "test")
        hook.status = 404
        done = agent.run("notify", "--test", expect=1)
        self.assertIn("127.0.0.1 answered 404", done.stderr)
        self.assertNotIn(SECRET_PATH, done.stderr)

    def test_nobody_listens(self):
        hook = self.webhook()
        agent = self.teller(url=hook.url)
        hook._server.server_close()  # pylint: disable=protected-access
        done = agent.run("notify", "--test", expect=1)
        self.assertIn("notification not sent: notify.url", done.stderr)
        self.assertNotIn(SECRET_PATH, done.stderr)

    def test_a_command_line_that_is_wrong(self):
        agent = self.teller()
        self.assertIn("run: exposure-agent notify --test", agent.run("notify", expect=64).stderr)
        del agent.settings["notify"]
        agent.write_config()
        self.assertIn("notify is not configured", agent.run("notify", "--test", expect=78).stderr)


class Daemon(NotifyCase):
    def test_a_webhook_that_fails_and_then_works(self):
        hook = self.webhook()
        hook.status = 503
        listener = self.directory / "metrics.sock"
        agent = self.teller(login=False, url=hook.url, metrics={"listen": f"unix:{listener}"})
        with agent.daemon():
            wait_until(lambda: hook.requests)
            wait_until(lambda: agent.status()["notify"]["last_error"])
            self.assertIn("127.0.0.1 answered 503", agent.status()["notify"]["last_error"])
            wait_until(lambda: "exposure_agent_notify_failing 1" in harness.scrape(listener))
            wait_until(lambda: re.search(r'notifications_total\{result="failure"\} [1-9]', harness.scrape(listener)))
            self.assertEqual(hook.bodies, [])
            hook.status = 200
            wait_until(lambda: hook.bodies)
            wait_until(lambda: "exposure_agent_notify_failing 0" in harness.scrape(listener))
            wait_until(lambda: 'notifications_total{result="success"} 1' in harness.scrape(listener))
            agent.login()
            wait_until(lambda: len(hook.bodies) == 2)
        self.assertEqual([b["state"] for b in hook.bodies], ["raised", "over"])
        log = agent.log()
        self.assertIn("notification not sent: notify.url: 127.0.0.1 answered 503", log)
        self.assertIn("notification sent (raised)", log)
        self.assertNotIn(SECRET_PATH, log)
        self.assertNotIn(SECRET_PATH, agent.run("status", "-o", "json").stdout)

    def test_what_was_told_is_not_told_again_after_a_restart(self):
        agent = self.teller(login=False)
        for _ in range(2):
            with agent.daemon():
                wait_until(lambda: agent.status()["notify"]["cases"])  # recorded: a little later than told
                agent.run("reconcile", expect=77)
        self.assertEqual(self.states(), ["raised login login"])

    def test_it_is_repeated(self):
        agent = self.teller(login=False, command=[str(self.pager)], repeat="1s")
        with agent.daemon():
            wait_until(lambda: "repeated login login" in self.states())

    def test_the_daemon_sends_the_test(self):
        self.write_pager("cat >>told; ps -o ppid= -p $$ >parent")
        agent = self.teller()
        with agent.daemon() as process:
            agent.run("notify", "--test", expect=0)
            self.assertEqual(int((self.directory / "parent").read_text()), process.pid)


class Recipes(NotifyCase):
    """systemd/examples/notify, with a curl and a logger that record their input."""

    def recipe(self, name, **environment):
        for tool in ("jq", "sh"):
            if not shutil.which(tool):
                self.skipTest(f"{tool} is missing")
        tools = self.directory / "bin"
        tools.mkdir(exist_ok=True)
        for tool in ("curl", "logger"):
            harness.write_program(
                tools / tool, f'printf "%s\\n" "$@" >{self.directory}/arguments\ncat >{self.directory}/input')
        agent = self.teller(login=False)
        agent.run("reconcile", expect=77)
        done = subprocess.run([harness.ROOT / "systemd/examples/notify" / name], input=json.dumps(self.told()[0]), text=True,
                              env={"PATH": f"{tools}:/usr/bin:/bin", **environment}, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return (self.directory / "arguments").read_text(), (self.directory / "input").read_text()

    def test_mail(self):
        arguments, mail = self.recipe("mail.sh")
        self.assertIn("smtp://mail.example.com", arguments)
        headers, body = mail.split("\n\n", 1)
        self.assertRegex(headers, r"(?m)^Subject: \[raised\] \S+: \S")
        self.assertIn("run: exposure-agent login", body)

    def test_chat(self):
        arguments, message = self.recipe("chat.sh")
        self.assertIn("/etc/exposure-agent/chat.curl", arguments)
        self.assertIn("Run: `exposure-agent login`", json.loads(message)["text"])

    def test_pager(self):
        key = self.directory / "pager-key"
        key.write_text("0123456789\n")
        arguments, message = self.recipe("pager.sh", PAGER_KEY_FILE=str(key))
        self.assertNotIn("0123456789", arguments)
        event = json.loads(message)
        self.assertEqual((event["routing_key"], event["event_action"]), ("0123456789", "trigger"))
        self.assertEqual(event["dedup_key"], "exposure-agent/web-01/login/login")

    def test_journal(self):
        arguments, entry = self.recipe("journal.sh")
        self.assertEqual(arguments, "--journald\n")
        self.assertIn("NOTIFY_CASE=login\n", entry)
        self.assertRegex(entry, r"(?m)^MESSAGE=raised: ")


if __name__ == "__main__":
    unittest.main()
