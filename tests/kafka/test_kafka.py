"""From the platform to the consumer, with a real Kafka broker.

The bundled platform signs; the broker trusts its CA and grants what the platform's users may read; the agent verifies,
switches, restarts a consumer and retires. Needs Java, Maven, openssl and kcat; exits with 77 (skipped) if one is
missing.
"""

import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import acl_follower  # noqa: E402
import broker as kafka  # noqa: E402
import harness  # noqa: E402

KEYS = {
    "rsa-3072": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072"),
    "ecdsa-p256": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "ecdsa-p384": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"),
}
MESSAGES = 10_000
PROBE_LIMIT_MS = 8000
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


class Stage:
    """One platform and one broker shared by all tests; each test uses a tenant, and so a topic, of its own."""

    def __init__(self):
        kafka.libraries()
        if not shutil.which("kcat"):
            raise kafka.Unavailable("kcat is not installed")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="kafka-"))
        self.platform = harness.Simulator(directory=self.directory)
        self.authority = kafka.Authority(self.directory / "ca", "test-ca")  # not the platform's: for the probe alone
        trusted = self.directory / "client-ca.pem"
        trusted.write_text(self.platform.issuer_ca_file.read_text() + self.authority.certificate.read_text())
        self.broker = kafka.Broker(trusted, self.directory / "broker")
        self.follower = acl_follower.AclFollower(self.platform, self.broker)

    def stop(self):
        self.follower.stop()
        self.broker.stop()
        self.platform.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


stage = None


def setUpModule():
    global stage
    try:
        stage = Stage()
    except kafka.Unavailable as reason:
        raise unittest.SkipTest(str(reason)) from reason


def tearDownModule():
    if stage is not None:
        stage.stop()


def probe(key, certificate, topic, group, broker=None, ca_file=None, limit_ms=PROBE_LIMIT_MS):
    """Returns the verdict and the evidence of exposure-agent-probe."""
    request = {
        "broker": broker or stage.broker.address,
        "ca_file": str(ca_file or stage.broker.ca_file),
        "key_pem": pathlib.Path(key).read_text(),
        "certificate_pem": pathlib.Path(certificate).read_text(),
        "topic": topic,
        "group": group,
        "timeout_ms": limit_ms,
    }
    done = subprocess.run([harness.built("exposure-agent-probe")], input=json.dumps(request), capture_output=True,
                          text=True, check=True, timeout=PROBE_LIMIT_MS / 1000 + 10)
    answer = json.loads(done.stdout)
    return answer["verdict"], answer["evidence"]


class ProbeTest(unittest.TestCase):
    """The probe alone, with certificates of the test CA."""

    @classmethod
    def setUpClass(cls):
        cls.topic = "logs-probe"
        stage.broker.command("topic", cls.topic)
        stage.broker.command("committed", "siem", cls.topic)  # a broker's first group waits for the offsets topic
        cls.good = stage.authority.issue("probe-good")
        stage.broker.command("grant", "probe-good", cls.topic, "siem")

    def verdict(self, pair, **rest):
        verdict, evidence = probe(*pair, **{"topic": self.topic, "group": "siem", **rest})
        self.assertTrue(evidence)
        return verdict

    def test_every_kind_of_key_is_accepted(self):
        for name, key in KEYS.items():
            with self.subTest(key=name):
                pair = stage.authority.issue(f"probe-{name}", key)
                stage.broker.command("grant", f"probe-{name}", self.topic, "siem")
                self.assertEqual(self.verdict(pair), "accepted")

    def test_it_joins_and_commits_nothing(self):
        stage.broker.command("grant", "probe-good", self.topic, "only-probed")
        self.assertEqual(self.verdict(self.good, group="only-probed"), "accepted")
        self.assertEqual(stage.broker.command("committed", "only-probed", self.topic), "0")
        self.assertFalse("joins group only-probed" in stage.broker.log(), "the probe joined the group")

    def test_a_topic_that_is_not_granted(self):
        self.assertEqual(self.verdict(stage.authority.issue("probe-nothing")), "not_authorized_topic")
        self.assertEqual(self.verdict(self.good, topic="logs-other"), "not_authorized_topic")

    def test_a_group_that_is_not_granted(self):
        self.assertEqual(self.verdict(self.good, group="other"), "not_authorized_group")

    def test_a_certificate_of_another_authority_is_refused(self):
        other = kafka.Authority(stage.directory / "other-ca", "other-ca")
        for _ in range(5):  # the refusal arrives as an alert or as a reset, whichever is faster
            self.assertEqual(self.verdict(other.issue("probe-good")), "refused_tls")

    def test_a_certificate_for_another_use_is_refused(self):
        self.assertEqual(self.verdict(stage.authority.issue("probe-server", usage="serverAuth")), "refused_tls")

    def test_nobody_listens(self):
        self.assertEqual(self.verdict(self.good, broker=f"localhost:{kafka.free_port()}"), "unreachable")
        self.assertEqual(self.verdict(self.good, broker="broker.invalid:9093"), "unreachable")

    def test_a_broker_of_an_unknown_authority_is_not_believed(self):
        verdict, evidence = probe(*self.good, topic=self.topic, group="siem", ca_file=stage.authority.certificate)
        self.assertEqual(verdict, "unreachable")
        self.assertIn("broker_ca_file", evidence)


class NewBrokerTest(unittest.TestCase):
    def test_no_group_has_a_coordinator_yet(self):
        """As on a broker that started seconds ago: its offsets topic does not exist yet."""
        with kafka.Broker(stage.authority.certificate, stage.directory / "new",
                          "offsets.topic.replication.factor=3\n") as broker:
            broker.command("topic", "logs-new")
            broker.command("grant", "probe-new", "logs-new", "siem")
            verdict, evidence = probe(*stage.authority.issue("probe-new"), "logs-new", "siem", broker.address,
                                      broker.ca_file, limit_ms=4000)
        self.assertEqual(verdict, "unreachable")
        self.assertIn("accepts the certificate and lists topic logs-new, but group siem has no coordinator yet", evidence)


class Consumer:
    """An application restarted by the agent's hook, which sends a request over a socket and waits for the answer."""

    HOOK = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); sys.exit(s.recv(8) != b'done')"

    def __init__(self, directory, topic):
        self.directory = pathlib.Path(directory)
        self.configuration = None  # path of its client.properties; set by the test once the agent's directory is known
        self.restarts = 0
        self._topic = topic
        self._process = None
        self._read = open(self.directory / "read", "a", encoding="ascii")
        self._log = open(self.directory / "consumer.log", "a", encoding="utf-8")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.directory / "restart"))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def hook(self):
        return {"command": [sys.executable, "-c", self.HOOK, str(self.directory / "restart")]}

    def read(self):
        return (self.directory / "read").read_text().split()

    def log(self):
        return (self.directory / "consumer.log").read_text()

    def end(self):
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)  # so that it leaves its group
            self._process.wait(30)
            self._process = None

    def close(self):
        self.end()
        for each in (self._socket, self._read, self._log):
            each.close()

    def _serve(self):
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return  # closed
            with caller:
                self.end()
                self._process = stage.broker.spawn_java(
                    "-Xmx128m", str(HERE / "NumberConsumer.java"), str(self.configuration), self._topic,
                    stdout=self._read, stderr=self._log)
                self.restarts += 1
                caller.sendall(b"done")


class AgentTest(unittest.TestCase):
    """The real agent between the platform and the broker."""

    def setUp(self):
        harness.built("exposure-agent")
        self.tenant = "t-" + self._testMethodName.removeprefix("test_").replace("_", "-")[:20].strip("-")
        self.topic = f"logs-{self.tenant}"
        stage.broker.command("topic", self.topic)
        stage.follower.delay = 0.0
        stage.follower.refuse = lambda user: False
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="consumer-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def tearDown(self):
        self.assertIsNone(stage.follower.error)

    def agent(self, *users):
        made = harness.Agent(stage.platform, exposures=[{
            "variant": "log", "tenant": self.tenant, "broker": stage.broker.address,
            "broker_ca_file": str(stage.broker.ca_file), "users": list(users)}])
        self.addCleanup(made.remove)
        return made

    def user(self, name="siem", **rest):
        return {"name": name, "consumer_group": name, "output": {"formats": ["librdkafka", "java"]}, **rest}

    def accepted(self, pair, group="siem"):
        return probe(pair / "key.pem", pair / "fullchain.pem", self.topic, group)[0] == "accepted"

    def test_clients_read_with_the_rendered_files(self):
        users = [self.user(key, key=key) for key in KEYS]
        agent = self.agent(*users)
        agent.run("reconcile", expect=0)
        stage.broker.command("produce", self.topic, "0", "10")
        expected = [str(number) for number in range(10)]
        for key in KEYS:
            with self.subTest(key=key):
                current = agent.published(key).current
                kcat = subprocess.run(
                    ["kcat", "-F", str(current / "librdkafka.conf"), "-C", "-t", self.topic, "-o", "beginning", "-e", "-q"],
                    capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual(kcat.stdout.split(), expected, kcat.stderr)
                console = stage.broker.java_tool(
                    CONSOLE_CONSUMER, "--bootstrap-server", stage.broker.address, "--consumer.config",
                    str(current / "client.properties"), "--topic", self.topic, "--from-beginning",
                    "--max-messages", "10", "--timeout-ms", "30000")
                self.assertEqual(console.stdout.split(), expected, console.stderr[-2000:])
                self.assertEqual(agent.status(f"logs/{key}")["proof"], "broker")

    def test_keytool_reads_the_pkcs12_file(self):
        password = self.directory / "password"
        password.write_text("changeit\n")
        password.chmod(0o600)
        agent = self.agent(self.user(output={"formats": ["pkcs12"], "password": {"file": str(password)}}))
        agent.run("reconcile", expect=0)
        listed = subprocess.run(
            ["keytool", "-list", "-storetype", "PKCS12", "-keystore", str(agent.published("siem").current / "client.p12"),
             "-storepass:file", str(password)], capture_output=True, text=True, check=False)
        self.assertIn("PrivateKeyEntry", listed.stdout, listed.stderr)

    def test_a_consumer_is_carried_through_two_rotations(self):
        consumer = Consumer(self.directory, self.topic)
        self.addCleanup(consumer.close)
        agent = self.agent(self.user(hooks=[consumer.hook], rotation={"retire_after": "1s"}))
        consumer.configuration = agent.published("siem").current / "client.properties"
        stage.follower.delay = 2.0
        agent.run("reconcile", expect=0)
        self.assertEqual(consumer.restarts, 1)

        load = threading.Thread(target=self.produce)
        load.start()
        self.addCleanup(load.join)
        generations = [agent.published("siem").generation]
        for _ in range(2):
            read = len(consumer.read())
            harness.wait_until(lambda: len(consumer.read()) >= read + 500)
            agent.run("rotate", "logs/siem", expect=0)
            agent.run("reconcile", expect=0)
            generations.append(agent.published("siem").generation)
        self.assertEqual(len(set(generations)), 3)
        self.assertEqual(consumer.restarts, 3)

        load.join()
        harness.wait_until(lambda: len(set(consumer.read())) == MESSAGES)
        consumer.end()
        self.assertEqual(stage.broker.command("committed", "siem", self.topic), str(MESSAGES))
        # a restart rereads at most what was in flight, never the whole topic
        self.assertLess(len(consumer.read()), MESSAGES + 2000)
        for sign in ("SSLHandshakeException", "AuthorizationException", "AuthenticationException"):
            self.assertNotIn(sign, consumer.log())

    def produce(self):
        for start in range(0, MESSAGES, 100):
            stage.broker.command("produce", self.topic, str(start), "100")
            threading.Event().wait(0.2)

    def test_a_refused_certificate_is_never_switched_to(self):
        agent = self.agent(self.user())
        agent.run("reconcile", expect=0)
        before = agent.published("siem").generation
        names = set(stage.follower.granted)
        stage.follower.refuse = lambda user: user["tenant"] == self.tenant and user["common_name"] not in names
        agent.run("rotate", "--timeout", "5s", "logs/siem", expect=1)
        agent.run("reconcile", "--timeout", "5s", expect=1)
        self.assertEqual(agent.published("siem").generation, before)
        self.assertTrue(self.accepted(agent.published("siem").current))
        status = agent.status("logs/siem")
        self.assertIsNotNone(status["pending"])
        self.assertEqual(status["generation"], before.rsplit("/", 1)[-1])

        stage.follower.refuse = lambda user: False
        agent.run("reconcile", expect=0)
        self.assertNotEqual(agent.published("siem").generation, before)
        self.assertTrue(self.accepted(agent.published("siem").current))

    def test_a_broker_that_is_away_changes_nothing(self):
        agent = self.agent(self.user())
        agent.run("reconcile", expect=0)
        before = agent.published("siem").generation
        stage.broker.halt()
        try:
            agent.run("rotate", "--timeout", "5s", "logs/siem", expect=1)
            agent.run("reconcile", "--timeout", "5s", expect=1)
            self.assertEqual(agent.published("siem").generation, before)
        finally:
            stage.broker.start()
        agent.run("reconcile", expect=0)
        self.assertNotEqual(agent.published("siem").generation, before)

    def test_a_retired_pair_is_refused(self):
        agent = self.agent(self.user(rotation={"retire_after": "0s"}))
        agent.run("reconcile", expect=0)
        old = self.directory / "old"
        shutil.copytree(agent.published("siem").current, old)
        self.assertTrue(self.accepted(old))
        agent.run("rotate", "logs/siem", expect=0)
        agent.run("reconcile", expect=0)
        harness.wait_until(lambda: len([u for u in stage.platform.users() if u["tenant"] == self.tenant]) == 1)
        harness.wait_until(lambda: not self.accepted(old))
        self.assertTrue(self.accepted(agent.published("siem").current))


if __name__ == "__main__":
    outcome = unittest.main(exit=False, verbosity=2).result
    if outcome.testsRun == 0 and outcome.skipped:
        sys.exit(77)  # ctest: SKIP_RETURN_CODE
    sys.exit(not outcome.wasSuccessful())
