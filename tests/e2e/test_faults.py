"""A fault at every request: onboarding, rotation and removal of three users succeed in spite of it.

Each case is one history: a fresh tenant, one fault at the n-th request overall, the agent's commands, then reconcile,
repeated as a timer would. A reader checks the published pairs throughout.

E2E_FAULTS_STRIDE: test only every n-th request (1: all of them; the default keeps the test short).
E2E_FAULTS_OFFSET: the first request tested; random if not set, so that different runs test different requests.
"""

import collections
import os
import random
import time
import unittest

import harness
import witness
from witness import LOGIN, OTHER, Fault

USERS = ("one", "two", "three")
ELSEWHERE = "orion-999"  # a tenant that the program has to onboard itself
DEFAULT_STRIDE = 8
LOGIN_LOST = 77
RUNS_AGAIN = 3
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
# The token endpoint issues new tokens that never arrive: after such a refresh the operator must log in again.
SWALLOWED = ("late", "close-after", "truncate")

Case = collections.namedtuple("Case", ("kind", "nth"))


class History:
    """One history, with one fault or none."""

    def __init__(self, platform, case):
        self.requests = 0  # sent until the fault could no longer occur
        self.faults = []
        self.relogins = 0
        self._platform = platform
        self._case = case

    def run(self, tally):
        network = {"timeout": "1s"}
        with witness.scene(self._platform, USERS, tenant=ELSEWHERE, network=network) as (agent, watcher, strangers):
            agent.login()
            self._platform.clear_requests()
            if self._case:
                self._platform.fault(nth=self._case.nth, **FAULTS[self._case.kind])
            agent.run("reconcile", "--timeout", "30s")
            strangers.appear()
            self._platform.expire_tokens()
            agent.run("rotate", *(f"logs/{name}" for name in USERS))
            self.requests = len(self._platform.requests())
            self.finish(agent)
            self.faults += witness.faults_at_any_time(self._platform, agent)
            self.faults += witness.faults_at_the_end(self._platform, agent, USERS)
            self.faults += self.status_faults(agent) + strangers.faults() + watcher.take_faults()
            self.faults += witness.reused(self._platform, allowed=1 if self._case else 0)
            fired = [rule["fired"] for rule in self._platform.faults()]
            # if it polls less often than the history without a fault, it may never send that request
            if self._case and fired != [1] and len(self._platform.requests()) >= self._case.nth:
                self.faults.append(Fault(OTHER, "the fault never came"))
            tally.reads += watcher.reads
        tally.relogins += self.relogins
        tally.add(runs=1, injected=self._case is not None,
                  faults=[Fault(fault.kind, f"{self._case}: {fault.text}") for fault in self.faults])

    def finish(self, agent):
        """Reconciles until it has converged, as a timer would."""
        done = None
        for _ in range(1 + RUNS_AGAIN):
            done = agent.run("reconcile", "--timeout", "30s")
            if done.returncode == LOGIN_LOST:
                self._log_in_again(agent)
            elif done.returncode == 0 and not any(u["retiring"] or u["pending"] for u in agent.status()["users"]):
                return
            time.sleep(1)  # reconcile.settle: the user of a late POST may still appear
        self.faults.append(Fault(OTHER, f"not converged: exit {done.returncode}: {done.stderr}"))

    def _log_in_again(self, agent):
        self.relogins += 1
        hit = [request["operation"] for request in self._platform.requests() if request["rule"]]
        if hit != ["token"] or self._case.kind not in SWALLOWED:
            self.faults.append(Fault(LOGIN, f"after a fault at {hit}"))
        agent.login()

    @staticmethod
    def status_faults(agent):
        return [Fault(OTHER, f"{user['name']}: {user['state']}: {user['reason']}")
                for user in agent.status()["users"] if user["state"] != "valid"]


def cases(requests, stride, offset):
    """Every stride-th request with every fault; each fault starts at a different request."""
    for number, kind in enumerate(FAULTS):
        for nth in range(1 + (offset + number) % stride, requests + 1, stride):
            yield Case(kind, nth)


def inject_all(stride, offset, progress=lambda case, found: None):
    """Plays one history per case; returns the tally."""
    tally = witness.Tally()
    with harness.Simulator(harness.AT_ONCE) as platform:
        unharmed = History(platform, None)
        unharmed.run(tally)
        for case in cases(unharmed.requests, stride, offset):
            history = History(platform, case)
            history.run(tally)
            progress(case, history.faults)
    return tally


class FaultsTest(unittest.TestCase):
    def test_a_fault_at_every_request(self):
        harness.built("exposure-agent")
        stride = int(os.environ.get("E2E_FAULTS_STRIDE", DEFAULT_STRIDE))
        offset = int(os.environ.get("E2E_FAULTS_OFFSET", random.randrange(stride)))
        print(f"E2E_FAULTS_STRIDE={stride} E2E_FAULTS_OFFSET={offset}", flush=True)
        tally = inject_all(stride, offset)
        print(f"{tally.injected} faults injected, {tally.relogins} logins swallowed on the way")
        self.assertEqual(tally.faults, [])


if __name__ == "__main__":
    unittest.main()
