"""Keeps the broker's ACLs in step with the platform's users, as a real provider does.

A user that is READY at the simulator may, `delay` seconds later, read the topic of its exposure in its consumer group;
a deleted user may not.
"""

import threading
import time

import harness

POLL = 0.1


class AclFollower:
    """Runs a thread of its own between start and stop."""

    def __init__(self, simulator, broker, delay=0.0):
        self.delay = delay
        self.refuse = lambda user: False  # users for which this returns true are never granted access
        self.granted = {}  # common name -> (topic, group)
        self.error = None
        self._simulator = simulator
        self._broker = broker
        self._seen = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.wait(POLL):
            try:
                self._follow(self._simulator.users())
            except Exception as failure:  # checked by the tests: a dead follower would look like a strict broker
                self.error = failure

    def _follow(self, users):
        ready = {user["common_name"]: user for user in users if user["certificate_pem"]}
        for name in [name for name in self.granted if name not in ready]:
            self._broker.command("withdraw", name)
            del self.granted[name]
        for name, user in ready.items():
            since = self._seen.setdefault(name, time.monotonic())
            if name in self.granted or self.refuse(user) or time.monotonic() - since < self.delay:
                continue
            right = (f"{harness.NAME_PREFIXES[user['variant']]}-{user['tenant']}", user["consumer_group"])
            self._broker.command("grant", name, *right)
            self.granted[name] = right
