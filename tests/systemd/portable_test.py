"""The portable archive, its RPM and its container image, if systemd/portable/build.sh has built them, and the main job
with them in minimal roots of several distributions; the examples for Kubernetes."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import support

sys.path.insert(0, str(support.SOURCE / "tests/e2e"))

import harness  # noqa: E402

OUTPUT = support.SOURCE / "build-portable"
GLIBC = (2, 28)  # RHEL 8
AGENT_BYTES = 12 << 20
PROGRAMS = ("exposure-agent", "exposure-agent-probe")
# the C library, which every supported host has
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2",
             "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
SCRIPTS = re.compile(r".*/examples/(fleet|notify)/[a-z0-9.-]+$")
CONFIGURATION, STATE = "etc/exposure-agent", "var/lib/exposure-agent"
WANTS = "etc/systemd/system/multi-user.target.wants/exposure-agent.service"


def archives():
    found = sorted(OUTPUT.glob("exposure-agent-*-linux-*.tar.gz"))
    if not found:
        raise unittest.SkipTest("no portable archive was built; run: systemd/portable/build.sh")
    return found


def archive_for(machine):
    for archive in archives():
        if archive.name.endswith(f"-{machine}.tar.gz"):
            return archive
    raise unittest.SkipTest(f"no portable archive for {machine} was built; run: systemd/portable/build.sh {machine}")


def native_archive():
    return archive_for(platform.machine())


@contextlib.contextmanager
def unpacked(archive):
    """Yields the directory in the archive."""
    with tempfile.TemporaryDirectory() as where:
        support.run("tar", "-xzf", archive, "-C", where)
        yield pathlib.Path(where, archive.name.removesuffix(".tar.gz"))


def settings(simulator, identity, user, **more):
    """A configuration for one user of the log variant; its files are in the configuration's directory."""
    return {"network": {"ca_file": f"/{CONFIGURATION}/ca.pem"}, "identity": identity, "reconcile": {"settle": "1s"},
            "defaults": {"contact": "team@example.com", "key": "ecdsa-p256"},
            "exposures": [{"name": "logs", "variant": "log", "base_url": simulator.service_url("log"),
                           "tenant": harness.TENANT, "create_instance": True,
                           "users": [{"name": "siem", "consumer_group": "siem", **user}]}], **more}


class archive(unittest.TestCase):
    def check_programs(self, check):
        for archive in archives():
            with unpacked(archive) as tree:
                for name in PROGRAMS:
                    with self.subTest(archive.name, program=name):
                        check(tree / "usr/bin" / name)

    def test_programs_need_an_old_c_library_and_nothing_else(self):
        support.require("objdump")

        def check(program):
            listing = support.run("objdump", "-T", "-p", program).stdout
            versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", listing)}
            self.assertLessEqual(max(versions), GLIBC)
            self.assertLessEqual(set(re.findall(r"NEEDED +(\S+)", listing)), LIBRARIES)

        self.check_programs(check)

    def test_programs_are_hardened(self):
        support.require("readelf")

        def check(program):
            listing = support.run("readelf", "-W", "-h", "-l", "-d", "--dyn-syms", program).stdout
            for wanted in (r"Type:\s+DYN", r"FLAGS_1.*\bNOW\b.*\bPIE\b", "GNU_RELRO", r"GNU_STACK.* RW ",
                           "__stack_chk_fail", r"__\w+_chk\b"):
                self.assertRegex(listing, wanted)

        self.check_programs(check)

    def test_the_agent_is_small(self):
        def check(program):
            print(f"{program.name}: {program.stat().st_size:,} bytes", file=sys.stderr)
            self.assertLessEqual(program.stat().st_size, AGENT_BYTES)

        self.check_programs(check)

    def test_no_path_of_the_build_machine_is_in_it(self):
        paths = {str(path).encode() + b"/" for path in (pathlib.Path.home() / ".cache", support.SOURCE)}

        def check(program):
            content = program.read_bytes()
            self.assertEqual([path for path in paths if path in content], [])

        self.check_programs(check)

    def test_checksums_and_bill_of_materials(self):
        pinned = (support.SOURCE / "systemd/portable/sources.txt").read_text()
        for archive in archives():
            name = archive.name.removesuffix(".tar.gz")
            bill = json.loads((OUTPUT / f"{name}.spdx.json").read_text())
            self.assertEqual(bill["spdxVersion"], "SPDX-2.3")
            for package in ("openssl", "sqlite3", "yaml-cpp", "librdkafka"):
                (found,) = (each for each in bill["packages"] if each["name"] == package)
                self.assertIn(found["checksums"][0]["checksumValue"], pinned)
        support.run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=OUTPUT)
        self.assertLessEqual({archive.name for archive in archives()},
                             {line.split()[1] for line in (OUTPUT / "SHA256SUMS").read_text().splitlines()})

    def test_everything_belongs_to_root_and_only_root_may_write(self):
        for archive in archives():
            with tarfile.open(archive) as content:
                for member in content:
                    self.assertEqual((member.uid, member.gid, member.mode & 0o022), (0, 0, 0), member.name)

    def test_it_starts_as_fast_as_the_native_program(self):
        support.require_program(support.PROGRAM)
        with unpacked(native_archive()) as tree:
            programs = (tree / "usr/bin/exposure-agent", support.PROGRAM)
            times = {program: [] for program in programs}
            for _ in range(31):
                for program in programs:
                    began = time.perf_counter()
                    support.run(program, "--version")
                    times[program].append(time.perf_counter() - began)
            portable, native = (statistics.median(times[program]) for program in programs)
            print(f"start-up: portable {portable * 1000:.1f} ms, {support.PROGRAM} {native * 1000:.1f} ms, "
                  f"ratio {portable / native:.2f}", file=sys.stderr)


class install_script(unittest.TestCase):
    """install.sh into a directory; `hosts` runs it on hosts."""

    def setUp(self):
        self.tree = self.enterContext(unpacked(native_archive()))
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def install(self, *options):
        return support.run(self.tree / "install.sh", *options, env={**os.environ, "DESTDIR": str(self.root)}).stdout

    def files(self):
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}

    def test_modes_and_paths(self):
        for prefix, units in (("/usr/local", "usr/local/lib"), ("/usr", "usr/lib"), ("/opt/agent", "usr/local/lib")):
            with self.subTest(prefix):
                self.install("--prefix", prefix)
                unit = (self.root / units / "systemd/system/exposure-agent.service").read_text()
                self.assertIn(f"ExecStart={prefix}/bin/exposure-agent run", unit)
                for path in self.root.rglob("*"):
                    executable = path.is_dir() or path.parent.name == "bin" or SCRIPTS.match(str(path))
                    self.assertEqual(path.stat().st_mode & 0o7777, 0o755 if executable else 0o644, path)
                self.install("--remove", "--prefix", prefix)
                self.assertEqual(self.files(), {"etc/exposure-agent/environment"})

    def test_an_upgrade_removes_old_files_and_keeps_the_configuration(self):
        extra = self.tree / "usr/share/doc/exposure-agent/only-in-this-version"
        extra.write_text("old")
        self.install()
        environment = self.root / CONFIGURATION / "environment"
        environment.write_text("NO_PROXY=example.com\n")
        self.assertIn(f"usr/local/share/doc/exposure-agent/{extra.name}", self.files())
        extra.unlink()
        self.install()
        self.assertNotIn(f"usr/local/share/doc/exposure-agent/{extra.name}", self.files())
        self.assertEqual(environment.read_text(), "NO_PROXY=example.com\n")
        self.install("--purge")
        self.assertEqual(self.files(), set())

    def test_mistakes_are_reported(self):
        for options, status, message in (
                (["--prefx", "/usr"], 64, "unknown option '--prefx'; see --help"),
                (["--prefix", "opt"], 64, "--prefix opt: not an absolute path"),
                (["--remove"], 1, "exposure-agent is not installed in /usr/local; see --prefix")):
            done = support.run(self.tree / "install.sh", *options, check=False,
                               env={**os.environ, "DESTDIR": str(self.root)})
            self.assertEqual(done.returncode, status)
            self.assertIn(message, done.stderr)


class main_steps(unittest.TestCase):
    """The main job in a root, with `inside` to run a program there; the platform is simulated outside of it."""

    SHELL = ("/bin/sh",)

    def write(self, name, text, mode=0o600):
        path = self.root / CONFIGURATION / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def configure(self, simulator):
        self.write("ca.pem", simulator.ca_file.read_text(), 0o644)
        self.write("client-secret", harness.CLIENT_SECRET)
        secret = {"file": f"/{CONFIGURATION}/client-secret"}
        identity = {"auth_url": simulator.auth_url(), "client_id": harness.CLIENT_ID, "client_secret": secret,
                    "redirect_url": harness.REDIRECT_URL}
        hook = {"command": [*self.SHELL, "-c", "echo $EXPOSURE_USER >> /root/consumer.log"]}
        user = {"output": {"formats": ["pem", "bundle"]}, "hooks": [hook]}
        self.settings = settings(simulator, identity, user, owner="web-01")
        self.write("agent.yaml", harness.to_yaml(self.settings), 0o644)

    def status(self):
        return json.loads(self.inside("exposure-agent", "status", "-o", "json").stdout)["users"][0]

    def rotate(self, simulator):
        """Rotates the certificate, and checks that the new one is published and the hook has run."""
        before, hooks = self.status(), (self.root / "root/consumer.log").read_text()
        self.inside("exposure-agent", "rotate", "logs/siem")
        self.assertNotEqual(self.status()["serial"], before["serial"])
        self.assertEqual((self.root / "root/consumer.log").read_text(), f"{hooks}siem\n")
        current = self.root / STATE / "live/logs/siem/current"
        support.run("openssl", "verify", "-CAfile", simulator.issuer_ca_file, current / "cert.pem")

    def main_job(self, simulator):
        """The main steps of tests/demo.sh."""
        self.configure(simulator)
        self.inside("exposure-agent", "check")
        self.inside("exposure-agent", "login", "--code", simulator.code())
        self.inside("exposure-agent", "reconcile", "--timeout", "120s")
        self.inside("exposure-agent", "plan", "--detailed-exitcode")
        self.inside("exposure-agent", "status", "--check")
        self.assertEqual(self.status()["state"], "valid")
        self.assertEqual((self.root / "root/consumer.log").read_text(), "siem\n")
        self.rotate(simulator)


class hosts(main_steps):
    """Installation, the main job and removal in a minimal root."""

    def setUp(self):
        self.archive = native_archive()
        support.require_program(support.SIMULATOR)
        support.require_root()
        support.new_mounts()

    def inside(self, *command, check=True, env=()):
        return support.run_in(self.root, "env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *env, *command,
                              check=check)

    def trust(self, simulator):
        """The places of authorities and TLS settings of Fedora, RHEL and SUSE."""
        online = ("exposure-agent", "instances")
        del self.settings["network"]
        self.write("agent.yaml", harness.to_yaml(self.settings), 0o644)
        aside = self.root / "root/etc-ssl"
        (self.root / "etc/ssl").rename(aside)
        self.assertNotEqual(self.inside(*online, check=False).returncode, 0)
        for place in ("etc/pki/tls/certs/ca-bundle.crt", "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                      "etc/ssl/ca-bundle.pem"):
            bundle = self.root / place
            bundle.parent.mkdir(parents=True)
            shutil.copy(simulator.ca_file, bundle)
            self.inside(*online)
            if place != "etc/ssl/ca-bundle.pem":
                bundle.unlink()
        # settings that no handshake with the simulator fulfils
        for place, used in (("etc/pki/tls/openssl.cnf", True), ("etc/ssl/openssl.cnf", True), ("etc/x.cnf", False)):
            policy = self.root / place
            policy.parent.mkdir(parents=True, exist_ok=True)
            policy.write_text("openssl_conf = init\n[init]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n"
                              "[tls]\nCipherString = PSK-AES128-GCM-SHA256\nCiphersuites = TLS_AES_128_CCM_8_SHA256\n")
            self.assertEqual(self.inside(*online, check=False).returncode == 0, not used, place)
            policy.unlink()
        shutil.rmtree(self.root / "etc/ssl")
        aside.rename(self.root / "etc/ssl")

    def life(self, suite, name):
        self.root = self.enterContext(support.copy_of(support.clean_root(suite, {"systemd", "ca-certificates"})))
        directory = self.archive.name.removesuffix(".tar.gz")
        support.run("tar", "-xzf", self.archive, "-C", self.root / "root")
        install = f"/root/{directory}/install.sh"
        glibc = re.search(r"(\d+\.\d+)$", self.inside("ldd", "--version").stdout.splitlines()[0])[1]

        self.assertIn("Next: sudo /usr/local/bin/exposure-agent init", self.inside(install).stdout)
        self.inside("id", "exposure-agent")
        self.assertTrue((self.root / WANTS).is_symlink())
        self.assertTrue((self.root / "run/exposure-agent-deploy/spool").is_dir())
        for program in PROGRAMS:
            self.assertNotIn("not found", self.inside("ldd", f"/usr/local/bin/{program}").stdout)
        with harness.Simulator(harness.AT_ONCE) as simulator:
            self.main_job(simulator)
            self.trust(simulator)

        self.inside("systemctl", "disable", "exposure-agent.service")
        self.assertIn("Status: sudo /usr/local/bin/exposure-agent status", self.inside(install).stdout)
        self.assertFalse((self.root / WANTS).exists(), "an upgrade keeps the decision to disable it")
        self.assertEqual(self.status()["state"], "valid")
        self.inside(install, "--remove")
        self.assertFalse((self.root / "usr/local/bin/exposure-agent").exists())
        self.assertTrue((self.root / STATE / "private/state.db").exists())
        self.inside(install)
        self.inside(install, "--purge")
        left = [path for top in ("etc", "usr", "var/lib") for path in (self.root / top).rglob("*exposure-agent*")]
        self.assertEqual(left, [])
        print(f"| {name} | {platform.machine()} | {glibc} | install.sh | passed |", file=sys.stderr)

    def test_debian_11(self):
        self.life("bullseye", "Debian 11")

    def test_debian_12(self):
        self.life("bookworm", "Debian 12")

    def test_debian_13(self):
        self.life("trixie", "Debian 13")

    def test_ubuntu_20_04(self):
        self.life("focal", "Ubuntu 20.04")

    def test_ubuntu_22_04(self):
        self.life("jammy", "Ubuntu 22.04")

    def test_ubuntu_24_04(self):
        self.life("noble", "Ubuntu 24.04")


class emulated(main_steps):
    """The main job with the aarch64 program under emulation. Its root is entered with chroot: with the emulator's option
    -L, the program would see other directories above its state directory than those that it opens."""

    EMULATOR = "/usr/bin/qemu-aarch64-static"
    SHELL = (EMULATOR, "/bin/dash")

    def setUp(self):
        self.archive = archive_for("aarch64")
        if not pathlib.Path(self.EMULATOR).exists():
            self.skipTest("qemu-user-static is not installed")
        support.require("mmdebstrap", "openssl")
        support.require_program(support.SIMULATOR)
        support.require_root()
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "root")
        # unpacked only: the packages' own scripts would need an emulator that the kernel knows
        made = support.run("mmdebstrap", "--mode=root", "--variant=extract", "--architectures=arm64",
                           "--skip=check/qemu", "--include=libc6,dash", "bookworm", self.root, check=False)
        if made.returncode != 0:
            self.skipTest(f"mmdebstrap unpacked no packages for arm64: {made.stderr.splitlines()[-1]}")
        tree = self.enterContext(unpacked(self.archive))
        for directory in ("proc", "root", "usr/bin", "var/lib", "run"):
            (self.root / directory).mkdir(parents=True, exist_ok=True)
        for program in (self.EMULATOR, tree / "usr/bin/exposure-agent"):
            shutil.copy(program, self.root / "usr/bin")

    def inside(self, program, *arguments):
        return support.run_in(self.root, self.EMULATOR, f"/usr/bin/{program}", *arguments,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def test_debian_12_on_aarch64(self):
        with harness.Simulator(harness.AT_ONCE) as simulator:
            self.main_job(simulator)
            with self.daemon():
                self.rotate(simulator)

    @contextlib.contextmanager
    def daemon(self):
        socket = self.root / STATE / "control.sock"
        mounted = 'mount -t proc proc "$1/proc"; exec chroot "$@"'
        with subprocess.Popen([*support.new_mounts(), "sh", "-euc", mounted, "sh", self.root, self.EMULATOR,
                               "/usr/bin/exposure-agent", "run"], stderr=subprocess.PIPE, text=True) as process:
            try:
                harness.wait_until(lambda: harness.listens(socket) or process.poll() is not None)
                yield
            finally:
                process.terminate()
                _, errors = process.communicate(timeout=harness.RUN_TIMEOUT)
        self.assertEqual(process.returncode, 0, errors)


class rpm(unittest.TestCase):
    def setUp(self):
        support.require("rpm")
        archives()
        self.packages = sorted(OUTPUT.glob("*.rpm"))
        if not self.packages:
            self.skipTest("no RPM was built; install rpm and run: systemd/portable/build.sh")

    def queries(self, *what):
        """What rpm prints about each package."""
        for package in self.packages:
            yield support.run("rpm", "-qp", "--nosignature", *what, package).stdout

    def test_it_needs_only_systemd_a_shell_and_the_c_library(self):
        for listing in self.queries("--requires"):
            wanted = {line.split()[0] for line in listing.splitlines()}
            self.assertIn("systemd", wanted)
            names = {name.split("(")[0] for name in wanted if not name.startswith("rpmlib(")}
            self.assertLessEqual(names, LIBRARIES | {"systemd", "/bin/sh", "rtld", "config"})
            versions = re.findall(r"GLIBC_([0-9.]+)", " ".join(wanted))
            self.assertLessEqual(max(tuple(map(int, version.split("."))) for version in versions), GLIBC)

    def test_modes_owners_and_configuration_files(self):
        for listing in self.queries("--dump"):
            self.assertTrue(listing)
            for line in listing.splitlines():
                path, _, _, _, mode, owner, group, is_config, *_ = line.split(" ")
                self.assertEqual((owner, group), ("root", "root"), path)
                self.assertEqual(int(mode, 8) & 0o7022, 0, path)
                self.assertEqual(is_config == "1", path == f"/{CONFIGURATION}/environment", path)

    def test_scriptlets(self):
        for shown in self.queries("--scripts"):
            sections = re.split(r"^(\w+) scriptlet \(using /bin/sh\):$", shown, flags=re.M)[1:]
            scripts = dict(zip(sections[::2], sections[1::2]))
            self.assertEqual(set(scripts), {"postinstall", "preuninstall", "postuninstall"})
            for script in scripts.values():
                subprocess.run(["sh", "-n"], input=script, text=True, check=True)
            for section, *actions in (
                    ("postinstall", "systemd-sysusers", "systemd-tmpfiles --create", "systemctl --no-reload preset"),
                    ("preuninstall", "systemctl --no-reload disable --now"),
                    ("postuninstall", "systemctl daemon-reload", "systemctl try-restart")):
                for action in actions:
                    self.assertIn(action, scripts[section])

    def test_life_in_a_root(self):
        """rpm of this host installs into a root; scriptlets run in it with chroot."""
        support.require_root()
        package = next((each for each in self.packages if f".{platform.machine()}." in each.name), None)
        if package is None:
            self.skipTest(f"no RPM for {platform.machine()} was built")
        with support.copy_of(support.clean_root(support.HOST, {"systemd", "ca-certificates"})) as root:
            def rpm_in_root(*arguments):
                return support.run(*support.new_mounts(), "--pid", "--fork", f"--mount-proc={root}/proc",
                                   "rpm", "--root", root, "--nosignature", *arguments)

            def inside(*command):
                return support.run_in(root, *command)

            # the root's systemd and C library are packages of Debian
            rpm_in_root("--install", "--nodeps", package)
            inside("exposure-agent", "--version")
            inside("id", "exposure-agent")
            self.assertTrue((root / "run/exposure-agent-deploy/spool").is_dir())
            self.assertEqual(rpm_in_root("--verify", "--nodeps", "exposure-agent").stdout, "")
            (root / CONFIGURATION / "agent.yaml").write_text("mine\n")
            (root / CONFIGURATION / "environment").write_text("NO_PROXY=example.com\n")
            inside("systemctl", "disable", "exposure-agent.service")
            rpm_in_root("--upgrade", "--force", "--nodeps", package)
            self.assertFalse((root / WANTS).exists(), "an upgrade keeps the decision to disable it")
            self.assertEqual((root / CONFIGURATION / "environment").read_text(), "NO_PROXY=example.com\n")
            inside("systemctl", "enable", "exposure-agent.service")
            rpm_in_root("--erase", "exposure-agent")
            self.assertFalse((root / "usr/bin/exposure-agent").exists())
            self.assertFalse((root / WANTS).is_symlink())
            self.assertEqual((root / CONFIGURATION / "agent.yaml").read_text(), "mine\n")


class image(unittest.TestCase):
    """The container image; its root is entered with chroot, as its user, and is read-only."""

    def setUp(self):
        support.require_root()
        support.require("apt-get", "dpkg-deb")
        support.new_mounts()
        support.require_program(support.SIMULATOR)
        archive = native_archive()
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        made = support.run(sys.executable, "-B", support.SOURCE / "systemd/portable/image.py", archive,
                           self.directory / "image", check=False)
        if made.returncode != 0 and "apt-get" in made.stderr:
            self.skipTest(f"no base packages: {made.stderr.splitlines()[-1]}")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.root = self.unpack()

    def blob(self, descriptor):
        content = (self.directory / "image/blobs/sha256" / descriptor["digest"].removeprefix("sha256:")).read_bytes()
        self.assertEqual(descriptor["digest"], "sha256:" + hashlib.sha256(content).hexdigest())
        self.assertEqual(descriptor["size"], len(content))
        return content

    def unpack(self):
        self.assertEqual(json.loads((self.directory / "image/oci-layout").read_text()), {"imageLayoutVersion": "1.0.0"})
        index = json.loads((self.directory / "image/index.json").read_text())
        manifest = json.loads(self.blob(index["manifests"][0]))
        self.config = json.loads(self.blob(manifest["config"]))
        root = self.directory / "root"
        for layer, identity in zip(manifest["layers"], self.config["rootfs"]["diff_ids"], strict=True):
            content = gzip.decompress(self.blob(layer))
            self.assertEqual(identity, "sha256:" + hashlib.sha256(content).hexdigest())
            with tarfile.open(fileobj=io.BytesIO(content)) as files:
                files.extractall(root)
        return root

    def inside(self, *arguments, check=True):
        """The program in the image's root, mounted read-only, with volumes for state and configuration."""
        script = """
            mount --bind "$1" "$1"
            mount --bind "$1/../state" "$1/var/lib/exposure-agent"
            mount --bind "$1/../config" "$1/etc/exposure-agent"
            mount -o remount,ro,bind "$1"
            ! touch "$1/x" 2>/dev/null
            chroot=$(command -v chroot) root=$1
            shift
            exec env -i $ENVIRONMENT "$chroot" --userspec=65532:65532 --groups=65532 "$root" "$@"
        """
        config = self.config["config"]
        return support.run(*support.new_mounts(), "sh", "-euc", script, "sh", self.root, *config["Entrypoint"],
                           *arguments, check=check, env={**os.environ, "ENVIRONMENT": " ".join(config["Env"])})

    def test_one_shot_with_a_read_only_root_and_a_volume(self):
        self.assertEqual(self.config["config"]["User"], "65532:65532")
        self.assertEqual(self.config["config"]["Cmd"], ["run"])
        # as the init container in systemd/kubernetes prepares them; a Secret's files belong to root
        state, config = self.directory / "state", self.directory / "config"
        state.mkdir(mode=0o711)
        os.chown(state, 65532, 65532)
        config.mkdir()
        with harness.Simulator(harness.AT_ONCE) as simulator:
            shutil.copy(simulator.ca_file, config / "ca.pem")
            token = config / "token"
            token.write_text(simulator.access_token())
            identity = {"access_token": {"file": f"/{CONFIGURATION}/token"}}
            (config / "agent.yaml").write_text(harness.to_yaml(settings(
                simulator, identity, {}, owner="cluster-1")))
            for path in config.iterdir():
                path.chmod(0o444)
            self.inside("check")
            self.inside("reconcile", "--timeout", "60s")
            self.inside("status", "--check")
            published = state / "live/logs/siem/current/cert.pem"
            self.assertEqual(published.stat().st_uid, 65532)
            support.run("openssl", "verify", "-CAfile", simulator.issuer_ca_file, published)

    def test_the_same_archive_gives_the_same_image(self):
        again = self.directory / "again"
        support.run(sys.executable, "-B", support.SOURCE / "systemd/portable/image.py", native_archive(), again)
        self.assertEqual((again / "index.json").read_text(), (self.directory / "image/index.json").read_text())


class kubernetes(unittest.TestCase):
    """The examples are valid YAML, refer to what they define, and contain configurations that `check` accepts."""

    def setUp(self):
        try:
            import yaml  # noqa: PLC0415
        except ImportError:
            self.skipTest("python3-yaml is not installed")
        self.examples = {path.name: list(yaml.safe_load_all(path.read_text()))
                         for path in sorted((support.SOURCE / "systemd/kubernetes").glob("*.yaml"))}
        self.assertTrue(self.examples)

    def pods(self):
        for name, documents in self.examples.items():
            for document in documents:
                spec = document.get("spec", {})
                template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
                if template:
                    yield name, documents, spec, template["spec"]

    def test_references(self):
        for name, documents, spec, pod in self.pods():
            with self.subTest(name):
                volumes = {volume["name"] for volume in pod["volumes"]}
                volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
                for container in pod["containers"] + pod.get("initContainers", []):
                    self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
                defined = {(document["kind"], document["metadata"]["name"]) for document in documents}
                for volume in pod["volumes"]:
                    if "configMap" in volume:
                        self.assertIn(("ConfigMap", volume["configMap"]["name"]), defined)
                    if "persistentVolumeClaim" in volume:
                        self.assertIn(("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]), defined)
                if "serviceAccountName" in pod:
                    self.assertIn(("ServiceAccount", pod["serviceAccountName"]), defined)

    def test_the_agent_runs_restricted(self):
        for name, _, _, pod in self.pods():
            with self.subTest(name):
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertNotIn("fsGroup", pod["securityContext"])
                for container in pod["containers"] + pod.get("initContainers", []):
                    if "/exposure-agent:" in container["image"]:
                        self.assertEqual(container["securityContext"], {
                            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"]}})

    def test_configurations(self):
        support.require_program(support.PROGRAM)
        for name, documents in self.examples.items():
            (text,) = (document["data"]["agent.yaml"] for document in documents if document["kind"] == "ConfigMap")
            with self.subTest(name), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(text)
                file.flush()
                support.run(support.PROGRAM, "-c", file.name, "check", env={**os.environ, "POD_NAME": "siem-0"})


if __name__ == "__main__":
    support.main()
