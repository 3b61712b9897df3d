"""The load of one host of a fleet on the platform (contract sections 9 and 10): quiet passes, strict rate limits."""

import contextlib
import http.client
import http.server
import json
import subprocess
import sys
import threading
import time
import unittest

import harness

LISTS = {"list_instances", "list_users"}
CROWD = 100_000


class Crowd(http.server.ThreadingHTTPServer):
    """A proxy to the platform: counts bytes, and adds users of other owners to the list of users."""

    daemon_threads = True

    def __init__(self, platform):
        super().__init__(("127.0.0.1", 0), CrowdHandler)
        self.platform = platform
        self.bytes = 0
        self.clock_offset_s = 0
        self.others = b""
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    @property
    def base_url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/{harness.SERVICES['log']}"

    def add(self, count):
        """Adds this many users, in the platform's format."""
        users = (
            {
                "id": f"0f0f0f0f-0000-0000-0000-{number:012}",
                "name": f"logs-{harness.TENANT}-other-{number}",
                "status": "READY",
                "contact": {"email": "team@example.com"},
                "consumerGroup": f"group-{number}",
                "createdBy": "alice",
                "creationDate": "2026-01-01T00:00:00.000Z",
                "expirationDate": "2027-01-01T00:00:00.000Z",
                "description": f"[exposure-agent owner=other-{number} user=logs/siem key={number:016x}]",
            }
            for number in range(count)
        )
        self.others = b"".join(json.dumps(user).encode() + b"," for user in users)

    def stop(self):
        self.shutdown()
        self.server_close()
        self.thread.join()


class CrowdHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pass_on(self):
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
        with contextlib.closing(self.server.platform.connect()) as upstream:
            upstream.request(self.command, self.path, sent or None, headers)
            answer = upstream.getresponse()
            body = answer.read()
        if self.command == "GET" and self.path.endswith("/users") and answer.status == 200:
            start = body.index(b"[") + 1
            others = self.server.others
            body = body[:start] + (others[:-1] if body[start:start + 1] == b"]" else others) + body[start:]
        self.server.bytes += len(sent) + len(body) + sum(len(k) + len(v) for k, v in headers.items())
        self.send_response(answer.status)
        for name in ("Content-Type", "Location"):
            if answer.headers[name]:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = pass_on

    def date_time_string(self, timestamp=None):
        return super().date_time_string((timestamp or time.time()) + self.server.clock_offset_s)

    def log_message(self, *_):
        pass


# AddressSanitizer keeps freed memory: memory figures mean nothing there
CACHE = harness.BUILD / "CMakeCache.txt"
SANITIZED = CACHE.exists() and "SANITIZE:BOOL=ON" in CACHE.read_text()


class FleetCase(harness.PlatformCase):
    def pass_of(self, agent):
        """The operations of one pass, sorted."""
        self.platform.clear_requests()
        agent.run("reconcile", expect=0)
        return sorted(set(self.platform.operations()) - {"token"})

    def settle(self, agent):
        """Reconciles until the POSTs have settled and the list is no longer read."""
        harness.settle(agent)
        self.assertFalse(LISTS & set(self.pass_of(agent)))


# Runs a command and prints its peak RSS in KiB. A process counts the memory of its parent before exec, too: this parent
# is smaller than the program, and the test is not.
PEAK = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(pid, 0)
print(used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


class QuietPassTest(FleetCase):
    def measured_pass(self, agent, crowd):
        """Number of requests, bytes, and peak RSS in KiB."""
        self.platform.clear_requests()
        crowd.bytes = 0
        done = subprocess.run([sys.executable, "-I", "-S", "-c", PEAK, *agent.command("reconcile")], capture_output=True,
                              text=True, env=agent.environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return len(self.platform.requests()), crowd.bytes, int(done.stdout.splitlines()[-1])

    def test_it_costs_the_same_among_two_and_among_100000_users(self):
        crowd = Crowd(self.platform)
        self.addCleanup(crowd.stop)
        agent = self.agent("siem", "web")
        agent.settings["exposures"][0]["base_url"] = crowd.base_url
        agent.write_config()
        self.settle(agent)
        alone = self.measured_pass(agent, crowd)
        crowd.add(CROWD)
        among_many = self.measured_pass(agent, crowd)
        self.assertEqual(among_many[0], alone[0], self.platform.operations())
        self.assertAlmostEqual(among_many[1], alone[1], delta=alone[1] / 10)
        if not SANITIZED:
            self.assertAlmostEqual(among_many[2], alone[2], delta=alone[2] / 10)
        # the daily list is parsed as a stream
        agent.list_again()
        listed = self.measured_pass(agent, crowd)
        self.assertGreater(listed[1], 30_000_000)
        if not SANITIZED:
            self.assertLess(listed[2] - alone[2], 24 * 1024)
        self.assertEqual(self.measured_pass(agent, crowd)[0], alone[0])

    def test_a_user_that_is_missing_by_id_but_listed_is_left_alone(self):
        agent = self.agent("siem")
        self.settle(agent)
        before = agent.status("logs/siem")
        self.platform.clear_requests()
        self.platform.fault(operation="get_user", status=404, times=0)
        self.addCleanup(self.platform.clear_faults)
        done = agent.run("reconcile", expect=0)
        self.assertIn("but answers 404 when it is read; nothing was changed", done.stderr)
        self.assertEqual(self.platform.requests("create_user"), [])
        self.assertEqual(agent.status("logs/siem")["generation"], before["generation"])

    def test_a_user_that_is_gone_is_replaced_in_the_same_pass(self):
        agent = self.agent("siem")
        self.settle(agent)
        before = agent.status("logs/siem")["generation"]
        self.platform.delete_users()
        self.assertIn("list_users", self.pass_of(agent))
        self.assertNotEqual(agent.status("logs/siem")["generation"], before)

    def test_users_that_vanish_at_once_are_an_incident(self):
        agent = self.agent("siem", "web")
        self.settle(agent)
        self.platform.delete_users()
        self.platform.clear_requests()
        agent.run("reconcile", expect=1)
        self.assertEqual(self.platform.requests("create_user"), [])

    def test_an_instance_that_vanishes_is_an_incident(self):
        agent = self.agent("siem")
        self.settle(agent)
        self.platform.delete_instances()
        self.platform.clear_requests()
        agent.run("reconcile", expect=1)
        self.assertEqual(self.platform.requests("create_instance"), [])


class RateLimitTest(FleetCase):
    def test_three_users_come_up_under_a_strict_limit(self):
        agent = self.agent("one", "two", "three")
        self.platform.behave(requests_per_s=1)
        agent.run("reconcile", "--timeout", "120s", expect=0, timeout=150)
        for name in ("one", "two", "three"):
            self.assertTrue(agent.published(name).key_matches())
        # paced, without hammering
        refused = [r for r in self.platform.requests() if r["status"] == 429]
        self.assertLess(len(refused), len(self.platform.requests()) / 3)

    def test_the_daemon_heals_under_a_strict_limit(self):
        agent = self.agent("one", "two", "three")
        self.platform.behave(requests_per_s=1, retry_after_s=2)
        with agent.daemon():
            harness.wait_until(
                lambda: all(agent.published(name).exists() for name in ("one", "two", "three")), 120, 0.5
            )


class ClockTest(FleetCase):
    def test_a_wrong_clock_of_one_platform_stops_its_own_exposure_alone(self):
        far = Crowd(self.platform)
        self.addCleanup(far.stop)
        far.clock_offset_s = 3600
        agent = self.agent(exposures=[
            {"name": "logs", "users": ["siem"]},
            {"name": "far", "base_url": far.base_url, "users": ["web"]},
        ])
        agent.run("reconcile", expect=1)
        self.assertEqual(agent.status("logs/siem")["state"], "valid")
        self.assertEqual(agent.status("far/web")["reason"], "clock_wrong")


if __name__ == "__main__":
    unittest.main()
