"""`run`: the daemon, edits of its file, its socket, its signals."""

import concurrent.futures
import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

import harness
import random_stops
from harness import UnixConnection, wait_until

KILL_AFTER = 5  # seconds a stop may take
EXCHANGE = 120  # seconds a stop may take while a single-use token is being exchanged


class DaemonCase(harness.PlatformCase):
    def start(self, agent, environment=None):
        """Starts the daemon and waits until it runs. It must exit on its own at the end of the test."""
        runs = agent.log().count("info: exposure-agent ")
        daemon = agent.start("run", environment=environment)
        self.addCleanup(self.stop, daemon)
        wait_until(lambda: daemon.poll() is not None or agent.log().count("info: exposure-agent ") > runs)
        self.assertIsNone(daemon.poll(), agent.log())
        return daemon

    def stop(self, daemon, how=signal.SIGTERM):
        if daemon.poll() is not None:
            return
        daemon.send_signal(how)
        try:
            self.assertEqual(daemon.wait(KILL_AFTER), 0)
        finally:
            daemon.kill()
            daemon.wait()

    def ask(self, agent, method, path, body=None):
        connection = UnixConnection(agent.control_socket)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return harness.Answer(answer.status, answer.headers, answer.read())

    def says(self, agent, text, count=1):
        wait_until(lambda: agent.log().count(text) >= count)

    def converged(self, agent, *users, exposure="logs"):
        for user in users:
            wait_until(lambda: agent.published(user, exposure).exists())  # pylint: disable=cell-var-from-loop

    def add_user(self, agent, name):
        agent.settings["exposures"][0]["users"].append({"name": name, "consumer_group": name})

    def ready(self, agent):
        wait_until(lambda: self.ask(agent, "GET", "/readyz").status == 200)

    def settled(self, agent):
        """Waits until the records, too, show every certificate in use: the files appear a moment earlier."""
        self.ready(agent)
        wait_until(lambda: all(u["state"] == "valid" for u in self.ask(agent, "GET", "/status.json").json["users"]))


class EditTest(DaemonCase):
    def setUp(self):
        super().setUp()
        self.web = self.agent("one")

    def test_rename(self):
        self.start(self.web)
        self.converged(self.web, "one")
        self.add_user(self.web, "two")
        self.web.write_config()
        self.converged(self.web, "two")
        self.assertEqual(len(self.platform.users()), 2)

    def test_in_place(self):
        self.start(self.web)
        self.converged(self.web, "one")
        self.add_user(self.web, "two")
        self.web.config_file.write_text(harness.to_yaml(self.web.settings))
        self.converged(self.web, "two")

    def test_editor_that_moves_the_old_file_away(self):
        self.start(self.web)
        self.converged(self.web, "one")
        self.add_user(self.web, "two")
        os.rename(self.web.config_file, self.web.directory / "agent.yaml~")
        self.web.write_config()
        self.converged(self.web, "two")
        self.assertNotIn("configuration is invalid", self.web.log())

    def test_link_swap(self):
        """As when a ConfigMap volume is updated: agent.yaml -> ..data/agent.yaml, ..data -> ..1, later ..2."""
        home = self.web.directory
        for version in ("..1", "..2"):
            (home / version).mkdir()
        os.rename(self.web.config_file, home / "..1" / "agent.yaml")
        (home / "..data").symlink_to("..1")
        self.web.config_file.symlink_to("..data/agent.yaml")
        self.start(self.web)
        self.converged(self.web, "one")

        self.add_user(self.web, "two")
        (home / "..2" / "agent.yaml").write_text(harness.to_yaml(self.web.settings))
        (home / "..new").symlink_to("..2")
        os.replace(home / "..new", home / "..data")
        shutil.rmtree(home / "..1")
        self.converged(self.web, "two")

    def test_burst(self):
        self.start(self.web)
        self.converged(self.web, "one")
        for number in range(40):
            self.web.settings["exposures"][0]["users"] = [{"name": "one", "consumer_group": "one"}] + [
                {"name": f"u{number}", "consumer_group": "burst"}
            ]
            self.web.write_config()
        self.converged(self.web, "u39")
        self.assertLess(self.web.log().count("the edited configuration is in force"), 40)

    def test_mistake_changes_nothing(self):
        self.start(self.web)
        self.converged(self.web, "one")
        good = self.web.config_file.read_text()
        self.web.config_file.write_text(good.replace('"users"', '"usres"'))
        self.says(self.web, "the edited configuration is invalid; the previous one stays in force")
        self.assertRegex(self.web.log(), rf"{self.web.config_file}:\d+:\d+: .*usres")
        self.web.config_file.write_text(good)
        self.says(self.web, "the configuration file is valid again and matches the configuration in force")
        self.web.config_file.write_text(good.replace('"users"', '"usres"'))
        self.says(self.web, "the edited configuration is invalid; the previous one stays in force", 2)
        self.assertEqual(len(self.platform.users()), 1)
        self.assertEqual(self.ask(self.web, "GET", "/healthz").status, 200)

        self.add_user(self.web, "two")
        self.web.write_config()
        self.converged(self.web, "two")
        self.assertEqual(self.web.log().count("configuration is invalid"), 2)

    def test_what_needs_a_restart(self):
        self.start(self.web)
        self.converged(self.web, "one")
        self.web.settings["owner"] = "web-02"
        self.web.write_config()
        self.says(self.web, "owner changed, which needs a restart")
        self.assertEqual(json.loads(self.ask(self.web, "GET", "/status.json").body)["owner"], "web-01")

    def test_hangup(self):
        """SIGHUP checks everything again, whether edited or not."""
        daemon = self.start(self.web)
        self.converged(self.web, "one")
        self.ready(self.web)
        shutil.rmtree(self.web.published("one").directory)
        daemon.send_signal(signal.SIGHUP)
        self.converged(self.web, "one")
        self.assertTrue(self.web.published("one").key_matches())

    def test_verb_right_after_an_edit(self):
        self.start(self.web)
        self.converged(self.web, "one")
        self.add_user(self.web, "two")
        self.web.write_config()
        self.web.run("reconcile", "logs/two", expect=0)
        self.assertTrue(self.web.published("two").exists())

    def test_removed_exposure(self):
        self.start(self.web)
        self.converged(self.web, "one")
        kept = self.web.settings["exposures"]
        kept[0]["users"][0]["rotation"] = {"retire_after": "0s"}
        self.web.write_config()
        self.web.run("reconcile", expect=0)
        self.web.settings["exposures"] = [self.web.exposure("health", ["other"])]
        self.web.write_config()
        self.converged(self.web, "other", exposure="health")
        wait_until(lambda: not [u for u in self.platform.users() if u["consumer_group"] == "one"])


    def test_a_file_that_is_being_written(self):
        """Neither the timer nor a command acts on a half-written edit: that would remove the second user."""
        self.add_user(self.web, "two")
        for user in self.web.settings["exposures"][0]["users"]:
            user["rotation"] = {"retire_after": "0s"}
        self.web.write_config()
        self.start(self.web, {"WATCHDOG_USEC": "400000"})  # checks the file five times a second
        self.converged(self.web, "one", "two")
        self.settled(self.web)
        users = self.web.settings["exposures"][0]["users"]
        self.web.settings["exposures"][0]["users"] = users[:1]
        half = harness.to_yaml(self.web.settings)
        self.web.settings["exposures"][0]["users"] = users
        with open(self.web.config_file, "w", encoding="utf-8") as writer, \
                concurrent.futures.ThreadPoolExecutor() as pool:
            writer.write(half)
            writer.flush()
            verb = pool.submit(self.web.run, "reconcile")
            time.sleep(1.5)  # timer ticks, and the command, which has nothing else to wait for
            self.assertFalse(verb.done())
            self.assertEqual(len(self.platform.users()), 2)
            writer.seek(0)
            writer.truncate()
            writer.write(harness.to_yaml(self.web.settings))
            writer.close()
            verb.result()
        self.ready(self.web)
        self.assertEqual(len(self.platform.users()), 2)
        self.assertEqual([u["state"] for u in self.web.json("status")["users"]], ["valid", "valid"])

    def test_an_edit_during_the_start(self):
        """An edit before, during or after the read of the file at startup is never lost."""
        for number in range(5):
            daemon = self.web.start("run")
            self.addCleanup(self.stop, daemon)
            time.sleep(0.01 * number)
            self.add_user(self.web, f"u{number}")
            self.web.write_config()
            self.converged(self.web, f"u{number}")
            self.stop(daemon)


class StopTest(DaemonCase):
    def test_random_moments(self):
        """A small sample of random_stops.py."""
        tally, _ = random_stops.stop(lambda runs: runs >= 20, random.randrange(1 << 32), False, lambda *_: None)
        self.assertEqual(tally.faults, [])

    def test_second_signal_ends_at_once(self):
        """The first signal waits for the response to the refresh, which saves a login."""
        agent = self.agent("one")
        self.platform.expire_tokens()
        self.platform.fault(operation="token", hang="before")
        self.platform.clear_requests()
        daemon = self.start(agent)
        wait_until(lambda: "token" in self.platform.operations())
        daemon.send_signal(signal.SIGTERM)
        self.says(agent, "info: stopping")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(KILL_AFTER), -signal.SIGTERM)
        self.platform.clear_faults()

    def test_hangup_during_the_start(self):
        for _ in range(5):
            agent = self.agent("one")
            daemon = agent.start("run")
            self.addCleanup(self.stop, daemon)
            status = pathlib.Path(f"/proc/{daemon.pid}/status")
            handled = re.compile(r"^Sig(?:Ign|Cgt):.*[13579bdf]$", re.MULTILINE)  # SIGHUP is the lowest bit
            wait_until(lambda: handled.search(status.read_text()))  # pylint: disable=cell-var-from-loop
            daemon.send_signal(signal.SIGHUP)
            self.converged(agent, "one")
            self.assertIsNone(daemon.poll())

    def test_stop_during_a_reload_of_the_listener(self):
        agent = self.agent("one")
        for number in range(10):
            daemon = self.start(agent)
            agent.settings["metrics"] = {"listen": f"unix:{agent.directory}/m{number}.sock"}
            agent.write_config()
            time.sleep(0.18 + 0.01 * number)  # about when the edit is considered complete
            self.stop(daemon)

    def test_stop_and_start_again(self):
        agent = self.agent("one")
        daemon = self.start(agent)
        self.converged(agent, "one")
        before = agent.published("one").footprint()
        self.stop(daemon)
        self.assertFalse(agent.control_socket.exists())
        self.start(agent)
        self.ready(agent)
        self.assertEqual(agent.published("one").footprint(), before)
        self.assertEqual(len(self.platform.users()), 1)

    def test_interrupt(self):
        agent = self.agent("one")
        daemon = self.start(agent)
        self.stop(daemon, signal.SIGINT)

    def test_stop_while_the_platform_never_answers(self):
        """stop() checks that the stop takes no longer than its own timeout."""
        for operation in ("list_instances", "create_user"):
            with self.subTest(operation):
                agent = self.agent("one")
                self.platform.clear_faults()
                self.platform.fault(operation=operation, hang="before")
                self.platform.clear_requests()
                daemon = self.start(agent)
                wait_until(lambda: operation in self.platform.operations())  # pylint: disable=cell-var-from-loop
                self.stop(daemon)
        self.platform.clear_faults()

    def test_stop_during_an_exchange(self):
        """Losing the response to a refresh token would cost the login: the stop waits for it, and for nothing else.

        The service manager is asked for the time that this takes beyond the unit's TimeoutStopSec.
        """
        agent = self.agent("one")
        self.platform.expire_tokens()
        self.platform.fault(operation="token", hang="before")
        self.platform.clear_requests()
        manager = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        manager.bind(str(agent.directory / "notify"))
        manager.settimeout(harness.RUN_TIMEOUT)
        daemon = self.start(agent, {"NOTIFY_SOCKET": str(agent.directory / "notify")})
        wait_until(lambda: "token" in self.platform.operations())
        daemon.send_signal(signal.SIGTERM)
        self.says(agent, "info: stopping")
        with self.assertRaises(subprocess.TimeoutExpired):
            daemon.wait(KILL_AFTER)
        while not manager.recv(4096).startswith(b"EXTEND_TIMEOUT_USEC="):
            pass
        self.platform.halt()
        self.addCleanup(self.platform.start)
        self.assertEqual(daemon.wait(EXCHANGE), 0)

    def test_stop_while_a_verb_is_at_work(self):
        agent = self.agent("one")
        self.platform.behave(exposure={"ready_delay_ms": 3600_000})
        daemon = self.start(agent)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            # bounded: if it is too slow to reach the daemon, it waits for the platform itself
            verb = pool.submit(agent.run, "reconcile", "--timeout", "30s")
            wait_until(lambda: self.platform.users())  # pylint: disable=unnecessary-lambda
            self.stop(daemon)
            verb.result()

    def test_a_stop_is_no_failure_of_hooks(self):
        """Neither for the user whose hook was killed nor for any other."""
        hooks = [{"command": ["/bin/sleep", "100"], "timeout": "200s"}]
        agent = self.agent("one", "two")
        daemon = self.start(agent)
        self.converged(agent, "one", "two")
        for user in agent.settings["exposures"][0]["users"]:
            user["hooks"] = hooks
        agent.write_config()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            verb = pool.submit(agent.run, "deploy", "--force", "logs/one", "logs/two")
            wait_until(lambda: {u["deploy"] for u in agent.status()["users"]} == {"pending"})
            self.stop(daemon)
            verb.result()
        for user in ("logs/one", "logs/two"):
            shown = agent.status(user)
            self.assertEqual((shown["failures"], shown["deploy"]), (0, "pending"))

    def test_killed_daemon_leaves_nothing_in_the_way(self):
        agent = self.agent("one")
        daemon = self.start(agent)
        self.converged(agent, "one")
        daemon.kill()
        daemon.wait()
        self.assertTrue(agent.control_socket.exists())
        agent.run("reconcile", expect=0)  # without the daemon, under the lock
        self.start(agent)
        self.assertEqual(self.ask(agent, "GET", "/healthz").status, 200)

    def test_control_socket_that_cannot_be_opened_at_the_start(self):
        agent = self.agent("one")
        agent.control_socket.mkdir(parents=True)
        self.start(agent, environment={"WATCHDOG_USEC": "1000000"})  # it then looks twice a second
        self.says(agent, "commands cannot reach this daemon")
        self.converged(agent, "one")
        agent.control_socket.rmdir()
        self.says(agent, "the control socket is open")
        self.assertEqual(self.ask(agent, "GET", "/healthz").status, 200)
        self.assertEqual(agent.log().count("commands cannot reach this daemon"), 1)


class SocketTest(DaemonCase):
    def setUp(self):
        super().setUp()
        self.web = self.agent("one")
        self.daemon = self.start(self.web)
        self.converged(self.web, "one")
        self.settled(self.web)

    def test_pages(self):
        self.assertEqual(self.ask(self.web, "GET", "/healthz").status, 200)
        shown = self.ask(self.web, "GET", "/status.json").json
        self.assertEqual(shown["schema"], "exposure-agent.status/v1")
        self.assertEqual(shown["users"][0]["state"], "valid")
        self.assertIn(b"exposure_agent_build_info", self.ask(self.web, "GET", "/metrics").body)
        self.assertEqual(self.ask(self.web, "GET", "/nothing").status, 404)
        self.assertEqual(self.ask(self.web, "POST", "/metrics").status, 405)

    def test_access(self):
        self.assertEqual(self.web.control_socket.stat().st_mode & 0o777, 0o600)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be somebody else")
    def test_peers(self):
        """The daemon rejects other users even if the mode of the socket lets them connect."""
        self.web.directory.chmod(0o711)
        path = self.web.control_socket
        path.chmod(0o666)
        ask = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
               "s.sendall(b'GET /status.json HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); print(len(s.recv(100)))")
        for user, served in ((0, True), (65534, False)):
            said = subprocess.run([shutil.which("python3", path="/usr/bin:/bin"), "-c", ask, path], user=user, group=user,
                                  capture_output=True, text=True, check=False)
            self.assertEqual(said.stdout == "100\n", served, said)
            self.assertTrue(served or said.stdout == "0\n" or "reset" in said.stderr or "Broken pipe" in said.stderr, said)

    @unittest.skipUnless(shutil.which("curl"), "needs curl")
    def test_curl(self):
        done = subprocess.run(
            ["curl", "-sS", "--fail", "--unix-socket", self.web.control_socket, "--json", "{}",
             "http://localhost/v1/reconcile"],
            capture_output=True, text=True, timeout=harness.RUN_TIMEOUT, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["exit"], 0)

    def test_what_is_refused(self):
        for method, path, body, status in (
            ("GET", "/v1/reconcile", None, 405),
            ("POST", "/v1/destroy", {}, 404),
            ("POST", "/v1/reconcile", [], 400),
            ("POST", "/v1/reconcile", {"names": [1]}, 400),
        ):
            with self.subTest(path=path, status=status):
                self.assertEqual(self.ask(self.web, method, path, body).status, status)
        self.assertEqual(self.ask(self.web, "GET", "/healthz").status, 200)

    def test_too_large(self):
        connection = UnixConnection(self.web.control_socket)
        with contextlib.closing(connection):
            connection.putrequest("POST", "/v1/reconcile")
            connection.putheader("Content-Length", str(2 << 20))
            connection.endheaders()
            self.assertEqual(connection.getresponse().status, 413)

    def test_rotate_is_handed_over(self):
        before = self.web.published("one").generation
        said = self.web.run("rotate", "logs/one", expect=0).stdout
        self.assertNotEqual(self.web.published("one").generation, before)
        self.assertIsNone(self.daemon.poll())
        now = self.web.status("logs/one")
        self.assertEqual(said, f"logs/one: certificate {now['serial']} in use, valid until {now['not_after']}; "
                               "no hooks configured\n1 of 1 user up to date\n")

    def test_what_a_command_waits_for_is_said(self):
        """Even without a terminal, and long before its timeout."""
        self.platform.behave(exposure={"ready_delay_ms": 3_600_000})
        self.addCleanup(self.platform.behave, exposure={"ready_delay_ms": 0})
        said = self.web.run("rotate", "--timeout", "12s", "logs/one", expect=1).stderr
        self.assertIn("waiting: logs/one: a new certificate is being issued\n", said)

    def test_what_a_command_could_not_do_is_in_the_log(self):
        """Whoever reads the journal at night did not see the answer."""
        self.web.settings["exposures"][0]["users"][0]["hooks"] = [{"command": ["/bin/false"]}]
        self.web.write_config()
        said = self.web.run("deploy", "--force", "logs/one", expect=1).stderr
        self.assertIn("logs/one: hook failed (/bin/false", said)
        self.assertIn("warning: logs/one: hook failed (/bin/false", self.web.log())
        self.platform.halt()
        self.addCleanup(self.platform.start)
        self.web.run("reconcile", expect=69)
        self.assertRegex(self.web.log(), "warning: .*connect")

    def test_reading_verbs_use_the_daemons_token(self):
        since = len(self.platform.requests("token"))
        self.assertEqual(len(self.web.json("users")["users"]), 1)
        self.assertEqual(len(self.platform.requests("token")), since)

    def test_access_token_is_never_said(self):
        token = self.ask(self.web, "POST", "/v1/access-token", {}).json["access_token"]
        self.assertTrue(token)
        newer = self.ask(self.web, "POST", "/v1/access-token", {"refused": "an older one"}).json["access_token"]
        self.assertEqual(newer, token)
        other = self.ask(self.web, "POST", "/v1/access-token", {"refused": token}).json["access_token"]
        self.assertNotEqual(other, token)  # a refused token that is the first of its login is refreshed at once
        for said in (token, other):
            self.assertNotIn(said, self.web.log())

    def test_work_goes_on_when_the_client_is_gone(self):
        before = self.web.published("one").generation
        self.platform.behave(exposure={"ready_delay_ms": 500})
        connection = UnixConnection(self.web.control_socket)
        connection.request("POST", "/v1/rotate", json.dumps({"names": ["logs/one"]}))
        wait_until(lambda: len(self.platform.users()) == 2)
        connection.close()
        wait_until(lambda: self.web.published("one").generation != before)

    def ask_and_leave(self, verb, arguments):
        """Sends the daemon a command and hangs up while the command waits for its turn."""
        connection = UnixConnection(self.web.control_socket)
        connection.request("POST", f"/v1/{verb}", json.dumps(arguments))
        time.sleep(1)
        connection.close()

    def test_what_has_not_begun_when_the_caller_is_gone_never_does(self):
        """It is waiting for its exposure when its caller hangs up; the next command is served."""
        before = self.web.published("one").generation
        self.platform.fault(operation="get_user", delay_ms=3000)
        self.platform.clear_requests()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            busy = pool.submit(self.web.run, "reconcile")
            wait_until(lambda: "get_user" in self.platform.operations())
            self.ask_and_leave("rotate", {"names": ["logs/one"]})
            self.assertEqual(busy.result().returncode, 0)
        self.web.run("reconcile", expect=0)
        self.assertEqual(self.web.published("one").generation, before)
        self.assertEqual(len(self.platform.users()), 1)

    def test_a_logout_that_has_not_begun_when_the_caller_is_gone_never_does(self):
        """It is waiting for a refresh in progress."""
        self.platform.clear_requests()
        self.platform.expire_tokens()
        self.platform.fault(operation="token", delay_ms=3000)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            busy = pool.submit(self.web.run, "users")
            wait_until(lambda: "token" in self.platform.operations())
            self.ask_and_leave("logout", {})
            self.assertEqual(busy.result().returncode, 0)
        self.web.run("users", expect=0)
        self.assertEqual(self.web.status()["login"], "ok")

    def test_timeout_bounds_a_hook_of_the_daemon(self):
        """The caller gets its answer; the hook goes on, and nothing waits for it."""
        self.web.settings["exposures"][0]["users"][0]["hooks"] = [
            {"command": ["/bin/sleep", "100"], "timeout": "200s"}]
        self.add_user(self.web, "two")
        self.web.write_config()
        self.converged(self.web, "two")
        began = time.monotonic()
        said = self.web.run("rotate", "--timeout", "2s", "logs/one").stderr
        self.assertLess(time.monotonic() - began, 60)
        self.assertIn("did not answer", said)
        wait_until(lambda: self.web.status("logs/one")["deploy"] == "pending")
        self.web.run("rotate", "--timeout", "60s", "logs/two", expect=0)

    def test_second_daemon(self):
        done = self.web.run("run", expect=75)
        self.assertIn("holds", done.stderr)

    def test_verbs_side_by_side(self):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            verbs = [pool.submit(self.web.run, "rotate", "logs/one") for _ in range(4)]
            self.assertEqual([verb.result().returncode for verb in verbs], [0] * 4)
        self.assertTrue(self.web.published("one").key_matches())
        self.assertEqual(len(self.platform.users()), 5)


class LoginTest(DaemonCase):
    def test_login_while_running(self):
        agent = self.agent("one", login=False)
        self.start(agent)
        self.says(agent, "Not logged in. Run: exposure-agent login")
        self.ready(agent)
        self.assertEqual(self.platform.operations(), [])
        agent.login()
        self.converged(agent, "one")
        self.assertEqual(agent.log().count("error: Not logged in."), 1)
        self.assertEqual(self.ask(agent, "GET", "/status.json").json["login"], "ok")

    def test_logout_while_running(self):
        agent = self.agent("one")
        self.start(agent)
        self.converged(agent, "one")
        agent.run("logout", expect=0)
        self.assertEqual(self.ask(agent, "GET", "/status.json").json["login"], "required")


class OneShotTest(DaemonCase):
    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_root_beside_a_stopped_service(self):
        """Files created by root in the service user's directory would be inaccessible to it, so none are created."""
        agent = self.agent("one")
        agent.run("reconcile", expect=0)
        for path in (agent.state_dir, *agent.state_dir.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
        owner = pwd.getpwuid(65534).pw_name
        before = harness.footprint(agent.state_dir)
        for verb in ("reconcile", "rotate logs/one", "plan", "users", "run"):
            with self.subTest(verb):
                said = agent.run(*verb.split(), expect=1).stderr
                self.assertIn(f"belongs to {owner}", said)
                self.assertIn(f"sudo -u {owner} exposure-agent", said)
        shown = agent.status("logs/one")  # the files belong to another user now
        self.assertEqual((shown["state"], shown["reason"]), ("failing", "output_damaged"))
        checks = {check["name"]: check for check in agent.json("doctor", expect=1)["checks"]}
        self.assertEqual(checks["state directory"]["verdict"], "warning")
        self.assertIn(f"sudo -u {owner}", checks["state directory"]["remedy"])
        self.assertEqual(checks["platform"]["verdict"], "failed")
        self.assertEqual(harness.footprint(agent.state_dir), before)
        self.assertEqual({path.lstat().st_uid for path in agent.state_dir.rglob("*")}, {65534})

    def test_a_request_that_the_timeout_ends(self):
        agent = self.agent("one")
        self.platform.fault(operation="list_instances", hang="before", times=0)
        said = agent.run("reconcile", "--timeout", "2s", expect=1).stderr
        self.assertIn("exposure logs: not finished when --timeout or a signal ended the command; run it again", said)

    def test_timeout_bounds_a_hook(self):
        agent = self.agent({"name": "one", "consumer_group": "one", "hooks": [
            {"command": ["/bin/sleep", "100"], "timeout": "200s"}]})
        began = time.monotonic()
        agent.run("reconcile", "--timeout", "3s", expect=1)
        self.assertLess(time.monotonic() - began, 60)

    def test_waiting_for_the_platform_holds_nobody_up(self):
        """One user never becomes READY; another user of the same exposure is served meanwhile."""
        agent = self.agent("one")
        self.start(agent)
        self.converged(agent, "one")
        self.platform.behave(exposure={"ready_delay_ms": 3600_000})
        self.add_user(agent, "two")
        agent.write_config()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waits = pool.submit(agent.run, "reconcile", "--timeout", "15s", "logs/two")
            wait_until(lambda: len(self.platform.users()) == 2)
            agent.run("deploy", "--force", "logs/one", expect=0)
            self.assertFalse(waits.done())
            self.assertEqual(waits.result().returncode, 1)

    def test_a_failed_deploy_goes_on_with_the_back_off(self):
        agent = self.agent({"name": "one", "consumer_group": "one", "hooks": [{"command": ["/bin/false"]}]})
        self.start(agent)
        wait_until(lambda: agent.status("logs/one")["failures"] == 2)  # the third attempt is not before 15 s
        agent.run("deploy", "logs/one", expect=1)
        shown = agent.status("logs/one")
        self.assertEqual((shown["failures"], shown["deploy"]), (3, "failed"))
        self.assertGreater(shown["next_attempt"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def test_timeout_bounds_a_daemon_that_hangs(self):
        agent = self.agent("one")
        daemon = self.start(agent)
        self.converged(agent, "one")
        daemon.send_signal(signal.SIGSTOP)
        self.addCleanup(daemon.send_signal, signal.SIGCONT)
        said = agent.run("reconcile", "--timeout", "1s", expect=1).stderr
        self.assertIn("did not answer (timed out", said)
        self.assertIn("Run: systemctl restart exposure-agent", said)
        self.assertNotIn("may have done the work", said)  # it was not asked for any: nothing beyond the limit

    def test_two_one_shots(self):
        """Without a daemon, the second of two changing commands gives up at once."""
        agent = self.agent("one")
        self.platform.behave(exposure={"ready_delay_ms": 3600_000})
        first = agent.start("reconcile")
        self.addCleanup(first.wait)
        self.addCleanup(first.terminate)
        wait_until(lambda: self.platform.users())  # pylint: disable=unnecessary-lambda
        agent.run("rotate", "logs/one", expect=75)

    def test_daemon_between_its_lock_and_its_socket(self):
        """While it starts, a command waits for it to listen; while it stops, for it to exit."""
        agent = self.agent("one")
        agent.run("reconcile", expect=0)
        for command in (["rotate", "logs/one"], ["users"]):
            with self.subTest(command), open(agent.state_dir / "lock", "w", encoding="ascii") as lock, \
                    concurrent.futures.ThreadPoolExecutor() as pool:
                fcntl.flock(lock, fcntl.LOCK_EX)
                lock.write(f"{os.getpid()} daemon\n")
                lock.flush()
                done = pool.submit(agent.run, *command)
                time.sleep(1)  # it only waits for the lock
                self.assertFalse(done.done())
                fcntl.flock(lock, fcntl.LOCK_UN)
                self.assertEqual(done.result().returncode, 0)


# Opening a directory of that name blocks forever, as on a dead file server.
HUNG = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
static void hang_if(int it_does) {
    if (it_does) (void)!write(2, "hung\\n", 5);
    while (it_does) pause();
}
#define OPEN_AT(name) int name(int at, const char *path, int flags, ...) { \\
    hang_if(!strcmp(path, "hung")); \\
    va_list more; va_start(more, flags); const int mode = va_arg(more, int); va_end(more); \\
    return ((int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, #name))(at, path, flags, mode); }
#define OPEN(name) int name(const char *path, int flags, ...) { \\
    hang_if(strstr(path, "/hung/") != 0); \\
    va_list more; va_start(more, flags); const int mode = va_arg(more, int); va_end(more); \\
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name))(path, flags, mode); }
OPEN_AT(openat)
OPEN_AT(openat64)
OPEN(open)
OPEN(open64)
"""


class HungDirectoriesTest(DaemonCase):
    """Output directories that block delay neither logins nor other exposures nor a stop."""

    USERS = [f"u{number}" for number in range(6)]

    def setUp(self):
        super().setUp()
        self.web = self.agent(exposures=[{"variant": "log"}, {"variant": "health", "users": ["sound"]}])
        source, library = self.web.directory / "hung.c", self.web.directory / "hung.so"
        source.write_text(HUNG)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        self.hung = {"LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"}
        self.web.settings["exposures"][0]["users"] = [
            {"name": name, "consumer_group": name, "output": {"directory": f"{self.web.directory}/hung/{name}"}}
            for name in self.USERS
        ]
        self.web.write_config()

    def works(self, daemon):
        self.web.login()
        self.web.run("reconcile", "health/sound", expect=0)
        daemon.send_signal(signal.SIGTERM)
        self.assertIn(daemon.wait(KILL_AFTER), (0, 1))

    def test_while_they_are_published(self):
        daemon = self.start(self.web, self.hung)
        self.says(self.web, "hung\n", len(self.USERS) - 2)  # all four threads are blocked now
        self.works(daemon)

    def test_at_the_start(self):
        self.web.run("reconcile", expect=0)
        daemon = self.start(self.web, self.hung)
        self.says(self.web, "hung\n")
        self.works(daemon)


class ExposuresTest(DaemonCase):
    def test_dead_one_beside_a_live_one(self):
        dead = socket.create_server(("127.0.0.1", 0))  # accepts connections, never answers
        self.addCleanup(dead.close)
        agent = self.agent(exposures=[{"variant": "log", "users": ["one"]}, {"variant": "health", "users": ["two"]}])
        agent.settings["exposures"][1]["base_url"] = f"http://127.0.0.1:{dead.getsockname()[1]}/hes"
        agent.settings["network"]["timeout"] = "60s"
        agent.write_config()
        self.start(agent)
        self.converged(agent, "one")
        self.add_user(agent, "three")
        agent.write_config()
        self.converged(agent, "three")
        self.assertFalse(agent.published("two", "health").exists())
        self.assertEqual(self.ask(agent, "GET", "/readyz").status, 503)


    def test_reconcile_of_everything_holds_up_nobody(self):
        """One exposure does not answer while a manual `reconcile` waits for it; the other one is served meanwhile."""
        agent = self.agent(exposures=[{"variant": "log", "users": ["one"]}, {"variant": "health", "users": ["two"]}])
        self.start(agent)
        self.converged(agent, "one")
        self.converged(agent, "two", exposure="health")
        self.ready(agent)
        self.platform.fault(path="^/hes/", times=0, hang="before")
        self.platform.clear_requests()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            verb = pool.submit(agent.run, "reconcile")
            wait_until(lambda: any(r["path"].startswith("/hes/") for r in self.platform.requests()))
            self.add_user(agent, "three")
            agent.write_config()
            self.converged(agent, "three")
            self.assertFalse(verb.done())
            self.platform.clear_faults()
            verb.result()

    def test_deploy_of_an_exposure_that_leaves_the_file_meanwhile(self):
        """The command is for all exposures; by the time of its turn, the file has replaced one of them."""
        agent = self.agent(exposures=[{"variant": "log", "users": ["one"]}, {"variant": "health", "users": ["two"]}])
        began = agent.directory / "began"
        agent.settings["exposures"][0]["users"][0] = {
            "name": "one", "consumer_group": "one", "hooks": [{"command": ["/bin/sh", "-c", f"echo >>{began}"]}]}
        agent.write_config()
        self.start(agent)
        self.converged(agent, "one")
        self.converged(agent, "two", exposure="health")
        self.ready(agent)
        wait_until(began.exists)
        health = agent.settings["exposures"][1]
        self.platform.fault(path="^/hes/", delay_ms=2000)
        self.platform.clear_requests()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            busy = pool.submit(agent.run, "reconcile")
            wait_until(lambda: any(r["path"].startswith("/hes/") for r in self.platform.requests()))
            deploy = pool.submit(self.ask, agent, "POST", "/v1/deploy", {"force": True})
            wait_until(lambda: len(began.read_text()) == 2)
            agent.settings["exposures"].remove(health)
            agent.write_config()
            self.says(agent, "the edited configuration is in force")
            agent.settings["exposures"].append({**health, "users": [{"name": "three", "consumer_group": "three"}]})
            agent.write_config()
            self.says(agent, "the edited configuration is in force", 2)
            self.assertEqual(deploy.result().json["exit"], 0)
            busy.result()
        self.converged(agent, "three", exposure="health")

    def test_one_in_progress_wakes_no_other(self):
        """What one exposure waits for does not affect another one, which is left alone until its interval."""
        agent = self.agent(exposures=[{"variant": "log", "users": ["one"]}, {"variant": "health", "users": ["two"]}])
        self.start(agent)
        self.converged(agent, "one")
        self.converged(agent, "two", exposure="health")
        self.settled(agent)
        self.platform.behave(exposure={"ready_delay_ms": -1})
        agent.settings["exposures"][1]["users"].append({"name": "slow", "consumer_group": "slow"})
        agent.write_config()
        wait_until(lambda: len([u for u in self.platform.users() if u["status"] != "READY"]) == 1)
        self.platform.clear_requests()

        def passes(service):
            reads = self.platform.requests("get_instance") + self.platform.requests("list_instances")
            return [r["path"] for r in reads if f"/{service}/" in r["path"]]

        wait_until(lambda: len(passes("hes")) >= 6)
        self.assertLessEqual(len(passes("les")), 1, passes("les"))


class MetricsTest(DaemonCase):
    def get(self, port, path):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.RUN_TIMEOUT)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return harness.Answer(answer.status, answer.headers, answer.read())

    def test_listener_and_textfile(self):
        port = harness.free_port()
        agent = self.agent("one")
        textfile = agent.directory / "exposure_agent.prom"
        agent.settings["metrics"] = {"listen": f"127.0.0.1:{port}", "textfile": str(textfile)}
        agent.write_config()
        self.start(agent)
        self.converged(agent, "one")
        self.settled(agent)
        success = b'exposure_agent_rotations_total{exposure="logs",user="one",result="success"} 1'
        wait_until(lambda: success in self.get(port, "/metrics").body)  # counted shortly after it is in use
        scraped = self.get(port, "/metrics")
        self.assertTrue(scraped.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        text = scraped.body.decode()
        self.assertIn('exposure_agent_certificate_ready{exposure="logs",user="one"} 1', text)
        self.assertIn('exposure_agent_platform_requests_total{operation="create_user",status="201"} 1', text)
        wait_until(textfile.exists)
        self.assertEqual(self.get(port, "/readyz").status, 200)
        self.assertEqual(textfile.stat().st_mode & 0o777, 0o644)
        if shutil.which("promtool"):
            for content in (text, textfile.read_text()):
                subprocess.run(["promtool", "check", "metrics"], input=content, text=True, check=True)
        self.assertEqual(self.get(port, "/v1/reconcile").status, 404)  # commands are accepted on the socket only

    def test_a_textfile_is_whole_whenever_it_is_read(self):
        """Passes of several exposures end at the same time, repeatedly."""
        agent = self.agent(exposures=[{"variant": "log", "users": ["one"]}, {"variant": "health", "users": ["two"]}])
        textfile = agent.directory / "exposure_agent.prom"
        agent.settings["metrics"] = {"textfile": str(textfile)}
        agent.write_config()
        daemon = self.start(agent)
        self.converged(agent, "one")
        self.converged(agent, "two", exposure="health")
        self.ready(agent)
        wait_until(textfile.exists)

        def families():
            return {line for line in textfile.read_text().splitlines() if line.startswith("# TYPE ")}

        first = families()
        inodes = set()
        while len(inodes) < 20:
            daemon.send_signal(signal.SIGHUP)
            for _ in range(50):
                self.assertLessEqual(first, families())
                inodes.add(textfile.stat().st_ino)

    def test_unix_listener_that_an_edit_adds(self):
        agent = self.agent("one")
        self.start(agent)
        self.converged(agent, "one")
        listener = agent.directory / "metrics.sock"
        agent.settings["metrics"] = {"listen": f"unix:{listener}"}
        agent.write_config()
        wait_until(lambda: harness.listens(listener) and listener.stat().st_mode & 0o777 == 0o660)
        connection = UnixConnection(listener)
        with contextlib.closing(connection):
            connection.request("GET", "/healthz")
            self.assertEqual(connection.getresponse().status, 200)


class WatchdogTest(DaemonCase):
    """A socket in place of the service manager's counts how often the watchdog is fed."""

    INTERVAL = 0.4  # seconds; fed twice per interval

    def setUp(self):
        super().setUp()
        self.web = self.agent("one")
        self.manager = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        address = str(self.web.directory / "notify")
        self.manager.bind(address)
        self.daemon = self.start(self.web, {"NOTIFY_SOCKET": address,
                                            "WATCHDOG_USEC": str(int(self.INTERVAL * 1_000_000))})
        self.settled(self.web)

    def fed(self, seconds):
        """How often it is fed during that time; earlier messages do not count."""
        self.manager.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.manager.recv(4096)
        count, end = 0, time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.manager.settimeout(left)
            with contextlib.suppress(TimeoutError, BlockingIOError):
                count += self.manager.recv(4096).startswith(b"WATCHDOG=1")
        return count

    def test_fed_while_it_works(self):
        self.assertGreaterEqual(self.fed(10 * self.INTERVAL), 3)

    def test_stopped(self):
        self.daemon.send_signal(signal.SIGSTOP)
        self.addCleanup(self.daemon.send_signal, signal.SIGCONT)
        status = pathlib.Path(f"/proc/{self.daemon.pid}/status")
        wait_until(lambda: re.search(r"State:\s+T", status.read_text()))
        self.assertEqual(self.fed(5 * self.INTERVAL), 0)
        self.daemon.send_signal(signal.SIGCONT)
        self.assertGreaterEqual(self.fed(10 * self.INTERVAL), 1)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to stop one thread of another process")
    def test_stuck_loop(self):
        """Only the thread of the event loop is stopped; the other threads run, and do not feed in its place."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        seize, interrupt, detach = 0x4206, 0x4207, 17
        if libc.ptrace(seize, self.daemon.pid, None, None) != 0:
            self.skipTest(f"ptrace: {os.strerror(ctypes.get_errno())}")
        self.assertEqual(libc.ptrace(interrupt, self.daemon.pid, None, None), 0)
        os.waitpid(self.daemon.pid, 0x40000000)  # __WALL
        threads = pathlib.Path(f"/proc/{self.daemon.pid}/task").iterdir()
        states = {t.name: re.search(r"State:\s+(\w)", (t / "status").read_text())[1] for t in threads}
        self.assertEqual(states.pop(str(self.daemon.pid)), "t")
        self.assertNotIn("t", states.values())
        self.assertTrue(states)
        self.assertEqual(self.fed(5 * self.INTERVAL), 0)
        self.assertEqual(libc.ptrace(detach, self.daemon.pid, None, None), 0)
        self.assertGreaterEqual(self.fed(10 * self.INTERVAL), 1)


class QuietTest(DaemonCase):
    def test_nothing_is_said_when_nothing_happens(self):
        agent = self.agent("one", settings={"reconcile": {"interval": "1s", "settle": "1s"}})
        self.start(agent)
        self.converged(agent, "one")
        self.settled(agent)
        self.says(agent, "logs/one: certificate in use")  # logged shortly after it is
        before = agent.log()
        wait_until(lambda: self.platform.operations()[-2:] == ["get_instance", "get_user"])
        self.platform.clear_requests()
        wait_until(lambda: len(self.platform.requests("get_user")) >= 4)
        self.assertEqual(agent.log(), before)
        reads = {"get_instance", "get_user"}
        self.assertEqual(set(self.platform.operations()) - reads - {"list_instances", "list_users"}, set())
        self.assertLessEqual(len(self.platform.requests("list_users")), 1)  # once the POST has settled

    def test_service_manager_is_told(self):
        agent = self.agent("one")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            address = str(agent.directory / "notify")
            manager.bind(address)
            manager.settimeout(harness.RUN_TIMEOUT)
            daemon = self.start(agent, {"NOTIFY_SOCKET": address})
            said = []

            def hear(text):
                while text not in "\n".join(said):
                    said.append(manager.recv(4096).decode())

            hear("READY=1")
            hear("STATUS=1 certificate ok, next rotation logs/one in ")
            daemon.send_signal(signal.SIGHUP)
            hear("RELOADING=1\nMONOTONIC_USEC=")
            said.clear()
            hear("READY=1")
            self.stop(daemon)
            hear("STOPPING=1")


if __name__ == "__main__":
    unittest.main()
