"""Logins under faults: Keycloak and oidc-provider with single-use refresh tokens, behind real proxies over TLS.

    python3 tests/identity/test_servers.py [--long] [OidcProviderTest|KeycloakTest]

Everything that can run in parallel does: each scenario has its own proxy and agent. Prints a table of lost logins by
cause, as in tests/figures.md; --long kills more often, and its outages last longer than the longest backoff.
"""

import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

import harness
import servers
import test_crash_points

LONG = "--long" in sys.argv
LIFE = 2  # lifetime of an access token, seconds: every `reconcile` has to refresh, and a daemon refreshes every second
REFRESHES = 500 if LONG else 100
AGENT_KILLS = 300 if LONG else 20
PROXY_KILLS = 60 if LONG else 6
SERVER_KILLS = 20 if LONG else 2
OUTAGE = 700 if LONG else 40  # seconds from the first failure: exceeds three backoffs, or the longest one
PATIENCE = 240 + OUTAGE  # seconds for anything expected on a busy machine
NETWORK_TIMEOUT = 5
MEASURED = 20  # refreshes over which the window is measured

lost_logins = collections.defaultdict(lambda: [0, 0, 0])  # (server, event): count, lost, lost in flight
measured = []  # lines
durations = {}  # seconds per scenario


def count(server, kind, lost=False, in_flight=False):
    row = lost_logins[server, kind]
    row[0] += 1
    row[1] += lost
    row[2] += lost and in_flight


class Keeper:
    """The agent on a host that only logs in and publishes its token."""

    def __init__(self, front, redirect_url=servers.REDIRECT_URL, client_id=servers.CLIENT_ID):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="keeper-"))
        self.secret = self.directory / "client-secret"
        self.put_secret(servers.CLIENT_SECRET)
        self.published = self.directory / "published"
        self.front = front
        self.config = self.directory / "agent.yaml"
        self.config.write_text(json.dumps({
            "owner": "web-01", "state_dir": str(self.directory / "state"),
            "identity": {"auth_url": front.auth_url, "client_id": client_id,
                         "client_secret": {"file": str(self.secret)}, "redirect_url": redirect_url,
                         "scope": "openid", "publish": {"command": ["tee", str(self.published)]}},
            "network": {"ca_file": str(front.ca_file), "timeout": f"{NETWORK_TIMEOUT}s"}}))
        self.config.chmod(0o644)
        self.processes = []

    def put_secret(self, text):
        fresh = self.directory / "client-secret.new"
        fresh.touch(mode=0o600)
        fresh.write_text(text + "\n")
        fresh.rename(self.secret)

    def command(self, *arguments):
        return [str(harness.built("exposure-agent")), "-c", str(self.config), *arguments]

    def run(self, *arguments, environment=None):
        return subprocess.run(self.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=PATIENCE, env={**os.environ, **(environment or {})})

    def start(self, *arguments):
        with open(self.directory / "log", "ab") as log:
            self.processes.append(subprocess.Popen(self.command(*arguments), stdin=subprocess.DEVNULL, stdout=log,
                                                   stderr=log))
        return self.processes[-1]

    def token(self):
        done = self.run("token", "-o", "json")
        if not done.stdout:
            raise AssertionError(f"token: exit {done.returncode}: {done.stderr}\n{self.log()[-2000:]}")
        return json.loads(done.stdout)

    def begin_login(self, listen=False):
        """Starts `login`; returns the process and the address it prints."""
        process = subprocess.Popen(self.command("login"), stdin=subprocess.DEVNULL if listen else subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.processes.append(process)
        said = ""
        for line in process.stdout:
            said += line
            if "https://" in line:
                return process, line.strip()
        raise AssertionError(f"login printed no address: {said}")

    def log_in(self, visit=None):
        """Logs in by pasting the address; returns the outcome of `login`."""
        process, url = self.begin_login()
        where = visit(url) if visit else servers.log_in(url, self.front.ca_file)
        said, _ = process.communicate(where + "\n", timeout=PATIENCE)
        return subprocess.CompletedProcess([], process.returncode, said, "")

    def in_flight(self):
        """Whether, according to the private store, the refresh token was sent and the response is not on disk."""
        record = self.token_record()
        digest = hashlib.sha256(record["tokens"]["refresh_token"].encode()).hexdigest()
        return any(digest.startswith(sent["fingerprint"]) and sent.get("attempts", 0) > 0 and not sent.get("spent")
                   for sent in record.get("presented", []))

    def token_record(self):
        database = self.directory / "state" / "private" / "state.db"
        deadline = time.monotonic() + 10
        while True:
            connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)
            try:
                (text,), = connection.execute("SELECT value FROM kept WHERE name = 'tokens'")
                return json.loads(text)
            except sqlite3.OperationalError:  # another process is just closing the database and removing its WAL
                if time.monotonic() > deadline:
                    raise
            finally:
                connection.close()
            time.sleep(0.1)

    def log(self):
        path = self.directory / "log"
        return path.read_text() if path.exists() else ""

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
            if process.stdin:
                process.stdin.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def at_the_same_time(case):
    """Turns each scenario_… into a test_… that waits for it; the first one starts them all."""
    for name in [name for name in dir(case) if name.startswith("scenario_")]:
        def wait(self, name=name):
            self.futures[name].result()

        wait.__doc__ = getattr(case, name).__doc__
        setattr(case, name.replace("scenario_", "test_"), wait)
    return case


class ServerCase:
    """What the agent must survive with either server; `make` starts the server."""

    @classmethod
    def setUpClass(cls):
        harness.built("exposure-agent")
        try:
            cls.server = cls.make()
            cls.addClassCleanup(cls.server.close)
            cls.addClassCleanup(servers.Nginx(cls.server.upstream()).close)  # skips everything if nginx is missing
        except servers.Unavailable as missing:
            raise unittest.SkipTest(str(missing)) from missing
        names = sorted(name for name in dir(cls) if name.startswith("scenario_"))
        pool = concurrent.futures.ThreadPoolExecutor(len(names))
        cls.addClassCleanup(pool.shutdown)
        cls.futures = {name: pool.submit(cls.live_through, name) for name in names}

    @classmethod
    def live_through(cls, name):
        case = cls(name.replace("scenario_", "test_"))
        begun = time.monotonic()
        try:
            getattr(case, name)()
        except servers.Unavailable as missing:
            raise unittest.SkipTest(str(missing)) from missing
        finally:
            case.doCleanups()
            durations[cls.server.name, name] = time.monotonic() - begun

    def front(self, port=None, kind=servers.Nginx):
        made = kind(self.server.upstream(port))
        self.addCleanup(made.close)
        return made

    def keeper(self, login=True, front=None, **more):
        made = Keeper(front or self.front(), **more)
        self.addCleanup(made.close)
        if login:
            done = made.log_in()
            self.assertEqual(done.returncode, 0, done.stdout)
        return made

    def wired(self):
        """A keeper, and the relay between proxy and server."""
        wire = servers.Wire(self.server.port)
        self.addCleanup(wire.close)
        return self.keeper(front=self.front(wire.port)), wire

    def refreshed(self, keeper):
        time.sleep(LIFE)
        return keeper.run("reconcile")

    def wait_for(self, condition, keeper):
        deadline = time.monotonic() + PATIENCE
        while not (value := condition()):
            if time.monotonic() > deadline:
                self.fail(f"not within {PATIENCE} s; the agent's log:\n{keeper.log()[-3000:]}")
            time.sleep(0.3)
        return value

    def refresh_or_end(self, keeper, before):
        """Waits for the next refresh; returns True if the login has ended instead."""
        def moved():
            token = keeper.token()
            return token["login"] == "required" or token["last_refresh_at"] not in (None, before)

        self.wait_for(moved, keeper)
        return keeper.token()["login"] == "required"

    def end(self, process):
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0)

    # Logins

    def scenario_login_by_paste_in_a_browser(self):
        servers.program("chromium")
        keeper = self.keeper(login=False)
        done = keeper.log_in(visit=lambda url: servers.browse(url)[0])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("logged in", done.stdout.lower())
        self.assertNotIn("\n", keeper.published.read_text())
        self.assertEqual(self.refreshed(keeper).returncode, 0)

    def scenario_a_code_that_the_server_does_not_know(self):
        keeper = self.keeper()
        done = keeper.run("login", "--code", "not-a-code-of-this-server")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(keeper.token()["login"], "ok")
        self.assertEqual(self.refreshed(keeper).returncode, 0)

    # Refreshes

    def scenario_a_chain_of_refreshes(self):
        keeper = self.keeper()
        first = keeper.published.read_text()
        daemon = keeper.start("run")

        def statuses():
            return collections.Counter(status for status, _, _ in keeper.front.token_requests())

        deadline = time.monotonic() + PATIENCE + 3 * REFRESHES
        while statuses()[200] <= REFRESHES and time.monotonic() < deadline:
            time.sleep(1)
        self.end(daemon)
        self.assertGreater(statuses()[200], REFRESHES, keeper.log()[-3000:])
        # once: the client id and secret unencoded; both servers require them form-encoded (RFC 6749, 2.3.1)
        self.assertEqual(statuses().total() - statuses()[200], 1, statuses())
        self.assertEqual(keeper.token()["login"], "ok")
        self.assertNotEqual(keeper.published.read_text(), first)
        for _ in range(REFRESHES):
            count(self.server.name, "nothing, just a refresh")

    def scenario_two_agents_with_one_token(self):
        """The server revokes both logins, and the message explains why."""
        keeper = self.keeper()
        other = self.keeper(login=False, front=keeper.front)
        os.makedirs(other.directory / "state", mode=0o711, exist_ok=True)
        subprocess.run(["cp", "-a", keeper.directory / "state" / "private", other.directory / "state" / "private"],
                       check=True)
        self.assertEqual(self.refreshed(other).returncode, 0)
        self.refreshed(keeper)
        self.assertEqual(keeper.token()["login"], "required")
        self.assertIn("used elsewhere", keeper.run("status").stdout)

    def scenario_the_secret_is_rotated(self):
        keeper = self.keeper()
        keeper.put_secret("not-the-secret")
        self.assertEqual(self.refreshed(keeper).returncode, 77)
        self.assertEqual(keeper.token()["login"], "required")
        said = keeper.run("status").stdout
        self.assertIn("identity.client_secret", said)
        self.assertNotIn("exposure-agent login", said)
        daemon = keeper.start("run")
        time.sleep(LIFE)
        keeper.put_secret(servers.CLIENT_SECRET)
        self.wait_for(lambda: keeper.token()["login"] == "ok", keeper)
        self.end(daemon)
        self.assertNotIn("exposure-agent login", keeper.log())
        count(self.server.name, "client secret wrong for a while")

    def scenario_the_session_ends(self):
        """Despite refreshes. It is reported at once, and a new login is all that is needed."""
        keeper = self.keeper(client_id=servers.SHORT_CLIENT)
        daemon = keeper.start("run")
        details = []

        def over():
            details.append(json.loads(keeper.run("status", "-o", "json").stdout).get("login_detail") or "")
            return keeper.token()["login"] == "required"

        self.wait_for(over, keeper)
        self.session_warning(details)
        self.assertIn("exposure-agent login", keeper.run("status").stdout)
        self.assertEqual(keeper.run("status", "--check").returncode, 1)
        done = keeper.log_in()  # through the daemon
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(keeper.token()["login"], "ok")
        self.end(daemon)

    def session_warning(self, details):
        """Checks the warning ahead of the end, if the server announces the end."""

    def scenario_http_1_0(self):
        """An origin whose responses end with the connection, behind proxies that pass this on."""
        origin = servers.OldOrigin(self.server.port)
        self.addCleanup(origin.close)
        for kind in (servers.HAProxy, servers.Apache):
            keeper = self.keeper(front=self.front(origin.port, kind))
            self.assertEqual(self.refreshed(keeper).returncode, 0)
            self.assertEqual(self.refreshed(keeper).returncode, 0)
            count(self.server.name, f"HTTP/1.0 behind {kind.name}")

    def scenario_slow_answers(self):
        """The agent waits for the response longer than network.timeout, and sends nothing twice."""
        keeper, wire = self.wired()
        sent = len(keeper.front.token_requests())
        time.sleep(LIFE)
        wire.flowing.clear()
        process = keeper.start("reconcile")
        time.sleep(3 * NETWORK_TIMEOUT)
        self.assertIsNone(process.poll(), keeper.log())
        wire.flowing.set()
        self.assertEqual(process.wait(PATIENCE), 0, keeper.log())
        # a token sent twice would have been refused; on a busy machine another refresh may have become due
        self.assertEqual({status for status, _, _ in keeper.front.token_requests()[sent:]}, {200})
        self.assertEqual(self.refreshed(keeper).returncode, 0)
        count(self.server.name, f"answer after {3 * NETWORK_TIMEOUT} s")

    def scenario_a_stop_in_mid_refresh(self):
        """One-shot runs and daemons wait for the response and save it."""
        for verb in ("reconcile", "run"):
            keeper, wire = self.wired()
            time.sleep(LIFE)
            wire.flowing.clear()
            process = keeper.start(verb)
            self.wait_for(keeper.in_flight, keeper)
            time.sleep(1)
            process.terminate()
            time.sleep(NETWORK_TIMEOUT + 2)
            self.assertIsNone(process.poll(), keeper.log())
            wire.flowing.set()
            process.wait(PATIENCE)
            self.assertFalse(keeper.in_flight())
            self.assertEqual(self.refreshed(keeper).returncode, 0, keeper.log())
            count(self.server.name, "SIGTERM in mid-refresh")

    def scenario_the_answer_is_lost(self):
        """Unavoidable: the server has revoked the token and the new one is lost. Reported at once; a login fixes it."""
        keeper, wire = self.wired()
        time.sleep(LIFE)
        wire.flowing.clear()
        wire.answered.clear()
        process = keeper.start("reconcile")
        self.wait_for(wire.answered.is_set, keeper)
        wire.losing = True
        wire.flowing.set()
        time.sleep(1)
        wire.losing = False
        process.wait(PATIENCE)
        lost = keeper.token()["login"] == "required"
        if lost:
            self.assertIn("exposure-agent login", keeper.run("status").stdout)
            self.assertEqual(keeper.log_in().returncode, 0)
        count(self.server.name, "answer lost on its way", lost, True)
        self.assertEqual(self.refreshed(keeper).returncode, 0)

    # Kills

    def scenario_the_agent_is_killed(self):
        """A login is lost only if the response was in flight, and then this is reported."""
        keeper = self.keeper()
        chance = random.Random(20261122)
        in_flight = False
        for _ in range(AGENT_KILLS):
            before = keeper.token()["last_refresh_at"]
            daemon = keeper.start("run")
            lost = self.refresh_or_end(keeper, before)
            if not lost:
                time.sleep(chance.uniform(0, 1.2))
            daemon.kill()
            daemon.wait()
            if lost:
                self.assertTrue(in_flight, keeper.log()[-3000:])
                self.assertEqual(keeper.log_in().returncode, 0)
            count(self.server.name, "SIGKILL of the agent", lost, in_flight)
            in_flight = keeper.in_flight()

    def harmed(self, keeper, kind, times, harm):
        """Repeats `harm` to something between a daemon and its login at random moments."""
        chance = random.Random(20261122)
        daemon = keeper.start("run")
        self.refresh_or_end(keeper, None)
        for _ in range(times):
            time.sleep(chance.uniform(0, 1.2))
            in_flight = harm(chance)
            before = keeper.token()["last_refresh_at"]
            lost = self.refresh_or_end(keeper, before)
            if lost:
                self.assertTrue(in_flight, keeper.log()[-3000:])
                done = keeper.log_in()
                self.assertEqual(done.returncode, 0, done.stdout)
            count(self.server.name, kind, lost, in_flight)
        self.end(daemon)

    def scenario_the_proxy_is_killed(self):
        keeper = self.keeper()

        def harm(chance):
            keeper.front.kill()
            in_flight = keeper.in_flight()
            time.sleep(chance.uniform(0, 2))
            keeper.front.start()
            return in_flight

        self.harmed(keeper, "SIGKILL of the proxy", PROXY_KILLS, harm)

    def test_z_the_server_is_killed(self):
        """Runs last, because all other tests need the server."""
        concurrent.futures.wait(self.futures.values())
        keeper = self.keeper()

        def harm(_):
            self.server.kill()
            in_flight = keeper.in_flight()
            self.server.start()
            return in_flight

        self.harmed(keeper, "SIGKILL of the server", SERVER_KILLS, harm)

    # Outages

    def scenario_outages(self):
        """All outages at the same time, each with its own daemon, lasting longer than the first backoffs."""
        faults = [fault for fault in servers.Nginx.FAULTS if fault != "none"] + [servers.Nginx.GONE]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            keepers = dict(zip(faults, pool.map(lambda _: self.keeper(), faults)))
        before = {}
        for fault, keeper in keepers.items():
            before[fault] = keeper.token()["last_refresh_at"]
            keeper.front.behave(fault)
            keeper.start("run")
        for keeper in keepers.values():
            self.wait_for(lambda keeper=keeper: self.detail(keeper), keeper)
        time.sleep(OUTAGE)
        ended = {}
        for fault, keeper in keepers.items():
            token = keeper.token()
            self.assertEqual(token["login"], "ok", (fault, keeper.log()[-3000:]))
            self.assertEqual(token["last_refresh_at"], before[fault], fault)
            self.assertTrue(self.detail(keeper), fault)
            self.assertEqual(keeper.run("status", "--check").returncode, 1, fault)
            keeper.front.behave("none")
            ended[fault] = time.monotonic()
        healed = {}
        for fault, keeper in keepers.items():
            lost = self.refresh_or_end(keeper, before[fault])
            self.assertFalse(lost, (fault, keeper.log()[-3000:]))
            healed[fault] = time.monotonic() - ended[fault]
            count(self.server.name, f"outage: {fault}", lost)
        for keeper in keepers.values():
            self.end(keeper.processes[-1])
        measured.append(f"{self.server.name}: {len(faults)} daemons refreshed by themselves within "
                        f"{max(healed.values()):.0f} s of the end of an outage of more than {OUTAGE} s")

    @staticmethod
    def detail(keeper):
        return json.loads(keeper.run("status", "-o", "json").stdout)["login_detail"]

    # The window in which a loss is unavoidable

    def scenario_the_window(self):
        """Its components. The agent's own part needs a build with crash points (see also tests/e2e/survival.py)."""
        points = pathlib.Path(os.environ.get("EXPOSURE_AGENT_POINTS", harness.ROOT / "build-crash-points"))
        program = points / "exposure-agent"
        known = program.exists()
        keeper = self.keeper()
        exchange, ours = [], []
        for number in range(MEASURED):
            time.sleep(LIFE)
            log = keeper.directory / f"passed-{number}"
            done = subprocess.run([program if known else harness.built("exposure-agent"), "-c", keeper.config, "reconcile"],
                                  capture_output=True, check=False,
                                  env={**os.environ, "EXPOSURE_AGENT_CRASH_LOG": str(log)})
            self.assertEqual(done.returncode, 0, done.stderr)
            if known:
                passed = test_crash_points.Passed(log)
                exchange.append(passed.microseconds("token.intent.saved", test_crash_points.RECEIVED) / 1000)
                ours.append(passed.microseconds(test_crash_points.RECEIVED, "token.answer.saved") / 1000)
        requests = [request for request in keeper.front.token_requests() if request[0] == 200][-MEASURED:]
        in_server = [1000 * server for _, _, server in requests]
        in_proxy = [1000 * (both - server) for _, both, server in requests]
        middle = statistics.median
        line = f"{self.server.name}: in the server {middle(in_server):.0f} ms"
        if commits := self.server.commit_times():
            line += f" (of them {middle(commits) / 1000:.2f} ms from its commit to the end of its answer)"
        line += f", in the proxy {middle(in_proxy):.0f} ms"
        if known:
            line += (f", the whole exchange with its connection {middle(exchange):.0f} ms; ours, from the answer to stable "
                     f"storage: {middle(ours):.2f} ms")
        measured.append(f"{line} (medians of {MEASURED} refreshes)")

@at_the_same_time
class OidcProviderTest(ServerCase, unittest.TestCase):
    make = staticmethod(lambda: servers.OidcProvider(LIFE))


@at_the_same_time
class KeycloakTest(ServerCase, unittest.TestCase):
    make = staticmethod(lambda: servers.Keycloak(LIFE))

    def session_warning(self, details):
        self.assertTrue(any("ends this login at" in detail for detail in details), details)

    def scenario_login_by_the_loopback_listener_in_a_browser(self):
        """oidc-provider compares redirect addresses exactly; Keycloak allows any port."""
        servers.program("chromium")
        port = harness.free_port()
        address = f"{servers.REDIRECT_URL}:{port}"
        keeper = self.keeper(login=False, redirect_url=address)
        process, url = keeper.begin_login(listen=True)
        _, shown = servers.browse(url, address)
        said, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("Done", shown)

    def scenario_the_name_of_the_person(self):
        keeper = self.keeper()
        self.assertEqual(keeper.token()["subject"], servers.PERSON)


def tearDownModule():
    if not lost_logins:
        return
    print("\n\n| server | what was done | times | logins lost | of them with the answer in flight |", file=sys.stderr)
    print("| --- | --- | --- | --- | --- |", file=sys.stderr)
    for (server, kind), row in sorted(lost_logins.items()):
        print(f"| {server} | {kind} | {row[0]} | {row[1]} | {row[2]} |", file=sys.stderr)
    print("\n" + "\n".join(measured), file=sys.stderr)
    print("\nThe longest: " + ", ".join(f"{name.replace('scenario_', '')} {seconds:.0f} s" for (_, name), seconds in
                                        sorted(durations.items(), key=lambda each: -each[1])[:6]), file=sys.stderr)


if __name__ == "__main__":
    outcome = unittest.main(exit=False, verbosity=2, argv=[a for a in sys.argv if a != "--long"]).result
    if outcome.testsRun == 0 and outcome.skipped:
        sys.exit(77)  # ctest: SKIP_RETURN_CODE
    sys.exit(not outcome.wasSuccessful())
