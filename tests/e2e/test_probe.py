"""exposure-agent-probe against servers that are not brokers: always a single line or an exit code, and in time.

tests/kafka tests it with a real broker.
"""

import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import unittest

import harness

TIMEOUT_MS = 1500
ENDED = threading.Event()  # lets the servers' threads exit


def authority(directory, name):
    """Creates a CA with the openssl command; returns the path of its certificate."""
    certificate = directory / f"{name}.pem"
    harness.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-keyout", directory / f"{name}.key", "-out", certificate)
    return certificate


def issue(directory, issuer, name, usage):
    """Returns the paths of key and certificate."""
    key_file, request = harness.make_csr(directory, name, usage=usage)
    extensions = directory / f"{name}.ext"
    extensions.write_text(f"extendedKeyUsage={usage}\nsubjectAltName=DNS:{name}\n")
    certificate = directory / f"{name}.crt"
    (directory / f"{name}.csr").write_text(request)
    harness.openssl("x509", "-req", "-in", directory / f"{name}.csr", "-CA", issuer, "-CAkey",
                    issuer.with_suffix(".key"), "-CAcreateserial", "-days", "2", "-extfile", extensions, "-out",
                    certificate)
    return key_file, certificate


class Server:
    """Listens, and calls `handle(connection)` for each connection."""

    def __init__(self, handle):
        self._handle = handle
        # on IPv6 and IPv4, whichever localhost resolves to first
        self._socket = (socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
                        if socket.has_dualstack_ipv6() else socket.create_server(("127.0.0.1", 0)))
        self.address = f"localhost:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._socket.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._treat, args=(connection,), daemon=True).start()

    def _treat(self, connection):
        try:
            self._handle(connection)
        except OSError:
            pass  # the probe is gone, or was refused: that is what is tested
        finally:
            connection.close()


class ProbeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = harness.built("exposure-agent-probe")
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="probe-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.addClassCleanup(ENDED.set)
        cls.ca = authority(cls.directory, "ca")
        cls.other_ca = authority(cls.directory, "other-ca")
        cls.pair = issue(cls.directory, cls.ca, "client", "clientAuth")
        cls.server_pair = issue(cls.directory, cls.ca, "localhost", "serverAuth")

    def context(self, version=ssl.TLSVersion.TLSv1_3, clients=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_pair[1], self.server_pair[0])
        context.minimum_version = context.maximum_version = version
        if clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients)
        return context

    def run_probe(self, text, *arguments):
        return subprocess.run([self.program, *arguments], input=text, capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_MS / 1000 + 10)

    def ask(self, broker, **change):
        request = {"broker": broker, "ca_file": str(self.ca), "key_pem": self.pair[0].read_text(),
                   "certificate_pem": self.pair[1].read_text(), "topic": "logs-orion-123", "group": "siem",
                   "timeout_ms": TIMEOUT_MS, **change}
        return self.run_probe(json.dumps(request))

    def verdict(self, handle, **change):
        server = Server(handle)
        self.addCleanup(server.close)
        done = self.ask(server.address, **change)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("\n"), 1)
        answer = json.loads(done.stdout)
        self.assertEqual(set(answer), {"verdict", "evidence"})
        return answer["verdict"], answer["evidence"]

    def refusing(self, version):
        """A server that trusts only client certificates of another CA."""
        context = self.context(version, clients=self.other_ca)

        def handle(connection):
            with context.wrap_socket(connection, server_side=True) as tls:
                tls.recv(1)

        return handle

    def test_a_refusal_in_the_handshake(self):
        self.assertEqual(self.verdict(self.refusing(ssl.TLSVersion.TLSv1_2))[0], "refused_tls")

    def test_a_refusal_after_the_handshake(self):
        self.assertEqual(self.verdict(self.refusing(ssl.TLSVersion.TLSv1_3))[0], "refused_tls")

    def test_a_reset_that_overtakes_the_alert(self):
        context = self.context()

        def handle(connection):
            tls = context.wrap_socket(connection, server_side=True)
            tls.recv(1)  # the first request: the client has completed the handshake
            tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            tls.close()

        verdict, evidence = self.verdict(handle)
        self.assertEqual(verdict, "refused_tls")
        self.assertIn("right after the TLS handshake", evidence)

    def test_a_server_of_an_unknown_authority(self):
        context = self.context()
        verdict, evidence = self.verdict(lambda c: context.wrap_socket(c, server_side=True), ca_file=str(self.other_ca))
        self.assertEqual(verdict, "unreachable")
        self.assertIn("broker_ca_file", evidence)

    def test_a_server_of_another_name(self):
        context = self.context()
        server = Server(lambda c: context.wrap_socket(c, server_side=True))
        self.addCleanup(server.close)
        answer = json.loads(self.ask(server.address.replace("localhost", "127.0.0.1")).stdout)
        self.assertEqual(answer["verdict"], "unreachable")
        self.assertIn("broker_ca_file", answer["evidence"])

    def test_silence_before_and_after_the_handshake(self):
        context = self.context()

        def shake_hands_and_wait(connection):
            with context.wrap_socket(connection, server_side=True):
                ENDED.wait()

        for handle in (lambda _: ENDED.wait(), shake_hands_and_wait):
            verdict, evidence = self.verdict(handle)
            self.assertEqual(verdict, "unreachable")
            self.assertIn(f"no answer within {TIMEOUT_MS} ms", evidence)

    def test_something_that_is_no_tls(self):
        self.assertEqual(self.verdict(lambda c: c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))[0], "unreachable")

    def test_nobody(self):
        for broker in ("localhost:1", "broker.invalid:9093"):
            self.assertEqual(json.loads(self.ask(broker).stdout)["verdict"], "unreachable")

    def test_a_request_that_makes_no_sense(self):
        good = {"broker": "localhost:1", "key_pem": "k", "certificate_pem": "c", "topic": "t", "group": "g"}
        wrong = ["", "[]", "{", "null", "x" * (1 << 20), json.dumps({**good, "timeout_ms": 0}),
                 json.dumps({**good, "timeout_ms": "long"}), json.dumps({**good, "ca_file": ""})]
        wrong += [json.dumps({k: v for k, v in good.items() if k != missing}) for missing in good]
        for text in wrong:
            with self.subTest(text=text[:80]):
                done = self.run_probe(text)
                self.assertEqual((done.returncode, done.stdout), (64, ""))
                self.assertTrue(done.stderr.startswith("exposure-agent-probe: "))

    def test_files_that_cannot_be_used(self):
        _, other_certificate = issue(self.directory, self.ca, "another", "clientAuth")
        for change in ({"key_pem": "garbage"}, {"certificate_pem": "garbage"}, {"ca_file": "/nowhere"},
                       {"certificate_pem": other_certificate.read_text()}):
            with self.subTest(change=change):
                done = self.ask("localhost:1", **change)
                self.assertEqual((done.returncode, done.stdout), (70, ""))
        self.assertIn("/nowhere", self.ask("localhost:1", ca_file="/nowhere").stderr)

    def test_its_memory_is_closed_to_others(self):
        waiting = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, user=65534 if os.geteuid() == 0 else None)
        self.addCleanup(waiting.wait)
        self.addCleanup(waiting.stdin.close)
        process = pathlib.Path("/proc", str(waiting.pid))
        # main() has started
        harness.wait_until(lambda: "Max core file size        0" in (process / "limits").read_text(encoding="utf-8"))
        harness.wait_until(lambda: (process / "environ").stat().st_uid == 0)

    def test_arguments(self):
        self.assertEqual(self.run_probe("", "broker.example.com").returncode, 64)
        self.assertIn("librdkafka", self.run_probe("", "--version").stdout)


if __name__ == "__main__":
    unittest.main()
