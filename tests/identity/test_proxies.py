"""A complete onboarding through each real proxy: login, service instance, user READY, published files, rotation."""

import sys
import unittest

import harness
import servers

USERNAME, PASSWORD = "agent", "let:me through%+"
FORMATS = ["pem", "bundle"]


class Fronted:
    """The platform as seen through a proxy, with the interface that harness.Agent needs."""

    def __init__(self, platform, front):
        self.platform = platform
        self.front = front
        self.ca_file = front.ca_file

    def auth_url(self):
        return self.front.auth_url

    def service_url(self, variant):
        return f"{self.front.url}/{harness.SERVICES[variant]}"

    def __getattr__(self, name):
        return getattr(self.platform, name)


class ProxyCase(harness.PlatformCase):
    BEHAVIOUR = {"exposure": {"ready_delay_ms": 500, "instance_ready_delay_ms": 500}}

    def started(self, kind, *arguments, **more):
        try:
            made = kind(*arguments, **more)
        except servers.Unavailable as missing:
            self.skipTest(str(missing))
        self.addCleanup(made.close)
        return made

    def consumer(self, platform, users=("siem",), network=None):
        users = [{"name": name, "consumer_group": name, "output": {"formats": FORMATS}} for name in users]
        return self.agent(*users, platform=platform, login=False, settings={"network": network or {}})

    def onboard(self, agent, users=("siem",)):
        agent.run("login", "--code", self.platform.code(), expect=0)
        agent.run("reconcile", expect=0)
        for name in users:
            self.assertEqual(agent.status(f"logs/{name}")["state"], "valid")
            published = agent.published(name)
            for file in ("key.pem", "cert.pem", "fullchain.pem", "bundle.pem"):
                self.assertTrue(published.read(file), file)
        self.assertEqual(len(self.platform.state()["instances"]), 1)
        self.assertEqual({user["status"] for user in self.platform.users()}, {"READY"})
        self.assertEqual(len(self.platform.users()), len(users))

    def rotate(self, agent):
        before = agent.status("logs/siem")["generation"]
        agent.run("rotate", "--retire-now", "logs/siem", expect=0)
        agent.run("reconcile", expect=0)
        self.assertNotEqual(agent.status("logs/siem")["generation"], before)
        self.assertEqual(len(self.platform.users()), 1)  # a DELETE got through
        self.platform.expire_tokens()
        agent.run("reconcile", expect=0)
        self.assertEqual(agent.json("token")["login"], "ok")


class ReverseProxyTest(ProxyCase):
    def behind(self, kind, **more):
        front = self.started(kind, servers.Upstream(self.platform.port, tls=True), **more)
        return Fronted(self.platform, front)

    def check(self, kind):
        agent = self.consumer(self.behind(kind))
        self.onboard(agent)
        self.rotate(agent)

    def test_nginx(self):
        self.check(servers.Nginx)

    def test_haproxy(self):
        self.check(servers.HAProxy)

    def test_apache(self):
        self.check(servers.Apache)

    def test_caddy(self):
        self.check(servers.Caddy)

    def test_envoy(self):
        self.check(servers.Envoy)

    def test_a_strict_rate_limit(self):
        """One request per second without a burst: slower, but every user gets its certificate."""
        users = ["siem", "vector", "audit"]
        for status in (429, 503):
            with self.subTest(status=status):
                self.platform.control("POST", "/reset")
                fronted = self.behind(servers.Nginx, extra="limit_req_zone $binary_remote_addr zone=all:1m rate=1r/s; "
                                                           f"limit_req zone=all; limit_req_status {status};")
                agent = self.consumer(fronted, users)
                self.assertIn(agent.run("login", "--code", self.platform.code()).returncode, (0, 1))
                with agent.daemon():
                    harness.wait_until(lambda agent=agent: {u["state"] for u in agent.status()["users"]} == {"valid"},
                                       timeout=300, pause=1)


class ForwardProxyTest(ProxyCase):
    def secret(self, text):
        file = self.scratch() / "password"
        harness.Agent.write_secret(file, text)
        return {"file": str(file)}

    def test_squid(self):
        squid = self.started(servers.Squid)
        agent = self.consumer(self.platform, network={"proxy": squid.url})
        self.onboard(agent)
        self.rotate(agent)
        self.assertGreater(squid.tunnels(), 0)

    def test_squid_with_a_password(self):
        squid = self.started(servers.Squid, USERNAME, PASSWORD)
        agent = self.consumer(self.platform, network={
            "proxy": squid.url, "proxy_auth": {"username": USERNAME, "password": self.secret(PASSWORD)}})
        self.onboard(agent)
        self.rotate(agent)
        self.assertGreater(squid.tunnels(), 0)

    def test_squid_refuses(self):
        """The message names the configuration key that is missing or wrong, and never contains the password."""
        squid = self.started(servers.Squid, USERNAME, PASSWORD)
        wrong = {"username": USERNAME, "password": self.secret("not-the-password")}
        for more in ({}, {"proxy_auth": wrong}):
            with self.subTest(more=list(more)):
                agent = self.consumer(self.platform, network={"proxy": squid.url, **more})
                done = agent.run("login", "--code", self.platform.code())
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("407", done.stderr)
                self.assertIn("network.proxy_auth", done.stderr)
                self.assertNotIn("not-the-password", done.stderr)


if __name__ == "__main__":
    outcome = unittest.main(exit=False, verbosity=2).result
    if outcome.testsRun == 0 and outcome.skipped:
        sys.exit(77)  # ctest: SKIP_RETURN_CODE
    sys.exit(not outcome.wasSuccessful())
