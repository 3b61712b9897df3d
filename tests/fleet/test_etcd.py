"""One login for many hosts: keepers publish their access tokens to a real etcd cluster, and readers use them.

Two keepers with logins of their own publish to the same key. The readers are real daemons with one certificate each.
One keeper and one etcd node are killed along the way; tokens are valid for 20 seconds. Exits with 77 (skipped) if etcd
is not installed.
"""

import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import etcd
import harness

KEY = "exposure/token"
PAIR = "exposure/logs/siem"
READERS = int(os.environ.get("FLEET_READERS", "20"))
TOKEN_LIFETIME = 20
OBSERVED = 45  # seconds after the kills: two token lifetimes
BACK_OFF = 15  # of a reader whose source returns a refused token
INTERVAL = 3


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.wait(harness.RUN_TIMEOUT)


class SharedLoginTest(unittest.TestCase):
    def setUp(self):
        self.platform = harness.Simulator({
            "oauth": {"access_token_lifetime_s": TOKEN_LIFETIME},
            "exposure": {"ready_delay_ms": 0, "instance_ready_delay_ms": 0},
        })
        self.addCleanup(self.platform.stop)
        self.cluster = etcd.Cluster()
        self.addCleanup(self.cluster.stop)

    def keeper(self, number):
        put = self.cluster.user(f"keeper-{number}", "readwrite", KEY)
        agent = harness.Agent(self.platform, exposures=[], owner=f"keeper-{number}", login=False)
        self.addCleanup(agent.remove)
        del agent.settings["exposures"]
        agent.settings["identity"]["publish"] = {"command": [*put, "put", KEY]}
        agent.write_config()
        agent.login()
        return agent

    def reader(self, number, get):
        agent = harness.Agent(self.platform, users=[f"shipper-{number}"], owner=f"reader-{number}", login=False)
        self.addCleanup(agent.remove)
        agent.settings["identity"] = {"access_token": {"command": [*get, "get", "--print-value-only", KEY]}}
        agent.settings["reconcile"].update(interval=f"{INTERVAL}s")
        agent.write_config()
        return agent

    def run_daemon(self, agent):
        process = agent.start("run")
        self.addCleanup(stop, process)
        return process

    def longest_gap(self, remote_id, since, until):
        """Longest time in seconds without a successful response of the platform to the reader that owns this user."""
        served = [r["at_ms"] for r in self.platform.requests("get_user")
                  if r["status"] == 200 and r["path"].endswith(remote_id)]
        times = [since, *(at for at in served if since < at < until), until]
        return max(later - earlier for earlier, later in zip(times, times[1:])) / 1000

    def test_losing_a_keeper_and_a_node_changes_nothing(self):
        keepers = [self.keeper(1), self.keeper(2)]
        logins = len([r for r in self.platform.requests("token") if r["status"] == 200])
        running = [self.run_daemon(keeper) for keeper in keepers]
        harness.wait_until(lambda: self.cluster.ctl("get", "--print-value-only", KEY).strip())

        get = self.cluster.user("reader", "read", KEY)
        readers = [self.reader(i, get) for i in range(READERS)]
        for reader in readers:
            self.run_daemon(reader)
        harness.wait_until(lambda: all(r.status()["users"][0]["state"] == "valid" for r in readers), pause=1)
        ids = [reader.status()["users"][0]["remote_id"] for reader in readers]

        running[0].kill()
        running[0].wait()
        self.cluster.kill(0)
        since = self.platform.requests()[-1]["at_ms"]
        time.sleep(OBSERVED)
        until = self.platform.requests()[-1]["at_ms"]

        self.assertIsNone(running[1].poll())
        self.assertEqual(keepers[1].status()["login"], "ok")
        grants = {r["details"].get("grant_type") for r in self.platform.requests("token")}
        self.assertEqual(grants, {"refresh_token"}, "the keeper that is left refreshes, and nobody logs in again")
        self.assertGreater(len(self.platform.requests("token")), logins + 2)
        for reader, remote_id in zip(readers, ids):
            with self.subTest(reader=reader.settings["owner"]):
                self.assertLess(self.longest_gap(remote_id, since, until), BACK_OFF + 2 * INTERVAL)
                self.assertEqual(reader.status()["users"][0]["state"], "valid")


class PairForAConsumerElsewhereTest(unittest.TestCase):
    def test_key_and_certificate_arrive_together(self):
        with harness.Simulator() as platform, etcd.Cluster() as cluster:
            put = cluster.user("issuer", "readwrite", PAIR)
            recipe = harness.ROOT / "systemd/examples/fleet/publish-pair-to-etcd"
            user = {
                "name": "siem",
                "consumer_group": "siem",
                "output": {"formats": ["bundle"]},
                "hooks": [{"command": [str(recipe), PAIR, *put]}],
            }
            with harness.Agent(platform, users=[user]) as agent:
                agent.run("reconcile", expect=0)
                first = cluster.ctl("get", "--print-value-only", PAIR)
                bundle = agent.state_dir / "live/logs/siem/current/bundle.pem"
                self.assertEqual(first.strip(), bundle.read_text().strip())
                agent.run("rotate", "logs/siem", expect=0)
                second = cluster.ctl("get", "--print-value-only", PAIR)
                self.assertEqual(second.strip(), bundle.read_text().strip())
                self.assertNotEqual(first, second)


if __name__ == "__main__":
    try:
        etcd.required()
    except etcd.Missing as missing:
        print(f"skipped: {missing}")
        sys.exit(77)  # ctest: SKIP_RETURN_CODE
    unittest.main()
