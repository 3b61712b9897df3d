"""Stops the real daemon with SIGTERM at random moments of startup, passes, reloads, commands and token refreshes.

    python3 tests/e2e/random_stops.py [--stops 1000 | --minutes M] [--wild] [--seed N]

Each run starts `run`, does a few random things to it (commands, edits, SIGHUP, expired tokens), and sends SIGTERM at a
random moment. The daemon must exit on its own within 5 s plus a refresh in flight; no key or login may be lost, and
every few runs everything must converge. With --wild the platform also breaks requests, an exposure comes and goes and
changes its name, tenant, address, users and hooks, and half of the daemons live for seconds: for builds with a
sanitizer (cmake -DSANITIZE=ON or -DTHREAD_SANITIZE=ON), whose reports are searched for in the log.
Exits with 1 if anything was wrong; the seed repeats it, as far as moments can be repeated.
"""

import argparse
import concurrent.futures
import random
import re
import signal
import subprocess
import sys
import time

import harness
import witness
from witness import LOGIN, OTHER, Fault

NAMES = ["one", "two", "three"]
BEHAVIOUR = {"exposure": {"ready_delay_ms": 50, "instance_ready_delay_ms": 50}}
STOP_LIMIT = 5.0
REFRESH = 2.0  # the platform's longest token delay, and the wait before the second of two attempts
KILL_AFTER = 60.0  # a stop that takes longer never ends
RUNS_BETWEEN_LOOKS = 20
VERB_LIMIT = 120.0
LIFE = 0.8  # maximum lifetime of a daemon; it starts in less
LONG_LIFE = 6.0
BUSY = 75  # a command took the lock before the daemon did
OTHER_TENANT = "orion-456"
MANY = {"max_creates_per_user": 1000, "max_deletes": 1000, "settle": "1s"}
BROKEN = [
    {"status": 500}, {"status": 429, "headers": {"Retry-After": "1"}}, {"status": 403}, {"close": "before"},
    {"close": "after"}, {"truncate": 20}, {"delay_ms": 500}, {"delay_after_ms": 500},
]
OF_THE_API = ["list_instances", "get_instance", "list_users", "create_user", "get_user", "delete_user"]
REPORT = re.compile(r"(ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:|failed with an exception).*")


class Life:
    """One agent and one platform through many starts and stops."""

    def __init__(self, platform, agent, dice, wild):
        self.platform = platform
        self.agent = agent
        self.dice = dice
        self.wild = wild
        self.longest = 0.0
        self._verbs = concurrent.futures.ThreadPoolExecutor(8)
        self._running = []
        self._edits = 0
        self._log_read = 0

    # ---- events during the life of a daemon

    def verb(self, *arguments):
        self._running.append(self._verbs.submit(self.agent.run, *arguments, timeout=VERB_LIMIT))

    def a_verb(self):
        name = f"logs/{self.dice.choice(NAMES)}"
        self.verb(*self.dice.choice([("reconcile", "--timeout", "20s"), ("reconcile", "--timeout", "20s", name), ("rotate", name),
                                     ("deploy",), ("rollback", name), ("users",), ("status",), ("token",)]))

    def an_edit(self):
        self._edits += 1
        settings = self.agent.settings
        settings["metrics"] = {"listen": f"unix:{self.agent.directory}/m{self._edits % 3}.sock"}
        settings["reconcile"]["interval"] = f"{self.dice.randint(1, 30)}m"
        if self.wild and self.dice.random() < 0.7:
            self.an_edit_of_the_guest()
        self.agent.write_config()

    def an_edit_of_the_guest(self):
        """Adds or removes an exposure, or changes its name or address."""
        exposures = self.agent.settings["exposures"]
        if len(exposures) == 1:
            exposures.append(self.agent.exposure("health", [
                {"name": "guest", "consumer_group": "g", "rotation": {"retire_after": "0s"},
                 "hooks": [{"command": ["/bin/sleep", "0.2"]}]}]))
            return
        guest = exposures[1]
        what = self.dice.choice(["removal", "name", "user", "user", "tenant", "base_url", "hooks"])
        if what == "removal":
            exposures.pop()
        elif what == "name":
            guest["name"] = self.dice.choice(["health", "ward"])
        elif what == "user":
            guest["users"][0]["name"] = self.dice.choice(["guest", "visitor"])
        elif what == "tenant":
            guest["tenant"] = self.dice.choice([harness.TENANT, OTHER_TENANT])
        elif what == "base_url":
            before, after = self.dice.choice([("127.0.0.1", "localhost"), ("localhost", "127.0.0.1")])
            guest["base_url"] = guest["base_url"].replace(before, after)
        else:
            guest["users"][0]["hooks"] = [{"command": self.dice.choice([["/bin/sleep", "0.2"], ["/bin/false"]])}]

    def a_mistake(self):
        good = self.agent.config_file.read_text()
        self.agent.config_file.write_text(good[:self.dice.randrange(len(good))])
        time.sleep(self.dice.uniform(0, 0.3))
        self.agent.write_config()

    def an_end_of_tokens(self):
        self.platform.fault(operation="token", delay_ms=self.dice.randint(0, 400))
        self.platform.expire_tokens()
        self.verb("users")

    def a_fault(self):
        self.platform.fault(operation=self.dice.choice(OF_THE_API), **self.dice.choice(BROKEN))

    def something(self, daemon, started):
        what = [self.a_verb, self.a_verb, self.an_edit, self.an_end_of_tokens]
        if started:  # earlier, it might not have read the file or installed its SIGHUP handler
            what += [self.a_mistake, lambda: daemon.send_signal(signal.SIGHUP)]
        if self.wild:
            what += [self.a_fault, self.a_fault]
        self.dice.choice(what)()

    # ---- one start and one stop

    def run(self):
        """Returns the faults found at its exit."""
        faults = []
        starts = self.starts()
        daemon = self.agent.start("run")
        life = LONG_LIFE if self.wild and self.dice.random() < 0.5 else LIFE
        end = time.monotonic() + self.dice.uniform(0, life)
        while time.monotonic() < end and daemon.poll() is None:
            if self.dice.random() < 0.4:
                self.something(daemon, self.starts() > starts)
            time.sleep(max(0, min(self.dice.uniform(0, 0.3), end - time.monotonic())))
        if daemon.poll() not in (None, BUSY):
            faults.append(Fault(OTHER, f"it ended by itself with {daemon.returncode}: {self.last_words()}"))
        began = time.monotonic()
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(KILL_AFTER)
        except subprocess.TimeoutExpired:
            faults.append(Fault(OTHER, f"the stop never ended: {self.last_words()}"))
            daemon.kill()
            daemon.wait()
        took = time.monotonic() - began
        self.longest = max(self.longest, took)
        if took > STOP_LIMIT + REFRESH:
            faults.append(Fault(OTHER, f"the stop took {took:.1f} s: {self.last_words()}"))
        if daemon.returncode not in (0, BUSY, -signal.SIGTERM):
            faults.append(Fault(OTHER, f"exit {daemon.returncode}: {self.last_words()}"))
        faults += [Fault(OTHER, f"{verb.exception()}") for verb in self._running if verb.exception()]
        self._running.clear()
        faults += witness.faults_at_any_time(self.platform, self.agent)
        if self.agent.status()["login"] != "ok":
            faults.append(Fault(LOGIN, f"{self.agent.status()['login_detail']}"))
        return faults + self.reports()

    def log(self):
        return (self.agent.directory / "agent.log").read_text(errors="replace")

    def starts(self):
        log = self.agent.directory / "agent.log"
        return log.read_text(errors="replace").count(" info: exposure-agent ") if log.exists() else 0

    def last_words(self):
        return "\n".join(self.log().splitlines()[-8:])

    def reports(self):
        """Reports of bugs by a sanitizer or by the program itself."""
        with open(self.agent.directory / "agent.log", "rb") as log:
            log.seek(self._log_read)
            text = log.read().decode(errors="replace")
            self._log_read = log.tell()
        found = REPORT.search(text)
        return [Fault(OTHER, text[found.start():found.start() + 6000])] if found else []

    def come_right(self):
        """Returns what is still wrong once it has been left alone."""
        self.platform.clear_faults()
        del self.agent.settings["exposures"][1:]
        self.agent.write_config()
        for _ in range(5):
            ended = self.agent.run("reconcile", timeout=VERB_LIMIT)
            if ended.returncode == 0 and len(self.ours()) == len(NAMES):
                break
            time.sleep(0.5)
        faults = [] if ended.returncode == 0 else [Fault(OTHER, f"reconcile: exit {ended.returncode}: {ended.stderr}")]
        return faults + witness.faults_at_the_end(self.platform, self.agent, NAMES)

    def ours(self):
        return [user for user in self.platform.users() if witness.MARK in user["description"]]


def stop(enough, seed, wild, progress):
    """Returns the tally of stops until there are enough, and the longest stop in seconds."""
    dice = random.Random(seed)
    tally = witness.Tally()
    with harness.Simulator(BEHAVIOUR) as platform, witness.scene(platform, NAMES) as (agent, watcher, strangers):
        agent.settings["reconcile"] = dict(MANY)
        agent.write_config()
        agent.login()
        life = Life(platform, agent, dice, wild)
        while not enough(tally.runs):
            found = life.run()
            if tally.runs % RUNS_BETWEEN_LOOKS == RUNS_BETWEEN_LOOKS - 1:
                found += life.come_right()
            found += strangers.faults() + watcher.take_faults()
            tally.add(runs=1, injected=1, faults=found)
            progress(tally, found)
        tally.add(faults=life.come_right())
        tally.reads = watcher.reads
    return tally, life.longest


def show(tally, found):
    for fault in found:
        print(f"run {tally.runs}: {fault.kind}: {fault.text}", file=sys.stderr)
    print(f"\r{tally.runs} stops, {len(tally.faults)} faults ", end="", file=sys.stderr, flush=True)


def main():
    options = argparse.ArgumentParser(description="Stops the real daemon at random moments.")
    options.add_argument("--stops", type=int, default=1000)
    options.add_argument("--minutes", type=float, help="for so long, instead of a number of stops")
    options.add_argument("--wild", action="store_true", help="with faults, and exposures that come and go")
    options.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    chosen = options.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    end = time.monotonic() + (chosen.minutes or 0) * 60
    enough = (lambda _: time.monotonic() > end) if chosen.minutes else (lambda runs: runs >= chosen.stops)
    tally, longest = stop(enough, chosen.seed, chosen.wild, show)
    print(f"\n{tally.runs} stops, the longest {longest:.1f} s, {tally.reads} reads of the published pairs, "
          f"{len(tally.faults)} faults")
    for fault in tally.faults:
        print(f"{fault.kind}: {fault.text.splitlines()[0]}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
