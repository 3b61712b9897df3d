"""Kills the program at its named points (agent/io/crash_point.hpp), one after the other, in every step of its life.

The points are not listed here: a life without a kill says which ones it passes, and how often. Needs a build with
-DCRASH_POINTS=ON.
"""

import collections
import signal
import sys
import time
import unittest

import harness
import witness
from witness import LOGIN, OTHER, Fault

NAMES = ["a", "b"]
ELSEWHERE = "orion-999"  # so that ours is onboarded by the program itself
LOGIN_LOST = 77
NO_POINTS = 77  # ctest: skipped
PATIENCE = 3  # looks, a settle time apart, for replaced users to go
OFTEN = 4  # a point that is passed more often than this is a place to die in the middle, too
BEHAVIOUR = {"exposure": {"ready_delay_ms": 0, "instance_ready_delay_ms": 0}}
INTENT, SENT, RECEIVED, KEPT = "token.intent.saved", "http.send.after", "token.answer.received", "disk.commit.after"
CODE_INTENT = "login.code.saved"
LOGIN_ENDS = ("login.answer.saved", "token.answer.saved")


class Passed:
    """The points that one process has passed, with the times."""

    def __init__(self, log):
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        self.names = [name for name, _ in lines]
        self.times = [int(time) for _, time in lines]

    def places(self):
        """name#N: each passing up to the end of a login or a refresh; later the first, and one in the middle of many."""
        last = max((number for number, name in enumerate(self.names) if name in LOGIN_ENDS), default=-1)
        often = collections.Counter(self.names)
        seen = collections.Counter()
        for number, name in enumerate(self.names):
            seen[name] += 1
            middle = often[name] > OFTEN and seen[name] == often[name] // 2
            if number <= last or seen[name] == 1 or middle:
                yield f"{name}#{seen[name]}"

    def in_the_window(self, is_code):
        """The process ended after a single-use secret may have gone out, and before the answer was on disk.

        A code is never sent twice, so that its window opens with the note on disk that it will be sent.
        """
        if is_code:
            return KEPT not in self._since(CODE_INTENT)
        return SENT in self._since(INTENT) and KEPT not in self._since(INTENT)

    def _since(self, point):
        return self.names[len(self.names) - self.names[::-1].index(point):] if point in self.names else []

    def microseconds(self, first, last):
        """From the first passing of `first` to the next of `last`."""
        start = self.names.index(first)
        return (self.times[self.names.index(last, start)] - self.times[start]) / 1000


class Life:
    """A person's login, two users, a rotation with a refresh of the tokens, further logins, and the removal of a user."""

    def __init__(self, platform, agent, watcher, strangers):
        self.agent = agent
        self.relogins = 0  # that a kill has cost
        self._platform = platform
        self._watcher = watcher
        self._strangers = strangers
        self._token_file = agent.directory / "refresh-token"
        self._code = None
        self._names = list(NAMES)
        self.steps = {"login": self.login, "issue": self.issue, "rotate": self.rotate, "import": self.bring,
                      "again": self.login, "remove": self.remove}

    def login(self):
        self._code = self._platform.code()
        return "login", "--code", self._code

    def bring(self):
        self._token_file.touch(mode=0o600)
        self._token_file.write_text(self._platform.refresh_token())
        return "login", "--refresh-token-file", self._token_file

    @staticmethod
    def issue():
        return ("reconcile",)

    def rotate(self):
        self._strangers.appear()
        self._platform.expire_tokens()
        return "rotate", "logs/a", "logs/b"

    def remove(self):
        time.sleep(2)  # past reconcile.settle: before that, a POST that a kill took keeps the removal waiting (exit 1)
        self._names.remove("a")
        self._watcher.let_go("a")
        exposure = self.agent.settings["exposures"][0]
        exposure["users"] = [user for user in exposure["users"] if user["name"] != "a"]
        self.agent.write_config()
        return ("reconcile",)

    def recover(self, step, passed):
        """What systemd or a person would do: start it again, and log in again only when it says so."""
        faults = witness.faults_at_any_time(self._platform, self.agent)
        if step in ("login", "import", "again"):
            if step == "import":  # as whoever provisions us does; the token may be burnt, though
                self.agent.run("login", "--refresh-token-file", self._token_file)
            elif self.agent.status()["login"] != "ok":
                self.agent.run("login", "--code", self._code)
            if self.agent.status()["login"] != "ok":
                faults += self._log_in_again(passed.in_the_window(is_code=step != "import"))
            return faults
        done = self.agent.run("reconcile")
        if done.returncode == LOGIN_LOST:
            faults += self._log_in_again(passed.in_the_window(is_code=False))
            done = self.agent.run("reconcile")
        for _ in range(PATIENCE):
            if done.returncode != 0 or not any(user["retiring"] for user in self.agent.status()["users"]):
                break
            time.sleep(1)  # reconcile.settle: a POST whose answer the kill took may still turn up
            done = self.agent.run("reconcile")
        return faults + ([Fault(OTHER, f"reconcile: exit {done.returncode}: {done.stderr}")] if done.returncode else [])

    def _log_in_again(self, unavoidable):
        self.relogins += 1
        self.agent.run(*self.login(), expect=0)
        return [] if unavoidable else [Fault(LOGIN, "outside the window between sending and keeping")]

    def faults(self, step):
        found = self._watcher.take_faults() + self._strangers.faults()
        if step == "login":
            return found
        found += witness.faults_at_the_end(self._platform, self.agent, self._names)
        for name in self._names:
            run = self.agent.directory / f"hook-{name}"
            if not run.exists() or run.read_text().split()[-1] != self.agent.published(name).generation:
                found.append(Fault(OTHER, f"{name}: no hook has run for the generation in use"))
        if "a" not in self._names and self.agent.published("a").exists():
            found.append(Fault(OTHER, "a: its files are still there"))
        return found


def live(platform, at, tally):
    """One life, killed at these points ({step: name#N}); {step: what it passed} of the steps that were not."""
    passed = {}
    with witness.scene(platform, NAMES, tenant=ELSEWHERE) as (agent, watcher, strangers):
        for user in agent.settings["exposures"][0]["users"]:
            script = f'echo "$EXPOSURE_GENERATION" >>{agent.directory}/hook-{user["name"]}'
            user["hooks"] = [{"command": ["/bin/sh", "-c", script]}]
        agent.write_config()
        life = Life(platform, agent, watcher, strangers)
        kills = 0
        for step, arguments in life.steps.items():
            log = agent.directory / f"passed-{step}"
            environment = {"EXPOSURE_AGENT_CRASH_LOG": str(log), "EXPOSURE_AGENT_CRASH_AT": at.get(step, "")}
            done = agent.run(*arguments(), environment=environment)
            passed[step] = Passed(log)
            faults = []
            if done.returncode == -signal.SIGKILL:
                kills += 1
                faults += life.recover(step, passed[step])
            elif step in at or done.returncode != 0:
                faults.append(Fault(OTHER, f"not killed: exit {done.returncode}: {done.stderr}"))
            faults += life.faults(step)
            tally.add(runs=1, injected=step in at,
                      faults=[Fault(fault.kind, f"{step} killed at {at.get(step)}: {fault.text}") for fault in faults])
        tally.add(faults=witness.reused(platform, allowed=kills))
        tally.reads += watcher.reads
        tally.relogins += life.relogins
    return passed


def live_through_all(platform, progress=lambda at: None):
    """A life for every point, each of its steps killed at another one; the tally, and a life without a kill."""
    tally = witness.Tally()
    unharmed = live(platform, {}, tally)
    places = {step: list(passed.places()) for step, passed in unharmed.items()}
    for number in range(max(map(len, places.values()))):
        at = {step: each[number] for step, each in places.items() if number < len(each)}
        progress(at)
        live(platform, at, tally)
    return tally, unharmed


def has_points():
    """The built program has the points."""
    with harness.Simulator(BEHAVIOUR) as platform, harness.Agent(platform, login=False) as agent:
        log = agent.directory / "passed"
        agent.run("login", "--code", platform.code(), environment={"EXPOSURE_AGENT_CRASH_LOG": str(log)})
        return log.exists()


class CrashPointTest(unittest.TestCase):
    def test_every_point_of_a_life(self):
        with harness.Simulator(BEHAVIOUR) as platform:
            tally, unharmed = live_through_all(platform)
        print(f"{tally.injected} kills at {len({name for p in unharmed.values() for name in p.names})} points, "
              f"{tally.reads} reads of the published pairs, {tally.relogins} logins repeated")
        self.assertEqual(tally.faults, [])


if __name__ == "__main__":
    if not (harness.BUILD / "exposure-agent").exists() or not has_points():
        print(f"skipped: {harness.BUILD}/exposure-agent has no crash points: build it with -DCRASH_POINTS=ON")
        sys.exit(NO_POINTS)
    unittest.main()
