"""A real Apache Kafka broker for the tests: one node, KRaft, TLS with client certificates, ACLs by common name.

Maven (pom.xml) downloads the broker into a cache directory, and it runs from its class path. Clients reach it at
`Broker.address` with a certificate of `client_ca`; the tests control it through KafkaControl.java over a plaintext
listener on loopback. `python3 broker.py --client-ca FILE` starts one manually and prints how to reach it.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "exposure-agent-tests"
START_LIMIT = 90  # seconds, for the JVM and the broker to start on two busy cores
COMMAND_LIMIT = 60
FETCH_LIMIT = 300  # about 60 MB, once

SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=TLS://127.0.0.1:{tls_port},PLAIN://127.0.0.1:{plain_port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=TLS://localhost:{tls_port},PLAIN://127.0.0.1:{plain_port}
listener.security.protocol.map=TLS:SSL,PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
log.dirs={directory}/data
num.partitions=1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
listener.name.tls.ssl.client.auth=required
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={directory}/broker.pem
listener.name.tls.ssl.truststore.type=PEM
listener.name.tls.ssl.truststore.location={client_ca}
listener.name.tls.ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/,DEFAULT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""

LOG_PROPERTIES = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class Unavailable(Exception):
    """Java or Maven is missing, or Maven could not download the broker; the tests are skipped."""


def libraries():
    """The directory of the broker's jars, downloaded if needed."""
    for program in ("java", "mvn", "openssl"):
        if not shutil.which(program):
            raise Unavailable(f"{program} is not installed")
    pom = HERE / "pom.xml"
    target = CACHE / ("kafka-" + hashlib.sha256(pom.read_bytes()).hexdigest()[:12])
    if target.is_dir():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        shutil.copy(pom, scratch)  # Maven writes next to its pom
        fetched = pathlib.Path(scratch, "lib")
        fetch(scratch, fetched)
        try:
            fetched.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise a concurrent run was first
                raise
    return target


def fetch(directory, into):
    try:
        done = subprocess.run(
            ["mvn", "-q", "-B", "-Dstyle.color=never", "dependency:copy-dependencies", f"-DoutputDirectory={into}"],
            cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=FETCH_LIMIT)
    except subprocess.TimeoutExpired as expired:
        raise Unavailable(f"Maven could not fetch Kafka within {FETCH_LIMIT} s") from expired
    if done.returncode != 0:
        said = (done.stdout + done.stderr).partition("[ERROR] ")[2].splitlines()
        raise Unavailable("Maven could not fetch Kafka: " + (said[0] if said else f"exit code {done.returncode}"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def openssl(*arguments, directory):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Authority:
    """A throwaway certificate authority."""

    def __init__(self, directory, name):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.certificate = self.directory / f"{name}.pem"
        self._key = self.directory / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", str(self._key), "-out", str(self.certificate),
                directory=self.directory)

    def issue(self, common_name, key=("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
              usage="clientAuth", names=None):
        """Creates a new pair and returns the paths (key, certificate); `key` are arguments of genpkey."""
        base = self.directory / common_name
        private, request, certificate, extensions = (
            base.with_name(common_name + suffix) for suffix in (".key", ".csr", ".crt", ".ext"))
        openssl("genpkey", *key, "-out", str(private), directory=self.directory)
        openssl("req", "-new", "-key", str(private), "-subj", f"/CN={common_name}", "-out", str(request),
                directory=self.directory)
        extensions.write_text(f"extendedKeyUsage={usage}\n" + (f"subjectAltName={names}\n" if names else ""))
        openssl("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key),
                "-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", str(certificate),
                directory=self.directory)
        return private, certificate


class Broker:
    """Starts when created, ends with `stop` or the with statement. `properties`: extra lines of its configuration."""

    def __init__(self, client_ca, directory, properties=""):
        self._jars = libraries()
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._authority = Authority(self.directory / "broker-ca", "broker-ca")
        self.ca_file = self._authority.certificate
        self._ports = {name: free_port() for name in ("tls_port", "plain_port", "controller_port")}
        self.address = f"localhost:{self._ports['tls_port']}"
        self._configure(pathlib.Path(client_ca).resolve(), properties)
        self._process = self._control = None
        self._lock = threading.Lock()
        try:
            self._java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAQACAAAAAAAAAAQ",
                       "-c", str(self.directory / "server.properties"))
            self.start()
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Starts the broker (again) with the same ports and data."""
        self._process = self._spawn("broker.log", "-Xmx512m", "kafka.Kafka",
                                    str(self.directory / "server.properties"))
        deadline = time.monotonic() + START_LIMIT
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the broker did not start: " + self.log()[-3000:])
            time.sleep(0.2)
        if self._control is None:
            self._control = self._spawn("control.log", "-Xmx128m", str(HERE / "KafkaControl.java"),
                                        f"127.0.0.1:{self._ports['plain_port']}", stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.command("wait")

    def halt(self):
        """Stops the broker; `start` starts it again."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def stop(self):
        if self._control is not None:
            self._control.kill()
            self._control.communicate()
            self._control = None
        self.halt()

    def command(self, *words):
        """Runs one command of KafkaControl.java and returns its output as text."""
        with self._lock:
            self._control.stdin.write(" ".join(words) + "\n")
            self._control.stdin.flush()
            answer = self._control.stdout.readline().strip()
        if not answer.startswith("ok"):
            raise RuntimeError(f"{words}: {answer or 'KafkaControl ended, see control.log'}")
        return answer[3:]

    def java_tool(self, name, *arguments, **options):
        """Runs one of Kafka's command-line tools, e.g. org.apache.kafka.tools.consumer.ConsoleConsumer."""
        return subprocess.run(self._java_command("-Xmx128m", name, *arguments), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=COMMAND_LIMIT, **options)

    def spawn_java(self, *arguments, **options):
        """Starts a class or a source file with the broker's jars on the class path, and returns the process."""
        return subprocess.Popen(self._java_command(*arguments),
                                **{"stdin": subprocess.DEVNULL, "text": True, **options})

    def log(self):
        return (self.directory / "broker.log").read_text(errors="replace")

    def _configure(self, client_ca, properties):
        private, certificate = self._authority.issue("localhost", usage="serverAuth", names="DNS:localhost")
        (self.directory / "broker.pem").write_text(private.read_text() + certificate.read_text())
        (self.directory / "server.properties").write_text(
            SERVER_PROPERTIES.format(directory=self.directory, client_ca=client_ca, **self._ports) + properties)
        (self.directory / "log4j.properties").write_text(LOG_PROPERTIES)

    def _listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._ports["tls_port"])) == 0

    def _java_command(self, *arguments):
        # few threads and only the fast compiler: these processes live for seconds, on two cores
        return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{self._jars}/*",
                f"-Dlog4j.configuration=file:{self.directory}/log4j.properties", *arguments]

    def _java(self, *arguments):
        done = subprocess.run(self._java_command(*arguments), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError((done.stdout + done.stderr)[-3000:])

    def _spawn(self, log, *arguments, **options):
        with open(self.directory / log, "a", encoding="utf-8") as errors:
            return self.spawn_java(*arguments, **{"stdout": errors, **options}, stderr=errors)


def main():
    options = argparse.ArgumentParser(description="Starts a Kafka broker for experiments, until it is interrupted.")
    options.add_argument("--client-ca", required=True, help="PEM file: who issues the clients' certificates")
    options.add_argument("--topic", default="logs-orion-123")
    options.add_argument("--grant", action="append", default=[], metavar="CN:GROUP",
                         help="lets the holder of this common name read the topic in this group")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as directory, Broker(chosen.client_ca, directory) as broker:
        broker.command("topic", chosen.topic)
        for name, group in (entry.rsplit(":", 1) for entry in chosen.grant):
            broker.command("grant", name, chosen.topic, group)
        print(f"broker: {broker.address}\nbroker_ca_file: {broker.ca_file}\ntopic: {chosen.topic}", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    try:
        main()
    except Unavailable as reason:
        print(f"skipped: {reason}", file=sys.stderr)
        sys.exit(77)
