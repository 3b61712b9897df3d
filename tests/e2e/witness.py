"""Invariants that hold whatever happens to the program: a reader in a busy loop, and checks of the final state."""

import collections
import contextlib
import hashlib
import os
import pathlib
import subprocess
import tempfile
import threading

import harness

MARK = "[exposure-agent owner=web-01 "
OTHER_MARK = "[exposure-agent owner=web-02 user=logs/a key=0123456789abcdef]"
FILES = ("key.pem", "cert.pem", "chain.pem", "fullchain.pem")

# Kinds of faults: the columns of the table that survival.py prints.
LOST_KEY = "lost key"
MISMATCHED_PAIR = "mismatched pair"
ORPHAN = "orphaned user"
DELETED = "wrongly deleted user"
REUSED = "reused refresh token"
LOGIN = "login to repeat"
OTHER = "anything else"
KINDS = (LOST_KEY, MISMATCHED_PAIR, ORPHAN, DELETED, REUSED, LOGIN, OTHER)

Fault = collections.namedtuple("Fault", ("kind", "text"))


class Tally:
    """The number of runs and injections, and the faults they left."""

    def __init__(self):
        self.runs = self.injected = self.reads = self.relogins = 0
        self.faults = []

    def add(self, runs=0, injected=0, faults=()):
        self.runs += runs
        self.injected += injected
        self.faults += faults

    def count(self, kind):
        return sum(fault.kind == kind for fault in self.faults)


class Watcher:
    """Reads published files in a loop, as an application might at any moment.

    Once a user has published, `current` exists at every moment until the user is released, and what is read through it
    is a complete, matching pair.
    """

    def __init__(self, agent, names, exposure="logs"):
        self.faults = []
        self.reads = 0
        self._live = agent.state_dir / "live" / exposure
        self._names = set(names)
        self._appeared = set()
        self._judged = {}  # content -> what is wrong with it
        self._scratch = tempfile.TemporaryDirectory(prefix="watcher-")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self._scratch.cleanup()

    def take_faults(self):
        """Returns and clears the faults seen so far."""
        taken, self.faults = self.faults, []
        return taken

    def let_go(self, name):
        """Releases a user that is about to be removed: its files may vanish."""
        self._names.discard(name)

    def _run(self):
        while not self._stop.wait(0.002):
            for name in sorted(self._names):
                fault = self._look(name)
                if fault and name in self._names:
                    self.faults.append(Fault(MISMATCHED_PAIR, f"{name}: {fault}"))

    def _look(self, name):
        current = self._live / name / "current"
        try:
            opened = os.open(current, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return "current is gone" if name in self._appeared else None
        try:
            self._appeared.add(name)
            content = tuple(self._read(opened, file) for file in FILES)
            if None in content and os.fstat(opened).st_ino != current.stat().st_ino:
                return None  # the opened generation was deleted after `current` had moved on
        except FileNotFoundError:
            return "current is gone"
        finally:
            os.close(opened)
        self.reads += 1
        if content not in self._judged:
            self._judged[content] = self._judge(content)
        return self._judged[content]

    @staticmethod
    def _read(directory, name):
        try:
            with open(os.open(name, os.O_RDONLY, dir_fd=directory), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _judge(self, content):
        if None in content:
            return f"there is no {FILES[content.index(None)]}"
        key, leaf, chain, full = content
        if full != leaf + chain:
            return "fullchain.pem is not cert.pem and chain.pem"
        paths = [pathlib.Path(self._scratch.name, name) for name in FILES[:2]]
        paths[0].touch(0o600)
        for path, text in zip(paths, (key, leaf)):
            path.write_bytes(text)
        try:
            matches = harness.public_key_of_key(paths[0]) == harness.public_key_of_certificate(paths[1])
        except AssertionError as complaint:
            return str(complaint)
        return None if matches else "key and certificate do not match"


class Strangers:
    """Users that are not ours: one made by hand, and one of another owner with our user's name. They must survive."""

    def __init__(self, simulator):
        self._simulator = simulator
        self._before = {}

    def appear(self, tenant=harness.TENANT):
        """Adds them, and with them the tenant's instance if it has none."""
        ids = [self._simulator.put_user(tenant=tenant, common_name=f"{name}-{tenant}", consumer_group="a", description=text)
               for name, text in (("by-hand", "made by hand"), ("of-web-02", OTHER_MARK))]
        self._before.update(self._look(ids))

    def _look(self, ids):
        return {user["id"]: user for user in self._simulator.users() if user["id"] in ids}

    def faults(self):
        untouched = self._look(self._before) == self._before
        return [] if untouched else [Fault(DELETED, "a user that is not ours was touched")]


def public_key_sha256(key):
    """As in the platform's state: SHA-256 of the SubjectPublicKeyInfo in DER."""
    command = ["openssl", "pkey", "-pubout", "-outform", "DER"]
    done = subprocess.run(command, input=key.encode(), capture_output=True, check=False)
    return hashlib.sha256(done.stdout).hexdigest() if done.returncode == 0 else "not a key"


def faults_at_any_time(simulator, agent):
    """Faults right after a kill: each of our users on the platform must have its key on our disk."""
    ours = [user for user in simulator.users() if MARK in user["description"]]
    kept = {public_key_sha256(key) for _, key in agent.private_keys()}
    return [Fault(LOST_KEY, f"no key of {user['name']}") for user in ours if user["public_key_sha256"] not in kept]


def faults_at_the_end(simulator, agent, names, exposure="logs"):
    """Faults after convergence: each name must have exactly one READY user of ours, with its pair in use."""
    faults = []
    ours = [user for user in simulator.users() if MARK in user["description"]]
    for name in names:
        its = [user for user in ours if f"user={exposure}/{name} " in user["description"]]
        faults += _faults_of(agent.published(name, exposure), its, name)
    if len(ours) > len(names):
        faults.append(Fault(ORPHAN, f"{len(ours)} users of ours for {len(names)} names"))
    return faults + [Fault(OTHER, f"left over: {path}") for path in leftovers(agent)]


def _faults_of(published, its, name):
    if not its:
        return [Fault(DELETED, f"{name}: it has no user at the platform")]
    if [user["status"] for user in its] != ["READY"]:
        return [Fault(ORPHAN, f"{name}: users at the platform: {[(user['id'], user['status']) for user in its]}")]
    if not published.exists():
        return [Fault(LOST_KEY, f"{name}: nothing is published")]
    if not published.key_matches():
        return [Fault(MISMATCHED_PAIR, f"{name}: the published pair does not match")]
    if public_key_sha256((published.current / "key.pem").read_text()) != its[0]["public_key_sha256"]:
        return [Fault(LOST_KEY, f"{name}: the published pair is not that of the user at the platform")]
    return []


def leftovers(agent):
    """Temporary files of an interrupted publication that were left next to the user's files."""
    return list((agent.state_dir / "live").rglob(".*"))


def presented_again(simulator):
    """How many times refresh tokens were sent again, in total."""
    tokens = simulator.state()["oauth"]["refresh_tokens"]
    return sum(max(0, token["presented"] - 1) for token in tokens)


def reused(simulator, allowed):
    """A refresh token may be sent once more if the response was lost (failure-modes S2): `allowed` times in total."""
    again = presented_again(simulator)
    return [Fault(REUSED, f"{again} times")] * (again > allowed)


@contextlib.contextmanager
def scene(simulator, names, tenant=harness.TENANT, network=None, **user):
    """A reset platform, strangers in this tenant, an agent that is not logged in yet, and a watcher."""
    simulator.reset()
    strangers = Strangers(simulator)
    strangers.appear(tenant)
    users = [{"name": name, "consumer_group": name, "rotation": {"retire_after": "0s"}, **user} for name in names]
    reconcile = {"settle": "1s", "max_deletes": 1000, "max_creates_per_user": 100}
    with harness.Agent(simulator, users=users, settings={"reconcile": reconcile}, login=False) as agent:
        agent.settings["network"].update(network or {})
        agent.write_config()
        with Watcher(agent, names) as watcher:
            yield agent, watcher, strangers
