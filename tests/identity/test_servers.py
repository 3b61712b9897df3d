"""A login that outlives its server: Keycloak and oidc-provider, single-use refresh tokens, behind nginx over TLS."""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import harness
import servers

LIFE = 2  # of an access token, seconds: every `reconcile` has to refresh
REFRESHES = 25
KILLS = 25
OUTAGE = 40  # seconds of the outages, from the first failed refresh: longer than three back-offs
HEALED = 60  # seconds after the end of an outage: the back-off of that moment is at most 40 s


class Keeper:
    """The agent on a host that only logs in and publishes the token."""

    def __init__(self, front, redirect_url=servers.REDIRECT_URL):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="keeper-"))
        self.secret = self.directory / "client-secret"
        self.put_secret(servers.CLIENT_SECRET)
        self.published = self.directory / "published"
        self.front = front
        self.config = self.directory / "agent.yaml"
        self.config.write_text(json.dumps({
            "owner": "web-01", "state_dir": str(self.directory / "state"),
            "identity": {"auth_url": front.auth_url, "client_id": servers.CLIENT_ID,
                         "client_secret": {"file": str(self.secret)}, "redirect_url": redirect_url,
                         "scope": "openid", "publish": {"command": ["tee", str(self.published)]}},
            "network": {"ca_file": str(front.ca_file), "timeout": "5s"}}))
        self.processes = []

    def put_secret(self, text):
        self.secret.touch(mode=0o600)
        self.secret.write_text(text + "\n")

    def command(self, *arguments):
        return [str(harness.built("exposure-agent")), "-c", str(self.config), *arguments]

    def run(self, *arguments, stdin=""):
        return subprocess.run(self.command(*arguments), input=stdin, capture_output=True, text=True, check=False,
                              timeout=200)

    def start(self, *arguments):
        with open(self.directory / "log", "ab") as log:
            self.processes.append(subprocess.Popen(self.command(*arguments), stdin=subprocess.DEVNULL, stdout=log,
                                                   stderr=log))
        return self.processes[-1]

    def token(self):
        return json.loads(self.run("token", "-o", "json").stdout)

    def log_in(self, *arguments):
        """By paste; gives the outcome of `login`."""
        with subprocess.Popen(self.command("login", *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as process:
            url = ""
            while not url:
                line = process.stdout.readline()
                if not line:
                    raise AssertionError("login printed no address")
                url = line.strip() if "https://" in line else ""
            said, _ = process.communicate(servers.log_in(url, self.front.ca_file) + "\n", timeout=200)
        return subprocess.CompletedProcess([], process.returncode, said, "")

    def log(self):
        path = self.directory / "log"
        return path.read_text() if path.exists() else ""

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


class ServerCase:
    """What both servers must bear; `make` starts one."""

    @classmethod
    def setUpClass(cls):
        harness.built("exposure-agent")
        try:
            cls.server = cls.make()
            cls.addClassCleanup(cls.server.close)
            cls.front = servers.Nginx(cls.server)
            cls.addClassCleanup(cls.front.close)
        except servers.Unavailable as missing:
            raise unittest.SkipTest(str(missing)) from missing

    def keeper(self, login=True, front=None, **more):
        made = Keeper(front or self.front, **more)
        self.addCleanup(made.close)
        if login:
            done = made.log_in()
            self.assertEqual(done.returncode, 0, done.stdout)
        return made

    def refreshed(self, keeper):
        time.sleep(LIFE)
        return keeper.run("reconcile")

    def test_login_by_paste_and_a_chain_of_refreshes(self):
        keeper = self.keeper(login=False)
        done = keeper.log_in()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("logged in", done.stdout)
        first = keeper.published.read_text()
        self.assertNotIn("\n", first)
        for _ in range(REFRESHES):
            done = self.refreshed(keeper)
            self.assertEqual(done.returncode, 0, done.stderr)
        token = keeper.token()
        self.assertEqual(token["login"], "ok")
        self.assertIsNotNone(token["last_refresh_at"])
        self.assertNotEqual(keeper.published.read_text(), first)

    def test_login_by_the_loopback_listener(self):
        port = servers.free_port()
        keeper = self.keeper(login=False, redirect_url=f"{servers.REDIRECT_URL}:{port}")
        with subprocess.Popen(keeper.command("login"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as process:
            url = ""
            while "https://" not in url:
                url = process.stdout.readline()
            target = servers.log_in(url.strip(), self.front.ca_file)
            harness.wait_until(lambda: servers.listening(port), timeout=20)
            with socket.create_connection(("127.0.0.1", port)) as browser:
                path = target.split(f":{port}", 1)[1]
                browser.sendall(f"GET {path if path.startswith('/') else '/' + path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                browser.recv(4096)
            said, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, said)

    def test_a_code_works_once_and_a_stranger_s_state_never(self):
        keeper = self.keeper()
        done = keeper.run("login", "--code", "not-a-code-of-this-server")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(keeper.token()["login"], "ok")
        self.assertEqual(self.refreshed(keeper).returncode, 0)

    def test_killed_at_random(self):
        """The login is lost only if its answer was in flight, and then it is said at once."""
        keeper = self.keeper()
        chance = random.Random(20261122)
        lost = 0
        for _ in range(KILLS):
            time.sleep(LIFE)
            process = keeper.start("reconcile")
            time.sleep(chance.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            process.wait()
            if chance.random() < 0.3:
                self.refreshed(keeper)
                if keeper.token()["login"] == "required":
                    lost += 1
                    self.assertEqual(keeper.log_in().returncode, 0)
        print(f"{self.server.name}: {KILLS} kills, {lost} logins lost", file=sys.stderr)
        self.assertLessEqual(lost, KILLS // 3)

    def test_the_secret_is_rotated(self):
        keeper = self.keeper()
        keeper.put_secret("not-the-secret")
        self.refreshed(keeper)
        self.assertEqual(keeper.token()["login"], "required")
        said = keeper.run("status").stdout
        self.assertIn("identity.client_secret", said)
        self.assertNotIn("exposure-agent login", said)
        daemon = keeper.start("run")
        time.sleep(3)
        keeper.put_secret(servers.CLIENT_SECRET)
        harness.wait_until(lambda: keeper.token()["login"] == "ok", timeout=60, pause=1)
        daemon.terminate()
        self.assertEqual(daemon.wait(20), 0)

    def test_outages(self):
        """Every outage at once, each with a daemon of its own, for longer than the first back-offs."""
        fronts = {}
        for fault in servers.Nginx.FAULTS:
            front = servers.Nginx(self.server)
            self.addCleanup(front.close)
            fronts[fault] = front, self.keeper(front=front)
        before = {}
        for fault, (front, keeper) in fronts.items():
            before[fault] = keeper.token()["last_refresh_at"]
            front.behave(fault)
            keeper.start("run")
        time.sleep(30 + OUTAGE)  # the daemon refreshes half a minute after a login
        for fault, (front, keeper) in fronts.items():
            if fault in ("none", "1.0"):
                continue
            token = keeper.token()
            status = json.loads(keeper.run("status", "-o", "json").stdout)
            self.assertEqual(token["login"], "ok", (fault, keeper.log()))
            self.assertEqual(token["last_refresh_at"], before[fault], fault)
            self.assertTrue(status["login_detail"], fault)
            self.assertEqual(keeper.run("status", "--check").returncode, 1, fault)
            front.behave("none")
        deadline = time.monotonic() + HEALED
        waiting = dict(fronts)
        while waiting and time.monotonic() < deadline:
            waiting = {fault: pair for fault, pair in waiting.items()
                       if pair[1].token()["last_refresh_at"] == before[fault]}
            time.sleep(1)
        self.assertEqual({fault: pair[1].log()[-2000:] for fault, pair in waiting.items()}, {})
        for fault, (front, keeper) in fronts.items():
            keeper.processes[-1].terminate()
            self.assertEqual(keeper.processes[-1].wait(20), 0, fault)
            self.assertEqual(self.refreshed(keeper).returncode, 0, fault)


class OidcProviderTest(ServerCase, unittest.TestCase):
    make = staticmethod(lambda: servers.OidcProvider(LIFE))

    def test_a_stop_in_mid_refresh(self):
        """A slow server: the answer is awaited and kept, by one-shots and by daemons."""
        keeper = self.keeper()
        time.sleep(LIFE)
        self.server.process.send_signal(signal.SIGSTOP)
        process = keeper.start("reconcile")
        time.sleep(1)
        process.terminate()
        time.sleep(6)  # longer than network.timeout
        still_waiting = process.poll() is None
        self.server.process.send_signal(signal.SIGCONT)
        process.wait(60)
        self.assertTrue(still_waiting)
        self.refreshed(keeper)
        self.assertEqual(keeper.token()["login"], "ok")

    def test_used_elsewhere(self):
        """A copy of the token: the server ends both logins, and the message says why."""
        keeper = self.keeper()
        other = self.keeper(login=False)
        subprocess.run(["cp", "-a", keeper.directory / "state" / "private", other.directory / "state-private"],
                       check=True)
        os.makedirs(other.directory / "state", mode=0o711, exist_ok=True)
        (other.directory / "state-private").rename(other.directory / "state" / "private")
        self.assertEqual(self.refreshed(other).returncode, 0)
        self.refreshed(keeper)
        self.assertEqual(keeper.token()["login"], "required")
        self.assertIn("used elsewhere", keeper.run("status").stdout)


class KeycloakTest(ServerCase, unittest.TestCase):
    make = staticmethod(lambda: servers.Keycloak(LIFE))

    def test_the_person_s_name(self):
        keeper = self.keeper()
        self.assertEqual(keeper.token()["subject"], servers.PERSON)


if __name__ == "__main__":
    unittest.main(verbosity=2)
