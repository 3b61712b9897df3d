"""Logins, refreshes, externally managed tokens, proxies, and no secrets where they could be read."""

import base64
import hashlib
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest
import urllib.parse

import harness

NAME = "logs/siem"


class Login:
    """A `login` that waits for the user: `url` is the address it printed."""

    def __init__(self, agent, *arguments):
        self.process = subprocess.Popen(
            agent.command("login", *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env=agent.environment())
        self.url = ""
        while not self.url:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"login ended with {self.process.wait()} and printed no address")
            self.url = line.strip() if "https://" in line else ""

    def finish(self, pasted=None):
        """(exit code, output after the address)."""
        said, _ = self.process.communicate(None if pasted is None else pasted + "\n", timeout=harness.RUN_TIMEOUT)
        return self.process.returncode, said


class IdentityCase(harness.PlatformCase):
    def browser(self, url):
        """The address to which the identity provider redirects the browser after the login."""
        parts = urllib.parse.urlsplit(url)
        answer = self.platform.call("GET", f"{parts.path}?{parts.query}")
        self.assertEqual(answer.status, 302, answer.body)
        return answer.headers["Location"]

    def grants(self):
        """The grant types that reached the token endpoint, in order."""
        return [r["details"].get("grant_type") for r in self.platform.requests("token")]

    def refreshes(self):
        return self.grants().count("refresh_token")

    def login_of(self, agent):
        return agent.json("token")["login"]

    def subject_of(self, agent):
        return agent.json("token")["subject"]


class LoginTest(IdentityCase):
    def test_every_way_to_paste(self):
        ways = {
            "the whole address": lambda url: url,
            "in quotation marks": lambda url: f'  "{url}" ',
            "the query": lambda url: url.split("?", 1)[1],
            "the query with its mark": lambda url: "?" + url.split("?", 1)[1],
            "the bare code": lambda url: urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["code"][0],
            "without userstore and state": lambda url: re.sub(r"&.*", "", url),
        }
        for name, pasted in ways.items():
            with self.subTest(way=name):
                agent = self.agent("siem", login=False)
                self.platform.clear_requests()
                self.assertEqual(self.login_of(agent), "required")
                login = Login(agent)
                code, said = login.finish(pasted(self.browser(login.url)))
                self.assertEqual(code, 0, said)
                self.assertEqual(self.grants(), ["authorization_code"])
                self.assertEqual(self.login_of(agent), "ok")
                self.assertEqual(self.subject_of(agent), "svc-exposure")

    def test_what_the_address_asks_for(self):
        login = Login(self.agent("siem", login=False))
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(login.url).query)
        self.assertEqual(query["response_type"], ["code"])
        self.assertEqual(query["client_id"], [harness.CLIENT_ID])
        self.assertEqual(query["redirect_uri"], [harness.REDIRECT_URL])
        self.assertGreaterEqual(len(query["state"][0]), 16)
        code, said = login.finish("")
        self.assertEqual(code, 64)
        self.assertIn("the input is empty", said)
        self.assertEqual(self.grants(), [])

    def test_pkce(self):
        def challenged(*arguments):
            agent = self.agent("siem", login=False)
            self.platform.clear_requests()
            login = Login(agent, *arguments)
            return agent, login, urllib.parse.parse_qs(urllib.parse.urlsplit(login.url).query)

        def verifier():
            return self.platform.requests("token")[-1]["details"]["code_verifier"]

        def fits(query):
            digest = hashlib.sha256(verifier().encode()).digest()
            return base64.urlsafe_b64encode(digest).decode().rstrip("=") == query["code_challenge"][0]

        _, login, query = challenged()
        self.assertEqual(query["code_challenge_method"], ["S256"])
        self.assertEqual(login.finish(self.browser(login.url))[0], 0)
        self.assertGreaterEqual(len(verifier()), 43)
        self.assertTrue(fits(query))

        # a login that was abandoned, and its code passed later
        agent, login, query = challenged()
        login.process.kill()
        login.process.communicate()
        agent.run("login", "--code", self.browser(login.url), expect=0)
        self.assertTrue(fits(query))

        _, login, query = challenged("--no-pkce")
        self.assertNotIn("code_challenge", query)
        self.assertEqual(login.finish(self.browser(login.url))[0], 0)
        self.assertEqual(verifier(), "")

    def test_code_as_an_option(self):
        agent = self.agent("siem", login=False)
        agent.run("login", "--code", self.platform.code(), expect=0)
        agent.run("login", "--code", "-", stdin=self.platform.code() + "\n", expect=0)
        agent.run("reconcile", expect=0)

    def test_no_input(self):
        done = self.agent("siem", login=False).run("--no-input", "login", expect=64)
        self.assertIn("--code", done.stderr)

    def test_a_loopback_address_with_a_port(self):
        port = harness.free_port()
        redirect = f"http://127.0.0.1:{port}"
        self.platform.behave(oauth={"clients": [{
            "id": harness.CLIENT_ID, "secret": harness.CLIENT_SECRET, "redirect_urls": [redirect],
            "refresh_tokens": True}]})
        agent = self.agent("siem", login=False, settings={"identity": {"redirect_url": redirect}})
        login = Login(agent)
        target = urllib.parse.urlsplit(self.browser(login.url))

        def visit(path):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        def listening():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        harness.wait_until(listening)
        # browsers open spare connections and leave them idle
        for _ in range(4):
            self.addCleanup(socket.create_connection(("127.0.0.1", port)).close)
        self.assertEqual(visit("/favicon.ico")[0], 404)
        # another page in the same browser: neither a foreign code nor an error ends the login
        for query in ("code=somebody-elses", "code=somebody-elses&state=wrong", "error=access_denied",
                      "error=access_denied&state=wrong", "state=wrong"):
            self.assertEqual(visit(f"/?{query}")[0], 404)
        status, page = visit(f"{target.path or '/'}?{target.query}")
        self.assertEqual(status, 200)
        self.assertIn("Done", page)
        code, said = login.finish()
        self.assertEqual(code, 0, said)
        self.assertEqual(self.login_of(agent), "ok")

    def test_the_identity_provider_refuses(self):
        self.platform.behave(oauth={"authorize_error": "access_denied",
                                    "authorize_error_description": "the directory says no"})
        login = Login(self.agent("siem", login=False))
        code, said = login.finish(self.browser(login.url))
        self.assertEqual(code, 1)
        self.assertIn("access_denied", said)
        self.assertIn("the directory says no", said)
        self.assertEqual(self.grants(), [])

    def test_the_state_of_another_login(self):
        agent = self.agent("siem", login=False)
        login = Login(agent)
        code, said = login.finish(re.sub(r"state=\w+", "state=0123456789abcdef", self.browser(login.url)))
        self.assertEqual(code, 1)
        self.assertIn("belongs to another login", said)
        self.assertEqual(self.grants(), [])
        self.assertEqual(self.login_of(agent), "required")

    def test_a_code_is_sent_once(self):
        agent = self.agent("siem", login=False)
        code = self.platform.code()
        agent.run("login", "--code", code, expect=0)
        done = agent.run("login", "--code", code, expect=1)
        self.assertIn("works only once", done.stderr)
        self.assertEqual(len(self.grants()), 1)
        agent.run("reconcile", expect=0)

    def test_a_code_that_is_used_or_unknown(self):
        agent = self.agent("siem", login=False)
        code = self.platform.code()
        self.platform.token_request(grant_type="authorization_code", code=code)
        agent.login()
        before = agent.json("token")
        for each in (code, "nobody-made-this"):
            done = agent.run("login", "--code", each, expect=1)
            self.assertIn("expired or was already used", done.stderr)
            self.assertNotIn(each, done.stdout + done.stderr)
        self.assertEqual(agent.json("token"), before)
        agent.run("reconcile", expect=0)

    def test_the_answer_to_a_code_is_lost(self):
        for effect in ({"close": "after"}, {"status": 500, "process": True}, {"status": 200, "body": "<html>"}):
            with self.subTest(effect=effect):
                agent = self.agent("siem", login=False)
                self.platform.clear_requests()
                self.platform.fault(operation="token", **effect)
                done = agent.run("login", "--code", self.platform.code())
                self.assertIn(done.returncode, (1, 69))
                self.assertIn("Run: exposure-agent login", done.stderr)
                self.assertEqual(len(self.platform.requests("token")), 1)

    def test_another_person(self):
        agent = self.agent("siem")
        before = agent.json("token")
        self.assertEqual(before["subject"], "svc-exposure")
        done = agent.run("login", "--code", self.platform.code(person="alice"), expect=1)
        self.assertIn("alice", done.stderr)
        self.assertIn("svc-exposure", done.stderr)
        self.assertIn("--force", done.stderr)
        self.assertEqual(agent.json("token"), before)
        agent.run("login", "--code", self.platform.code(person="alice"), "--force", expect=0)
        self.assertEqual(self.subject_of(agent), "alice")

    def test_a_login_of_another_person(self):
        agent = self.agent("siem")
        token = agent.directory / "token"
        agent.write_secret(token, self.platform.refresh_token(person="alice"))
        said = agent.run("login", "--refresh-token-file", token, expect=1).stderr
        self.assertIn("with a new code or refresh token, run: exposure-agent login --force", said)
        self.assertEqual(agent.status()["login"], "ok")  # the login before goes on

    def test_a_seed_is_imported_once(self):
        agent = self.agent("siem", login=False)
        seed = agent.directory / "seed"
        agent.write_secret(seed, self.platform.refresh_token())
        said = agent.run("login", "--refresh-token-file", seed, expect=0)
        self.assertRegex(said.stdout, "^logged in as [^\n]+\n$")
        self.assertEqual(said.stderr, "")
        agent.run("login", "--refresh-token-file", seed, expect=0)
        self.assertEqual(self.refreshes(), 1)
        agent.run("reconcile", expect=0)
        self.assertEqual(self.refreshes(), 1)
        agent.run("logout", expect=0)
        self.assertEqual(self.login_of(agent), "required")
        done = agent.run("login", "--refresh-token-file", seed, expect=77)
        self.assertIn("works only once", done.stderr)
        self.assertEqual(self.refreshes(), 1)
        self.assertTrue(all(t["presented"] <= 1 for t in self.platform.state()["oauth"]["refresh_tokens"]))

    def test_a_seed_that_is_none(self):
        agent = self.agent("siem", login=False)
        seed = agent.directory / "seed"
        agent.run("login", "--refresh-token-file", seed, expect=64)
        agent.write_secret(seed, "")
        agent.run("login", "--refresh-token-file", seed, expect=64)
        agent.write_secret(seed, "nobody-made-this-either")
        done = agent.run("login", "--refresh-token-file", seed, expect=77)
        self.assertNotIn("nobody-made", done.stdout + done.stderr)
        agent.run("login", "--refresh-token-file", seed, expect=77)

    def test_a_token_file_that_is_a_pipe(self):
        said = self.agent("siem").run("login", "--refresh-token-file", "/dev/stdin", expect=1).stderr
        self.assertIn("is not a regular file", said)
        self.assertNotIn("move it away", said)

    def test_a_login_ends_what_waited_for_it(self):
        """No next attempt in an hour, and no remedy that has been applied already."""
        refused = {"status": 400, "body": {"error": "invalid_grant"}}
        agent = self.agent("siem", login=False)
        agent.run("reconcile", expect=77)
        self.assertTrue(agent.status()["exposures"][0]["next_attempt"])
        agent.login()
        self.assertIsNone(agent.status()["exposures"][0]["next_attempt"])
        said = agent.run("status").stdout
        self.assertNotIn("exposure-agent login", said)
        self.assertNotIn("next retry", said)
        # in the daemon, during a pass
        self.platform.fault(operation="create_user", times=0, status=401, body={})
        self.platform.fault(operation="token", times=0, **refused)
        with agent.daemon():
            harness.wait_until(lambda: agent.status("logs/siem")["next_attempt"])
            self.platform.clear_faults()
            agent.login()
            harness.wait_until(agent.published("siem").exists)
            harness.wait_until(lambda: agent.status("logs/siem")["state"] == "valid")

    def test_without_a_login(self):
        agent = self.agent("siem", login=False)
        for verb in ("reconcile", "plan", "users", "instances"):
            done = agent.run(verb, expect=77)
            self.assertIn("login", done.stderr)
        self.assertEqual(self.platform.requests(), [])
        self.assertEqual(agent.status()["login"], "required")


class RefreshTest(IdentityCase):
    def test_fifty_users_while_the_token_ends(self):
        names = [f"user-{i}" for i in range(50)]
        agent = self.agent(*names)
        self.platform.fault(operation="create_user", times=0, delay_ms=200)
        self.platform.clear_requests()
        work = agent.start("reconcile")
        harness.wait_until(lambda: len(self.platform.requests("create_user")) > 4)
        self.platform.expire_tokens()
        self.assertEqual(work.wait(harness.RUN_TIMEOUT), 0, agent.log())
        self.assertEqual(self.refreshes(), 1)
        made = [r for r in self.platform.requests("create_user") if r["status"] == 201]
        self.assertEqual(len(made), 50)
        self.assertEqual({r["status"] for r in self.platform.requests("create_user")}, {201, 401})
        self.assertEqual(len(self.platform.users()), 50)
        refused = [r for r in self.platform.requests() if r["status"] == 401]
        self.assertGreater(len(refused), 0)
        self.assert_each_repeated_once(refused)
        for name in names:
            self.assertTrue(agent.published(name).key_matches(), name)

    def assert_each_repeated_once(self, refused):
        """The refused requests were repeated once each, with another token that was never refused."""
        old = {r["bearer"] for r in refused}
        self.assertEqual(len(old), 1)
        for request in refused:
            again = [r for r in self.platform.requests(request["operation"])
                     if r["sequence"] > request["sequence"] and r["path"] == request["path"]]
            refusals = [r for r in refused if (r["operation"], r["path"]) == (request["operation"], request["path"])]
            served = [r for r in again if r["status"] in (200, 201, 204) and r["bearer"] not in old]
            self.assertGreaterEqual(len(served), len(refusals), request["path"])

    def test_ten_exposures_at_once(self):
        exposures = [{"name": f"logs-{i}", "variant": "log", "tenant": f"tenant-{i}",
                      "users": [f"user-{n}" for n in range(5)]} for i in range(10)]
        agent = self.agent(exposures=exposures)
        self.platform.fault(operation="list_instances", times=0, delay_ms=100)
        self.platform.expire_tokens()
        self.platform.clear_requests()
        agent.run("reconcile", expect=0)
        self.assertEqual(self.refreshes(), 1)
        self.assertEqual(len(self.platform.users()), 50)
        refused = [r for r in self.platform.requests() if r["status"] == 401]
        self.assertGreater(len(refused), 1)
        self.assert_each_repeated_once(refused)

    def converged(self, **network):
        agent = self.agent("siem", settings={"network": network})
        agent.run("reconcile", expect=0)
        self.platform.expire_tokens()
        self.platform.clear_requests()
        return agent, agent.published("siem").footprint()

    def assert_no_loop(self, effect, codes, words, most):
        """After a refresh that goes wrong in this way: exit code and message, few requests, files unchanged."""
        agent, before = self.converged(timeout="2s")
        self.platform.fault(operation="token", times=0, **effect)
        done = agent.run("reconcile", "--timeout", "20s")
        self.assertIn(done.returncode, codes, done.stderr)
        self.assertRegex(done.stdout + done.stderr, words)
        self.assertLessEqual(len(self.platform.requests("token")), most)
        self.assertGreaterEqual(len(self.platform.requests("token")), 1)
        for _ in range(3):
            agent.run("reconcile", "--timeout", "20s")
        self.assertLessEqual(len(self.platform.requests("token")), most + 3)
        self.assertEqual(agent.published("siem").footprint(), before)
        self.assertTrue(agent.published("siem").key_matches())
        self.platform.clear_faults()
        agent.login()
        agent.run("reconcile", expect=0)
        self.assertEqual(agent.published("siem").footprint(), before)

    def test_a_slow_answer_is_waited_for(self):
        """network.timeout does not limit the wait for the response to a single-use token."""
        agent, _ = self.converged(timeout="2s")
        self.platform.fault(operation="token", times=0, delay_ms=5000)
        agent.run("reconcile", expect=0)
        self.assertEqual(self.refreshes(), 1)

    def test_500(self):
        self.assert_no_loop({"status": 500, "body": {"error": "server_error"}}, (1,), "refresh the access token.*500", 5)

    def test_502_of_a_proxy(self):
        page = "<html><head><title>502 Bad Gateway</title></head></html>"
        self.assert_no_loop({"status": 502, "body": page}, (1,), "502 Bad Gateway", 5)

    def test_html(self):
        self.assert_no_loop({"status": 200, "body": "<html>log in</html>"}, (1,), "sent an invalid response: it is an HTML page", 5)

    def test_it_closes_after_processing(self):
        self.assert_no_loop({"close": "after"}, (69,), "refresh the access token", 5)

    def test_an_outage_is_no_verdict(self):
        """The login survives error pages of whatever is in front of the login server."""
        page = "<html><head><title>Not today</title></head></html>"
        for status in (400, 401, 403, 404, 405, 413, 429, 503):
            with self.subTest(status=status):
                self.platform.reset()
                agent, _ = self.converged()
                self.platform.fault(operation="token", times=0, status=status, body=page)
                done = agent.run("reconcile", "--timeout", "3s", expect=1)
                self.assertIn("refresh the access token", done.stdout + done.stderr)
                state = agent.status()
                self.assertEqual(state["login"], "ok")
                self.assertIn(str(status), state["login_detail"])
                self.assertIn(str(status), agent.run("token", expect=0).stdout)
                agent.run("status", "--check", expect=1)
                self.platform.clear_faults()
                agent.run("reconcile", expect=0)
                self.assertIsNone(agent.status()["login_detail"])

    def test_a_daemon_heals_after_an_outage(self):
        agent = self.agent("siem")
        agent.settings["reconcile"]["interval"] = "2s"
        agent.write_config()
        with agent.daemon():
            harness.wait_until(agent.published("siem").exists)
            self.platform.fault(operation="token", times=0, status=502, body="<html>Bad Gateway")
            self.platform.expire_tokens()
            harness.wait_until(lambda: len(self.platform.requests("token")) >= 4)
            self.platform.clear_faults()
            self.platform.clear_requests()
            harness.wait_until(lambda: [r for r in self.platform.requests("get_user") if r["status"] == 200])
            self.assertEqual(agent.status()["login"], "ok")

    def test_invalid_grant(self):
        effect = {"status": 400, "body": {"error": "invalid_grant", "error_description": "it has ended"}}
        self.assert_no_loop(effect, (77,), "it has ended.*exposure-agent login", 1)

    def test_invalid_client(self):
        effect = {"status": 401, "body": {"error": "invalid_client"}}
        self.assert_no_loop(effect, (77,), "identity.client_secret", 2)

    def test_nobody_listens(self):
        agent, before = self.converged()
        self.platform.halt()
        try:
            agent.run("reconcile", "--timeout", "5s", expect=69)
            self.assertEqual(agent.published("siem").footprint(), before)
        finally:
            self.platform.start()

    def test_an_invalid_grant_is_not_presented_again(self):
        agent, _ = self.converged()
        self.platform.fault(operation="token", times=0, status=400, body={"error": "invalid_grant"})
        for _ in range(3):
            agent.run("reconcile", expect=77)
        self.assertEqual(len(self.platform.requests("token")), 1)
        self.assertEqual(agent.status()["login"], "required")
        agent.run("status", "--check", expect=1)

    def test_a_lost_answer_within_the_grace_of_the_platform(self):
        self.platform.behave(oauth={"refresh_grace_s": 60})
        agent, before = self.converged()
        self.platform.fault(operation="token", close="after")
        agent.run("reconcile", expect=0)
        self.assertEqual(self.refreshes(), 2)
        self.assertEqual(agent.published("siem").footprint(), before)

    def test_a_right_client_secret_repairs_it(self):
        agent, _ = self.converged()
        agent.write_secret(agent.secret_file, "not-the-secret")
        done = agent.run("reconcile", expect=77)
        self.assertIn("identity.client_secret", done.stderr)
        self.assertNotIn("not-the-secret", done.stderr)
        agent.write_secret(agent.secret_file, harness.CLIENT_SECRET)
        agent.run("reconcile", expect=0)

    def test_a_host_that_only_logs_in(self):
        """With nothing else to do, the exit code is the login's; the daemon notices the corrected secret by itself."""
        agent = self.agent("siem")
        agent.settings["exposures"] = []
        agent.settings["identity"]["publish"] = {"command": ["true"]}
        agent.write_config()
        self.assertEqual(agent.run("reconcile").returncode, 0)
        self.platform.behave(oauth={"access_token_lifetime_s": 1})
        agent.login()
        time.sleep(1.5)
        agent.write_secret(agent.secret_file, "not-the-secret")
        self.assertIn("identity.client_secret", agent.run("reconcile", expect=77).stderr)
        with agent.daemon():
            time.sleep(1)
            agent.write_secret(agent.secret_file, harness.CLIENT_SECRET)
            harness.wait_until(lambda: self.login_of(agent) == "ok", pause=0.5)

    def test_refresh_tokens_that_stay(self):
        for mode in ("same", "login-only"):
            with self.subTest(mode=mode):
                self.platform.reset()
                self.platform.behave(oauth={"refresh_token": mode})
                agent, _ = self.converged()
                agent.run("reconcile", expect=0)
                self.assertEqual(self.refreshes(), 1)
                self.assertEqual(self.login_of(agent), "ok")

    def test_no_refresh_token(self):
        self.platform.behave(oauth={"refresh_token": "none"})
        agent = self.agent("siem", login=False)
        agent.run("login", "--code", self.platform.code(), expect=0)
        agent.run("reconcile", expect=0)
        self.assertIn("no refresh token", agent.run("token", expect=0).stdout)
        self.platform.expire_tokens()
        self.platform.clear_requests()
        done = agent.run("reconcile", expect=77)
        self.assertIn("exposure-agent login", done.stderr)
        self.assertEqual(self.platform.requests("token"), [])

    def test_odd_lifetimes(self):
        for value in (0, -1, "absent", "3600", "soon", 1e300, None, 3600.5, []):
            with self.subTest(expires_in=value):
                self.platform.reset()
                agent = self.agent("siem", login=False)
                self.platform.fault(operation="token", times=0)
                self.platform.clear_faults()
                try:
                    self.platform.behave(oauth={"expires_in": value})
                except harness.ControlError:
                    continue  # null restores the default; the platform rejects some of the values
                agent.run("login", "--code", self.platform.code(), expect=0)
                agent.run("reconcile", expect=0)
                agent.run("reconcile", expect=0)
                self.assertEqual(self.grants(), ["authorization_code"])

    def test_the_daemon_alone_refreshes(self):
        agent = self.agent("siem")
        with agent.daemon():
            harness.wait_until(agent.published("siem").exists)
            self.platform.clear_requests()  # first: the daemon may need the next token before `plan` does
            self.platform.expire_tokens()
            agent.run("plan", expect=0)
            agent.run("reconcile", expect=0)
            self.assertEqual(self.refreshes(), 1)


class ExternalTokenTest(IdentityCase):
    """`access_token`: something else refreshes it."""

    def external(self, source):
        agent = self.agent("siem", login=False)
        agent.settings["identity"] = {"access_token": source}
        agent.write_config()
        return agent

    def in_file(self):
        path = self.scratch() / "token"
        self.put(path, self.platform.access_token())
        return path

    @staticmethod
    def put(path, token):
        new = path.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(token + "\n")
        new.replace(path)

    def assert_nothing_asked(self):
        self.assertEqual(self.platform.requests("token"), [])

    def test_from_a_file(self):
        path = self.in_file()
        agent = self.external({"file": str(path)})
        agent.run("reconcile", expect=0)
        self.assertEqual(agent.status()["login"], "external")
        self.assertEqual(agent.json("token")["source"], "external")
        self.platform.expire_tokens()
        agent.run("reconcile", "--timeout", "5s", expect=77)
        self.put(path, self.platform.access_token())
        agent.run("reconcile", expect=0)
        self.assert_nothing_asked()

    def test_a_running_daemon_reads_it_again(self):
        path = self.in_file()
        agent = self.external({"file": str(path)})
        agent.settings["reconcile"]["interval"] = "1s"
        agent.write_config()
        with agent.daemon() as daemon:
            harness.wait_until(agent.published("siem").exists)
            first = harness.wait_until(lambda: {r["bearer"] for r in self.platform.requests("get_user")})
            self.put(path, self.platform.access_token())  # changed while the old one is still valid
            harness.wait_until(lambda: {r["bearer"] for r in self.platform.requests("get_user")} - first)
            self.assertFalse([r for r in self.platform.requests() if r["status"] == 401])
            newest = self.platform.access_token()
            self.platform.revoke_tokens()
            newest = self.platform.access_token()
            self.put(path, newest)
            self.platform.clear_requests()
            daemon.send_signal(signal.SIGHUP)
            harness.wait_until(lambda: [r for r in self.platform.requests("get_user") if r["status"] == 200])
        self.assert_nothing_asked()

    def test_from_the_environment(self):
        agent = self.external({"env": "PLATFORM_TOKEN"})
        token = self.platform.access_token()
        agent.run("reconcile", environment={"PLATFORM_TOKEN": token}, expect=0)
        done = agent.run("reconcile", "--timeout", "5s", expect=77)
        self.assertIn("PLATFORM_TOKEN", done.stderr)
        self.assert_nothing_asked()

    def test_from_a_command(self):
        path = self.in_file()
        agent = self.external({"command": ["cat", str(path)]})
        agent.run("reconcile", expect=0)
        self.platform.expire_tokens()
        self.put(path, self.platform.access_token())
        agent.run("reconcile", expect=0)
        self.assert_nothing_asked()

    def test_a_command_that_fails(self):
        commands = {
            "code 3": (["sh", "-c", "echo the vault is sealed >&2; exit 3"], "failed with exit code 3.*the vault is sealed"),
            "nothing": (["true"], "empty"),
            "too much": (["sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x"], "too much"),
            "two lines": (["printf", "a\\nb\\n"], "more than one line"),
            "not there": (["no-such-program-here"], "PATH"),
        }
        for name, (command, words) in commands.items():
            with self.subTest(command=name):
                agent = self.external({"command": command})
                done = agent.run("reconcile", "--timeout", "5s", expect=77)
                self.assertRegex(done.stderr, words)
        self.assertEqual(self.platform.requests(), [])

    def test_login_says_so(self):
        agent = self.external({"file": str(self.in_file())})
        for arguments in ((), ("--code", "x")):
            done = agent.run("login", *arguments, expect=64)
            self.assertIn("identity.access_token", done.stderr)
        self.assert_nothing_asked()


@unittest.skipUnless(shutil.which("tinyproxy"), "tinyproxy is not installed")
class ProxyTest(IdentityCase):
    """A real HTTP proxy that supports CONNECT."""

    def setUp(self):
        super().setUp()
        self.directory = self.scratch()
        self.port = harness.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = self.directory / "log"

    def start(self, *lines):
        config = self.directory / "tinyproxy.conf"
        config.write_text("\n".join([f"Port {self.port}", "Listen 127.0.0.1", "Timeout 60", "LogLevel Connect",
                                     f'LogFile "{self.log}"', "MaxClients 50", *lines]) + "\n")
        process = subprocess.Popen(["tinyproxy", "-d", "-c", config], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)

        def stop():
            process.kill()
            process.wait()

        self.addCleanup(stop)

        def listening():
            self.assertIsNone(process.poll())
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        harness.wait_until(listening)

    def tunnels(self):
        return len(re.findall(r"CONNECT 127\.0\.0\.1:", self.log.read_text())) if self.log.exists() else 0

    def work(self, agent, expect=0, **environment):
        seed = agent.directory / "seed"
        agent.write_secret(seed, self.platform.refresh_token())
        login = agent.run("login", "--refresh-token-file", seed, environment=environment)
        if login.returncode:
            self.assertEqual(login.returncode, expect, login.stderr)
            return login
        return agent.run("reconcile", environment=environment, expect=expect)

    def test_through_the_proxy(self):
        self.start()
        self.work(self.agent("siem", login=False), HTTPS_PROXY=self.url)
        self.assertGreater(self.tunnels(), 0)
        self.assertIn(f"127.0.0.1:{self.platform.port}", self.log.read_text())
        before = self.tunnels()
        self.work(self.agent("siem", login=False), https_proxy=self.url)
        self.assertGreater(self.tunnels(), before)
        before = self.tunnels()
        self.work(self.agent("siem", login=False, settings={"network": {"proxy": self.url}}))
        self.assertGreater(self.tunnels(), before)

    def test_no_proxy(self):
        self.start()
        for value in ("127.0.0.1", "127.0.0.0/8", "*", f"example.com, 127.0.0.1:{self.platform.port}"):
            with self.subTest(no_proxy=value):
                self.work(self.agent("siem", login=False), HTTPS_PROXY=self.url, NO_PROXY=value)
                self.assertEqual(self.tunnels(), 0)
        self.work(self.agent("siem", login=False), HTTPS_PROXY=self.url, NO_PROXY="10.0.0.0/8,example.com,127.0.0.1:1")
        self.assertGreater(self.tunnels(), 0)

    def test_a_password(self):
        self.start("BasicAuth person let-me-through")
        url = f"http://person:let-me-through@127.0.0.1:{self.port}"
        self.work(self.agent("siem", login=False), HTTPS_PROXY=url)
        done = self.work(self.agent("siem", login=False), expect=69, HTTPS_PROXY=url.replace("through", "in"))
        self.assertIn("proxy", done.stderr)
        self.assertNotIn("let-me", done.stderr)

    def test_a_proxy_that_refuses(self):
        self.start("ConnectPort 1")
        done = self.work(self.agent("siem", login=False), expect=69, HTTPS_PROXY=self.url)
        self.assertIn("403", done.stderr)
        self.assertIn("proxy", done.stderr)

    def test_a_proxy_that_is_not_there(self):
        done = self.work(self.agent("siem", login=False), expect=69, HTTPS_PROXY=self.url)
        self.assertIn("proxy", done.stderr)


class SecretTest(IdentityCase):
    """No secret appears in any output, argument list or environment."""

    def token_texts(self, agent):
        """Every access and refresh token that the agent holds."""
        found = set()

        def walk(value, key=""):
            if isinstance(value, dict):
                for name, inner in value.items():
                    walk(inner, name)
            elif isinstance(value, list):
                for inner in value:
                    walk(inner, key)
            elif isinstance(value, str) and key in ("access_token", "refresh_token") and value:
                found.add(value)

        if agent.stored_tokens():
            walk(json.loads(agent.stored_tokens()))
        return found

    def key_lines(self, agent):
        text = agent.published("siem").read("key.pem")
        return {line for line in text.splitlines() if len(line) > 20 and not line.startswith("-")}

    def test_nowhere(self):
        directory = self.scratch()
        seen = directory / "seen"
        hook = harness.write_program(
            directory / "hook", f"cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ >>{seen} 2>/dev/null\nexit 0")
        password = directory / "password"
        password.touch(mode=0o600)
        password.write_text("keystore-password-7\n")
        agent = self.agent({
            "name": "siem", "consumer_group": "siem", "hooks": [{"command": [str(hook)]}],
            "output": {"formats": ["pem", "bundle", "pkcs12"], "password": {"file": str(password)}}}, login=False)
        seed, code = self.platform.refresh_token(), self.platform.code()
        seed_file = agent.directory / "seed"
        agent.write_secret(seed_file, seed)
        secrets = {harness.CLIENT_SECRET, "keystore-password-7", seed, code,
                   base64.b64encode(f"{harness.CLIENT_ID}:{harness.CLIENT_SECRET}".encode()).decode()}
        trace = directory / "trace"
        strace = [] if not shutil.which("strace") else [
            "strace", "-f", "-y", "-v", "-s", "100000", "-o", trace, "--output-append-mode",
            "-e", "trace=execve,write,writev,pwrite64,sendmsg,sendto"]
        no_leak_check = {"ASAN_OPTIONS": "detect_leaks=0"}  # LeakSanitizer does not work under another tracer
        said = []

        def run(*arguments, stdin=""):
            command = [*strace, *agent.command("--log-level", "debug", *arguments)]
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False,
                                  timeout=harness.RUN_TIMEOUT, env={**agent.environment(), **no_leak_check})
            said.append(done.stdout + done.stderr)
            secrets.update(self.token_texts(agent))
            return done.returncode

        self.assertEqual(run("login", "--refresh-token-file", seed_file), 0)
        self.assertEqual(run("login", "--code", "-", stdin=code + "\n"), 0)
        self.assertEqual(run("reconcile"), 0)
        secrets.update(self.key_lines(agent))
        self.platform.expire_tokens()
        self.assertEqual(run("rotate", "logs/siem"), 0)
        secrets.update(self.key_lines(agent))
        for verb in ("plan", "status", "token", "users", "instances", "doctor"):
            run(verb)
        self.platform.expire_tokens()
        self.platform.fault(operation="token", times=0, status=400, body={"error": "invalid_grant"})
        run("reconcile", "--timeout", "3s")
        run("login", "--code", "-", stdin=code + "\n")
        run("logout")

        self.assertGreaterEqual(len(secrets), 10)
        self.assertIn(b"EXPOSURE_USER=siem", seen.read_bytes())
        for secret in secrets:
            self.assertNotIn(secret, "".join(said))
            self.assertNotIn(secret.encode(), seen.read_bytes())
        if not strace:
            self.skipTest("strace is not installed: only output and /proc were searched")
        allowed = (str(agent.state_dir / "private"), str(agent.state_dir / "live"))
        lines = [line for line in trace.read_text(errors="replace").splitlines()
                 if not any(f"<{place}" in line for place in allowed)]
        self.assertTrue(any("execve" in line and str(hook) in line for line in lines))
        for line in lines:
            for secret in secrets:
                self.assertNotIn(secret, line)


if __name__ == "__main__":
    unittest.main()
