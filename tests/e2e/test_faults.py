"""A fault at every request: onboarding and rotation of three users end well, whatever breaks.

Each case is one history: a fresh tenant with a stranger's user, one fault at the n-th request of all, the agent's verbs,
and then reconcile, run again as often as a timer would. A reader looks at the published pairs all the while.
E2E_FAULTS_STRIDE: every so many requests only (1: each of them; the default keeps the test short).
"""

import os
import pathlib
import threading
import time
import unittest

import harness

USERS = ("one", "two", "three")
STRIDE = int(os.environ.get("E2E_FAULTS_STRIDE", "0"))
DEFAULT_STRIDE = 5
RUNS_AGAIN = 2
AT_ONCE = {"exposure": {"ready_delay_ms": 0, "instance_ready_delay_ms": 0}}
FAULTS = {
    "late": {"delay_after_ms": 1500},
    "500": {"status": 500},
    "503-retry-after": {"status": 503, "headers": {"Retry-After": "1"}},
    "429": {"status": 429, "headers": {"Retry-After": "1"}},
    "403": {"status": 403},
    "404": {"status": 404},
    "close-before": {"close": "before"},
    "close-after": {"close": "after"},
    "truncate": {"truncate": 20},
    "html": {"status": 200, "headers": {"Content-Type": "text/html"}, "body": "<html>maintenance</html>"},
}


class Reader(threading.Thread):
    """Reads every published pair in a loop; collects what did not fit together."""

    def __init__(self, agent):
        super().__init__(daemon=True)
        self._directories = [agent.published(name).directory for name in USERS]
        self._done = threading.Event()
        self._seen = {}
        self.torn = []

    def run(self):
        while not self._done.wait(0.002):
            for directory in self._directories:
                self._look(directory)

    def stop(self):
        self._done.set()
        self.join()

    def _look(self, directory):
        """One opened `current`, as a careful reader does it; a pair once judged is not judged again."""
        try:
            folder = os.open(directory / "current", os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return
        try:
            pair = tuple(self._read(folder, name) for name in ("key.pem", "cert.pem", "fullchain.pem"))
        finally:
            os.close(folder)
        if pair not in self._seen:
            self._seen[pair] = self._fits(*pair)
            if not self._seen[pair]:
                self.torn.append((directory.name, pair[1]))

    @staticmethod
    def _read(folder, name):
        try:
            with open(os.open(name, os.O_RDONLY, dir_fd=folder), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    @staticmethod
    def _fits(key, leaf, fullchain):
        try:
            fits = harness.openssl("pkey", "-pubout", stdin=key) == harness.openssl("x509", "-noout", "-pubkey", stdin=leaf)
        except AssertionError:
            return False
        return fits and leaf.endswith(b"-----END CERTIFICATE-----\n") and fullchain.startswith(leaf)


class FaultsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.built("exposure-agent")
        cls.platform = harness.Simulator(AT_ONCE)
        cls.addClassCleanup(cls.platform.stop)

    def history(self, fault=None, nth=1):
        """One history under one fault; the agent, what the reader saw, and the number of requests before the end."""
        self.platform.control("POST", "/reset")
        self.platform.clear_faults()
        self.stranger = self.platform.put_user(tenant="orion-999", common_name="by-hand")
        users = [{"name": name, "consumer_group": name, "rotation": {"retire_after": "0s"}} for name in USERS]
        agent = harness.Agent(self.platform, users=users)
        agent.settings["network"]["timeout"] = "1s"
        agent.write_config()
        reader = Reader(agent)
        reader.start()
        try:
            self.platform.clear_requests()
            if fault:
                self.platform.fault(nth=nth, **fault)
            agent.run("reconcile", "--timeout", "30s")
            self.near = self.platform.put_user(common_name="by-hand-too")
            agent.run("rotate", *(f"logs/{name}" for name in USERS))
            requests = len(self.platform.requests())
            self.finish(agent)
            self.assertEqual([f["fired"] for f in self.platform.faults()], [1] if fault else [])
        finally:
            reader.stop()
        return agent, reader, requests

    def finish(self, agent):
        """Reconcile until it has converged and nothing is retiring any more; a timer would do the same."""
        for _ in range(1 + RUNS_AGAIN):
            done = agent.run("reconcile", "--timeout", "30s")
            if done.returncode == 0 and not self.waiting(agent):
                return
            time.sleep(1)  # reconcile.settle: a late answer may still turn up

    @staticmethod
    def waiting(agent):
        return any(u["retiring"] or u["pending"] for u in agent.status()["users"])

    def check(self, agent, reader):
        self.assertEqual(reader.torn, [])
        status = {u["name"]: u for u in agent.status()["users"]}
        remote = {u["id"]: u for u in self.platform.users()}
        self.assertIn(self.stranger, remote)
        self.assertIn(self.near, remote)
        ours = {i for i in remote if i not in (self.stranger, self.near)}
        self.assertEqual(ours, {u["remote_id"] for u in status.values()}, "one user of ours a slot, and no other")
        self.assertEqual(len(ours), len(USERS))
        for name in USERS:
            published = agent.published(name)
            self.assertEqual(status[name]["state"], "valid")
            self.assertEqual(remote[status[name]["remote_id"]]["status"], "READY")
            self.assertEqual(remote[status[name]["remote_id"]]["name"], status[name]["common_name"])
            self.assertEqual(published.generation, status[name]["generation"])
            self.assertTrue(published.key_matches())

    def test_a_fault_at_every_request(self):
        agent, reader, requests = self.history()
        self.check(agent, reader)
        agent.remove()
        stride = STRIDE or DEFAULT_STRIDE
        for number, (name, fault) in enumerate(FAULTS.items()):
            for nth in range(1 + number % stride, requests + 1, stride):
                with self.subTest(fault=name, nth=nth):
                    agent, reader, _ = self.history(fault, nth)
                    try:
                        self.check(agent, reader)
                    finally:
                        agent.remove()


if __name__ == "__main__":
    unittest.main()
