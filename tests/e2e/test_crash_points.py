"""Kills the program at each of its named points (agent/io/crash_point.hpp) in turn, in every step of its life.

The points are not listed here: a life without a kill shows which ones it passes, and how often. Needs a build with
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
ELSEWHERE = "orion-999"  # a tenant that the program has to onboard itself
LOGIN_LOST = 77
NO_POINTS = 77  # ctest: skipped
PATIENCE = 3  # attempts, a settle time apart, until replaced users are gone
OFTEN = 4  # a point passed more often is also killed at in the middle
INTENT, SENT, RECEIVED, KEPT = "token.intent.saved", "http.send.after", "token.answer.received", "disk.commit.after"
CODE_INTENT = "login.code.saved"
LOGIN_ENDS = ("login.answer.saved", "token.answer.saved")


class Passed:
    """The points that one process passed, and when."""

    def __init__(self, log):
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        self.names = [name for name, _ in lines]
        self.times = [int(time) for _, time in lines]

    def places(self):
        """name#N: each passing up to the end of a login or refresh; then the first, and of many one in the middle."""
        last = max((number for number, name in enumerate(self.names) if name in LOGIN_ENDS), default=-1)
        often = collections.Counter(self.names)
        seen = collections.Counter()
        for number, name in enumerate(self.names):
            seen[name] += 1
            middle = often[name] > OFTEN and seen[name] == often[name] // 2
            if number <= last or seen[name] == 1 or middle:
                yield f"{name}#{seen[name]}"

    def in_the_window(self, is_code):
        """Whether the process ended after a single-use secret may have been sent and before the response was on disk.

        A code is never sent twice, so its window opens with the record on disk that it is about to be sent.
        """
        if is_code:
            return KEPT not in self._since(CODE_INTENT)
        return SENT in self._since(INTENT) and KEPT not in self._since(INTENT)

    def _since(self, point):
        return self.names[len(self.names) - self.names[::-1].index(point):] if point in self.names else []

    def microseconds(self, first, last):
        """From the first `first` to the next `last`."""
        start = self.names.index(first)
        return (self.times[self.names.index(last, start)] - self.times[start]) / 1000


class Life:
    """A login, two users, a rotation with a token refresh, further logins, and the removal of a user."""

    def __init__(self, platform, agent, watcher, strangers):
        self.agent = agent
        self.relogins = 0  # caused by kills
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
        time.sleep(2)  # past reconcile.settle: until then, a killed POST delays the removal (exit 1)
        self._names.remove("a")
        self._watcher.let_go("a")
        exposure = self.agent.settings["exposures"][0]
        exposure["users"] = [user for user in exposure["users"] if user["name"] != "a"]
        self.agent.write_config()
        return ("reconcile",)

    def recover(self, step, passed):
        """Recovers as systemd or an operator would: starts it again, and logs in again only if it says so."""
        faults = witness.faults_at_any_time(self._platform, self.agent)
        if step in ("login", "import", "again"):
            if step == "import":  # as provisioning would; the token may be spent already
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
            time.sleep(1)  # reconcile.settle: the user of a killed POST may still appear
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
    """Plays one life, killed at the points {step: name#N}. Returns {step: the points it passed}."""
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
    """One life per point, each of its steps killed at another one. Returns the tally and a life without a kill."""
    tally = witness.Tally()
    unharmed = live(platform, {}, tally)
    places = {step: list(passed.places()) for step, passed in unharmed.items()}
    for number in range(max(map(len, places.values()))):
        at = {step: each[number] for step, each in places.items() if number < len(each)}
        progress(at)
        live(platform, at, tally)
    return tally, unharmed


def has_points():
    """Whether the program was built with crash points."""
    with harness.Simulator(harness.AT_ONCE) as platform, harness.Agent(platform, login=False) as agent:
        log = agent.directory / "passed"
        agent.run("login", "--code", platform.code(), environment={"EXPOSURE_AGENT_CRASH_LOG": str(log)})
        return log.exists()


class CrashPointTest(unittest.TestCase):
    def test_every_point_of_a_life(self):
        with harness.Simulator(harness.AT_ONCE) as platform:
            tally, unharmed = live_through_all(platform)
        print(f"{tally.injected} kills at {len({name for p in unharmed.values() for name in p.names})} points, "
              f"{tally.reads} reads of the published pairs, {tally.relogins} logins repeated")
        self.assertEqual(tally.faults, [])


if __name__ == "__main__":
    if not (harness.BUILD / "exposure-agent").exists() or not has_points():
        print(f"skipped: {harness.BUILD}/exposure-agent has no crash points: build it with -DCRASH_POINTS=ON")
        sys.exit(NO_POINTS)
    unittest.main()
