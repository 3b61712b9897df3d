"""A real etcd cluster of three nodes on this machine: TLS throughout, client certificates, users and roles."""

import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness

NODES = 3
START_TIMEOUT = 60


class Missing(Exception):
    """A program that the cluster needs is not installed."""


def required():
    for program, package in (("etcd", "etcd-server"), ("etcdctl", "etcd-client"), ("openssl", "openssl")):
        if not shutil.which(program):
            raise Missing(f"{program} is not installed (package {package})")


class Cluster:
    def __init__(self):
        required()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="etcd-"))
        self._make_authority()
        self._issue("server", "/CN=etcd", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth")
        self.ports = [(harness.free_port(), harness.free_port()) for _ in range(NODES)]
        self.nodes = [self._start(i) for i in range(NODES)]
        self.root = self.client("root")
        harness.wait_until(lambda: self._ctl(self.root, "endpoint", "health").returncode == 0, START_TIMEOUT)
        for command in (["user", "add", "root", "--no-password"], ["user", "grant-role", "root", "root"],
                        ["auth", "enable"]):
            self.ctl(*command)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for node in self.nodes:
            if node.poll() is None:
                node.send_signal(signal.SIGTERM)
        for node in self.nodes:
            try:
                node.wait(10)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self, number):
        self.nodes[number].kill()
        self.nodes[number].wait()

    @property
    def endpoints(self):
        return ",".join(f"https://127.0.0.1:{client}" for client, _ in self.ports)

    def client(self, name):
        """The etcdctl command line for this user, who authenticates with a certificate and has no password."""
        self._issue(name, f"/CN={name}", "extendedKeyUsage=clientAuth")
        return [shutil.which("etcdctl"), f"--endpoints={self.endpoints}", "--command-timeout=5s",
                f"--cacert={self.directory}/ca.pem", f"--cert={self.directory}/{name}.pem",
                f"--key={self.directory}/{name}.key"]

    def user(self, name, permission, key):
        """Creates a user with permission read, write or readwrite on one key; returns the user's command line."""
        self.ctl("role", "add", name)
        self.ctl("role", "grant-permission", name, permission, key)
        self.ctl("user", "add", name, "--no-password")
        self.ctl("user", "grant-role", name, name)
        return self.client(name)

    def ctl(self, *arguments):
        done = self._ctl(self.root, *arguments)
        if done.returncode != 0:
            raise AssertionError(f"etcdctl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def _ctl(self, command, *arguments):
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False,
                              env={"ETCDCTL_API": "3"})

    def _start(self, number):
        client, peer = self.ports[number]
        peers = ",".join(f"node{i}=https://127.0.0.1:{each}" for i, (_, each) in enumerate(self.ports))
        tls = [f"{prefix}{name}={value}" for prefix in ("--", "--peer-") for name, value in (
            ("cert-file", self.directory / "server.pem"), ("key-file", self.directory / "server.key"),
            ("trusted-ca-file", self.directory / "ca.pem"))] + ["--client-cert-auth", "--peer-client-cert-auth"]
        with open(self.directory / f"node{number}.log", "wb") as log:
            return subprocess.Popen(
                ["etcd", f"--name=node{number}", f"--data-dir={self.directory}/node{number}",
                 f"--listen-client-urls=https://127.0.0.1:{client}",
                 f"--advertise-client-urls=https://127.0.0.1:{client}",
                 f"--listen-peer-urls=https://127.0.0.1:{peer}",
                 f"--initial-advertise-peer-urls=https://127.0.0.1:{peer}",
                 f"--initial-cluster={peers}", "--logger=zap", *tls], stdout=log, stderr=log)

    def _openssl(self, *arguments, **options):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, **options)

    def _make_authority(self):
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", "/CN=etcd authority", "-keyout", self.directory / "ca.key", "-out",
                      self.directory / "ca.pem")

    def _issue(self, name, subject, extensions):
        request = self.directory / f"{name}.csr"
        extension_file = self.directory / f"{name}.ext"
        extension_file.write_text(extensions + "\n")
        self._openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
                      "-keyout", self.directory / f"{name}.key", "-out", request)
        self._openssl("x509", "-req", "-in", request, "-CA", self.directory / "ca.pem", "-CAkey",
                      self.directory / "ca.key", "-CAcreateserial", "-days", "2", "-extfile", extension_file, "-out",
                      self.directory / f"{name}.pem")
