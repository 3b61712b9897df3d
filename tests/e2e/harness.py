"""Shared code of the end-to-end tests: the bundled platform, the real program, and access to what it left on disk.

Standard library only. EXPOSURE_AGENT_BUILD is the directory of the built programs (default: build/ of this tree), so
that each test file can also be run directly: python3 tests/e2e/test_something.py
"""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EXPOSURE_AGENT_BUILD", ROOT / "build"))
SERVICES = {"log": "les", "health": "hes", "lifecycle": "lces"}  # variant -> path prefix at the simulator
NAME_PREFIXES = {"log": "logs", "health": "health", "lifecycle": "lifecycle"}
TENANT = "orion-123"
CLIENT_ID = "exposure-automation"
CLIENT_SECRET = "simulator-client-secret"
REDIRECT_URL = "http://localhost"
START_TIMEOUT = 20
RUN_TIMEOUT = 120
SETTLE_S = 1  # reconcile.settle
PORTS = range(12000, 30000)  # outside the ephemeral range: a port must stay free while its server is down
AT_ONCE = {"exposure": {"ready_delay_ms": 0, "instance_ready_delay_ms": 0}}  # a platform without delays
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")  # in every JSON

# Words that no message contains (contract, section 8).
FORBIDDEN = (r"as the file wants", r"\bis no (?!longer)", r"\bsay `", r"\bmend\b", r"\banew\b", r"without a word", r"nobody came",
             r"generation before", r"\bis ours\b", r"by user 0", r"in the way", r"there is no such thing",
             r"\b1 (users|exposures|certificates)\b", r"\b(0|[2-9]|\d\d+) (user|exposure|certificate)\b", r"\(s\)")


def built(program):
    """The path of a built program; skips the test if it has not been built."""
    path = BUILD / program
    if not path.exists():
        raise unittest.SkipTest(f"{path} is not built")
    return path


given_ports = set()


def free_port():
    """A port for one server of this process, which may stop and restart on it."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in given_ports:  # another thread may have been faster
            given_ports.add(port)
            return port


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, such as the control socket or a metrics listener."""

    def __init__(self, path):
        super().__init__("localhost", timeout=RUN_TIMEOUT)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def listens(path):
    """Whether a Unix socket accepts connections."""
    with contextlib.closing(UnixConnection(path)) as connection:
        try:
            connection.connect()
        except OSError:
            return False
        return True


def scrape(listener):
    """The metrics that a daemon serves on its Unix socket."""
    with contextlib.closing(UnixConnection(listener)) as connection:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def settle(agent):
    """Reconciles until every POST has settled and the list has been searched for duplicates."""
    agent.run("reconcile", expect=0)
    settled = time.time() + SETTLE_S
    wait_until(lambda: time.time() > settled)
    agent.run("reconcile", expect=0)


def wait_until(condition, timeout=RUN_TIMEOUT, pause=0.02):
    """Returns the first true value of condition(); raises AssertionError on timeout."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {timeout} s: {condition}")
        time.sleep(pause)


def write_program(path, text):
    """Writes a shell script; one that is there is replaced atomically."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(f"#!/bin/sh\n{text}\n")
    new.chmod(0o755)
    new.replace(path)
    return path


class Answer:
    """An HTTP response, read completely."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)


class ControlError(Exception):
    """The control API rejected a call."""


class Simulator:
    """A platform for one test, in a temporary directory, until stop(). Use it with `with` or addCleanup."""

    def __init__(self, behaviour=None, keep_state=False, directory=None):
        self._owned = directory is None
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="simulator-"))
        self._behaviour = behaviour
        self._keep_state = keep_state
        self._listen = f"127.0.0.1:{free_port()}"
        self._process = None
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Starts it; after halt() it restarts at the same address with the same CAs."""
        ready = self.directory / "ready.json"
        ready.unlink(missing_ok=True)
        command = [built("platform-simulator"), "--directory", self.directory, "--listen", self._listen]
        if self._behaviour is not None:
            config = self.directory / "config.json"
            config.write_text(json.dumps(self._behaviour))
            command += ["--config", config]
        if self._keep_state:
            command += ["--state", self.directory / "state.json"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(lambda: ready.exists() or self._process.poll() is not None, START_TIMEOUT)
        if not ready.exists():
            raise AssertionError(f"platform-simulator ended with {self._process.returncode}")
        facts = json.loads(ready.read_text())
        self.base_url = facts["base_url"]
        self.port = urllib.parse.urlsplit(self.base_url).port
        self._control = urllib.parse.urlsplit(facts["control_url"])
        self._listen = f"127.0.0.1:{self.port}"

    def halt(self, how=signal.SIGTERM):
        """Stops the process; the directory remains."""
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait(START_TIMEOUT)

    def stop(self):
        self.halt()
        if self._owned:
            shutil.rmtree(self.directory, ignore_errors=True)
        if self._process.returncode not in (0, -signal.SIGKILL):
            raise AssertionError(f"platform-simulator ended with {self._process.returncode}")

    # Addresses and files

    @property
    def ca_file(self):
        return self.directory / "ca.pem"

    @property
    def issuer_ca_file(self):
        return self.directory / "issuer-ca.pem"

    def auth_url(self, tenant=TENANT):
        return f"{self.base_url}/SAAS/t/{tenant}"

    def service_url(self, variant):
        return f"{self.base_url}/{SERVICES[variant]}"

    # The control API (tests/simulator/README.md)

    def control(self, method, path, body=None):
        connection = http.client.HTTPConnection(self._control.hostname, self._control.port, timeout=RUN_TIMEOUT)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            content = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise ControlError(content["message"])
        return content

    def reset(self):
        """Makes everything as it was at the start: behaviour, users, requests, faults."""
        self.control("POST", "/reset")

    def state(self):
        return self.control("GET", "/state")

    def users(self):
        return self.state()["users"]

    def requests(self, operation=None, since=0):
        """The journal: all requests in order, or only those of one operation."""
        records = self.control("GET", f"/requests?since={since}")["requests"]
        return [r for r in records if operation is None or r["operation"] == operation]

    def operations(self):
        """The operations of all requests, in order."""
        return [r["operation"] for r in self.requests()]

    def clear_requests(self):
        self.control("POST", "/requests/clear")

    def behave(self, **change):
        """Merge-patches the behaviour: behave(exposure={"ready_delay_ms": 0})."""
        return self.control("PATCH", "/behaviour", change)

    def fault(self, **rule):
        """Adds one rule: fault(operation="create_user", nth=2, close="after")."""
        return self.control("POST", "/faults", rule)

    def faults(self):
        return self.control("GET", "/faults")["faults"]

    def clear_faults(self):
        self.control("DELETE", "/faults")

    def code(self, **owner):
        return self.control("POST", "/code", owner)["code"]

    def refresh_token(self, **owner):
        return self.control("POST", "/seed-refresh-token", owner)["refresh_token"]

    def access_token(self, **owner):
        return self.control("POST", "/access-token", owner)["access_token"]

    def expire_tokens(self):
        self.control("POST", "/tokens/expire")

    def revoke_tokens(self):
        self.control("POST", "/tokens/revoke")

    def put_user(self, variant="log", tenant=TENANT, **fields):
        """Adds a user made by somebody else, READY at once; returns its id."""
        return self.control("POST", "/users", {"variant": variant, "tenant": tenant, **fields})["ids"][0]

    def change_user(self, user_id, **change):
        self.control("PATCH", f"/users/{user_id}", change)

    def delete_users(self, **selection):
        """Deletes users as somebody else would: by id, ids, variant, tenant, description_contains; no filter: all."""
        return self.control("DELETE", "/users", selection)["deleted"]

    def delete_instances(self, **selection):
        return self.control("DELETE", "/instances", selection)["deleted"]

    def put_instance(self, variant="log", tenant=TENANT, **fields):
        return self.control("POST", "/instances", {"variant": variant, "tenant": tenant, **fields})["id"]

    # The platform API, called like any client

    def tls_context(self):
        return ssl.create_default_context(cafile=str(self.ca_file))

    def connect(self, host="127.0.0.1"):
        return http.client.HTTPSConnection(host, self.port, timeout=RUN_TIMEOUT, context=self.tls_context())

    def call(self, method, path, body=None, token=None, headers=None, connection=None):
        """Sends one request; `body`: bytes, text, or an object to be sent as JSON."""
        sent = {"Accept": "application/json"}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        own = connection or self.connect()
        try:
            own.request(method, path, body, sent)
            answer = own.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            if connection is None:
                own.close()

    def token_request(self, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, **form):
        credentials = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        form.setdefault("redirect_uri", REDIRECT_URL)
        return self.call(
            "POST",
            f"/SAAS/t/{TENANT}/auth/oauthtoken",
            urllib.parse.urlencode(form),
            headers={"Authorization": f"Basic {credentials}", "Content-Type": "application/x-www-form-urlencoded"},
        )


def to_yaml(value):
    """JSON is valid YAML, so tests need no YAML library."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def user(name, **more):
    """A user as in the file; the name of its consumer group is another one than its own."""
    return {"name": name, "consumer_group": f"group-{name}", **more}


class Agent:
    """The real program with its own directory for configuration, state and published files.

    `exposures`: dicts as in the file (contract section 2); base_url and tenant are added. `users` is a shorthand for a
    single exposure `logs` of the log variant. `settings` is merged into the file: into the members of its sections too.
    """

    def __init__(self, simulator, users=None, exposures=None, settings=None, login=True, owner="web-01"):
        self.simulator = simulator
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="agent-"))
        self.state_dir = self.directory / "state"
        self.config_file = self.directory / "agent.yaml"
        self.secret_file = self.directory / "client-secret"
        self.write_secret(self.secret_file, CLIENT_SECRET)
        if exposures is None:
            exposures = [{"name": "logs", "variant": "log", "users": users or []}]
        self.settings = {
            "version": 1,
            "owner": owner,
            "state_dir": str(self.state_dir),
            "identity": {
                "auth_url": simulator.auth_url(),
                "client_id": CLIENT_ID,
                "client_secret": {"file": str(self.secret_file)},
                "redirect_url": REDIRECT_URL,
            },
            "network": {"ca_file": str(simulator.ca_file), "timeout": "10s"},
            "reconcile": {"settle": f"{SETTLE_S}s"},
            "defaults": {"contact": "team@example.com", "key": "ecdsa-p256"},
            "exposures": [self.exposure(**each) for each in exposures],
        }
        for key, value in (settings or {}).items():
            before = self.settings.get(key)
            both = isinstance(value, dict) and isinstance(before, dict)
            self.settings[key] = {**before, **value} if both else value
        self.write_config()
        if login:
            self.login()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def exposure(self, variant="log", users=(), **rest):
        """An exposure for the file; a user may be given by name only."""
        entry = {
            "name": NAME_PREFIXES[variant],
            "variant": variant,
            "base_url": self.simulator.service_url(variant),
            "tenant": TENANT,
            "create_instance": True,
            **rest,
        }
        entry["users"] = [{"name": u, "consumer_group": u} if isinstance(u, str) else u for u in users]
        return entry

    def write_config(self):
        """Writes `settings` to the file, replacing it atomically."""
        temporary = self.config_file.with_suffix(".new")
        temporary.write_text(to_yaml(self.settings) + "\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, self.config_file)

    @staticmethod
    def write_secret(path, text):
        path.touch(mode=0o600)
        path.write_text(text + "\n")

    # Running the program

    def command(self, *arguments):
        return [str(built("exposure-agent")), "-c", str(self.config_file), *map(str, arguments)]

    def run(self, *arguments, expect=None, stdin="", environment=None, timeout=RUN_TIMEOUT):
        """Runs one command to completion; with `expect`, any other exit code fails the test and shows the output."""
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.environment(environment),
            check=False,
        )
        if expect is not None and done.returncode != expect:
            raise AssertionError(
                f"{' '.join(map(str, arguments))}: exit {done.returncode}, not {expect}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def json(self, *arguments, expect=0):
        """The JSON printed by a command with -o json."""
        return json.loads(self.run(*arguments, "-o", "json", expect=expect).stdout)

    def start(self, *arguments, environment=None):
        """Starts a command (such as `run`) and returns the process; its output goes to `agent.log`."""
        with open(self.directory / "agent.log", "ab") as log:
            return subprocess.Popen(
                self.command(*arguments), stdout=log, stderr=log, env=self.environment(environment)
            )

    @contextlib.contextmanager
    def daemon(self, *arguments, environment=None):
        """Runs the daemon, which listens on its control socket when the block begins and must end well after it."""
        process = self.start("run", *arguments, environment=environment)
        try:
            wait_until(lambda: self.listens() or process.poll() is not None)
            if process.poll() is not None:
                raise AssertionError(f"the daemon ended with {process.returncode}\n{self.log()}")
            yield process
        finally:
            process.terminate()
            try:
                process.wait(RUN_TIMEOUT)
            finally:
                process.kill()
        if process.returncode != 0:
            raise AssertionError(f"the daemon ended with {process.returncode}\n{self.log()}")

    @property
    def control_socket(self):
        return self.state_dir / "control.sock"

    def listens(self):
        """Whether a daemon accepts commands."""
        return listens(self.control_socket)

    def log(self):
        """What the commands started with start() have written."""
        log = self.directory / "agent.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def environment(self, more=None):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "ASAN_OPTIONS") if name in os.environ}
        return {**kept, **(more or {})}

    def login(self, **owner):
        """Logs in with a refresh token minted by the platform."""
        token_file = self.directory / "seed-refresh-token"
        self.write_secret(token_file, self.simulator.refresh_token(**owner))
        self.run("login", "--refresh-token-file", token_file, expect=0)
        token_file.unlink()

    def status(self, name=None):
        """The JSON of status, or of a single user given as `exposure/user`."""
        shown = self.json("status")
        if name is None:
            return shown
        return next(u for u in shown["users"] if f"{u['exposure']}/{u['name']}" == name)

    # What it left on disk

    def published(self, name, exposure="logs"):
        return Published(self.state_dir / "live" / exposure / name)

    def private_files(self):
        return [path for path in (self.state_dir / "private").rglob("*") if path.is_file()]

    @property
    def state_database(self):
        return self.state_dir / "private" / "state.db"

    def change_state(self, sql, *values):
        """Modifies the private store, bypassing the program."""
        with contextlib.closing(sqlite3.connect(self.state_database)) as connection, connection:
            connection.execute(sql, values)

    def list_again(self):
        """Makes the next pass read the list of users, as happens once a day."""
        self.change_state("UPDATE exposures SET record = json_remove(record, '$.listed_at')")

    def stored(self, sql, *values):
        """Rows of the private store, read from a copy because the disk may be full and the program running."""
        if not self.state_database.exists():
            return []
        for _ in range(10):
            with tempfile.TemporaryDirectory() as directory, contextlib.suppress(sqlite3.Error, OSError):
                for name in ("state.db-wal", "state.db"):
                    if (self.state_database.parent / name).exists():
                        shutil.copy(self.state_database.parent / name, directory)
                copy = pathlib.Path(directory) / "state.db"
                with contextlib.closing(sqlite3.connect(copy)) as connection:
                    return connection.execute(sql, values).fetchall()
        raise AssertionError(f"{self.state_database} cannot be read")

    def private_keys(self):
        """(exposure/user, PEM) of every generation."""
        return [(f"{exposure}/{name}", key.decode()) for exposure, name, key in
                self.stored("SELECT exposure, user, key FROM generations")]

    def stored_tokens(self):
        """Text of the token record; empty if there is none."""
        return "".join(value.decode() for (value,) in self.stored("SELECT value FROM kept WHERE name = 'tokens'"))


class PlatformCase(unittest.TestCase):
    """Tests against a platform: one for the class, reset before each test, and agents that are removed after it.

    A class sets BEHAVIOUR if its platform is to start with another one. A class whose tests share what setUpClass has
    made overrides setUp(), so that the platform is not reset.
    """

    BEHAVIOUR = AT_ONCE

    @classmethod
    def setUpClass(cls):
        built("exposure-agent")
        cls.platform = Simulator(cls.BEHAVIOUR)
        cls.addClassCleanup(cls.platform.stop)

    def setUp(self):
        self.platform.reset()

    def agent(self, *users, platform=None, **options):
        """An agent for these users, given by name or as in the file; the options are those of Agent.

        `platform`: what it takes for the platform, such as a proxy in front of it.
        """
        made = Agent(platform or self.platform, users=list(users), **options)
        self.addCleanup(made.remove)
        return made

    def served(self, *users, **options):
        """An agent whose users have their certificates; the journal is empty."""
        made = self.agent(*users, **options)
        made.run("reconcile", expect=0)
        self.platform.clear_requests()
        return made

    def assert_form(self, text):
        """Checks a message, or other text for people, for words that have no place there."""
        for pattern in FORBIDDEN:
            self.assertNotRegex(text, pattern)

    def assert_keys(self, shown, *keys):
        """Checks that a JSON object has these members, perhaps among others."""
        self.assertEqual(set(keys) - set(shown), set())

    def scratch(self):
        """A directory for this test, open to readers."""
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        directory.chmod(0o755)
        return directory


class Published:
    """A user's output directory."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)

    @property
    def current(self):
        return self.directory / "current"

    def exists(self):
        return self.current.is_symlink()

    @property
    def generation(self):
        return os.readlink(self.current)

    def read(self, name):
        return (self.current / name).read_text()

    def key_matches(self):
        """Whether the key and the leaf certificate have the same public key."""
        return public_key_of_key(self.current / "key.pem") == public_key_of_certificate(self.current / "cert.pem")

    def subject(self):
        return openssl("x509", "-in", self.current / "cert.pem", "-noout", "-subject", "-nameopt", "RFC2253").strip()

    def serial(self):
        return openssl("x509", "-in", self.current / "cert.pem", "-noout", "-serial").strip().split("=")[1].lower()

    def verifies(self, issuer_ca_file):
        """Whether the full chain verifies against the users' CA, as a TLS client certificate."""
        fullchain = self.current / "fullchain.pem"
        openssl("verify", "-purpose", "sslclient", "-CAfile", issuer_ca_file, "-untrusted", fullchain, fullchain)
        return True

    def footprint(self):
        """{relative path: (inode, mtime in ns, mode)} of everything here: equal footprints mean untouched files."""
        return footprint(self.directory)


def footprint(directory):
    found = {}
    for path in sorted(pathlib.Path(directory).rglob("*")):
        if path.name.endswith(("-wal", "-shm")):  # SQLite's WAL and its index come and go
            continue
        status = path.lstat()
        if path.name == "private":  # its mtime changes with them
            found[str(path.relative_to(directory))] = (status.st_ino, oct(status.st_mode))
            continue
        found[str(path.relative_to(directory))] = (status.st_ino, status.st_mtime_ns, oct(status.st_mode))
    return found


def openssl(*arguments, stdin=None):
    """Output of the openssl command, or its error message if it fails."""
    done = subprocess.run(["openssl", *map(str, arguments)], input=stdin, capture_output=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"openssl {arguments[0]}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()


def public_key_of_key(key_file):
    return openssl("pkey", "-in", key_file, "-pubout")


def public_key_of_certificate(certificate_file):
    return openssl("x509", "-in", certificate_file, "-noout", "-pubkey")


def make_csr(directory, common_name, usage="clientAuth", subject=None, algorithm="EC"):
    """Makes a key and a PEM signing request with the openssl command, as by hand; returns (key file, PEM text)."""
    directory = pathlib.Path(directory)
    key_file = directory / f"{common_name}.key"
    options = {"EC": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"), "ED25519": ("-algorithm", "ED25519")}
    openssl("genpkey", *options[algorithm], "-out", key_file)
    extension = ("-addext", f"extendedKeyUsage={usage}") if usage else ()
    return key_file, openssl("req", "-new", "-key", key_file, "-subj", subject or f"/CN={common_name}", *extension)


def encode_csr(pem, encoding="pem"):
    """Encodes a request for the field `csr`: base64 of the PEM text or of the DER."""
    if encoding == "der":
        return base64.b64encode(ssl.PEM_cert_to_DER_cert(
            pem.replace("CERTIFICATE REQUEST", "CERTIFICATE"))).decode()
    return base64.b64encode(pem.encode()).decode()
