"""The Debian package: lintian, its contents, and its lifecycle in clean roots from installation to purge."""

import pathlib
import re
import shutil
import tempfile
import unittest

import support

UNIT = "exposure-agent.service"
WANTS = f"etc/systemd/system/multi-user.target.wants/{UNIT}"
STATE, CONFIGURATION = "var/lib/exposure-agent", "etc/exposure-agent"
EXPECTED = """
/etc/exposure-agent/environment
/usr/bin/exposure-agent
/usr/bin/exposure-agent-probe
/usr/lib/systemd/system/exposure-agent.service
/usr/lib/systemd/system/exposure-agent-deploy.path
/usr/lib/systemd/system/exposure-agent-deploy.service
/usr/lib/systemd/system/exposure-agent-reconcile.service
/usr/lib/systemd/system/exposure-agent-reconcile.timer
/usr/lib/sysusers.d/exposure-agent.conf
/usr/lib/tmpfiles.d/exposure-agent.conf
/usr/share/bash-completion/completions/exposure-agent
/usr/share/doc/exposure-agent/changelog.gz
/usr/share/doc/exposure-agent/copyright
/usr/share/doc/exposure-agent/examples/agent.yaml
/usr/share/doc/exposure-agent/examples/ansible/README.md
/usr/share/doc/exposure-agent/examples/ansible/inventory/group_vars/all.yml
/usr/share/doc/exposure-agent/examples/ansible/inventory/group_vars/keepers.yml
/usr/share/doc/exposure-agent/examples/ansible/inventory/group_vars/readers.yml
/usr/share/doc/exposure-agent/examples/ansible/inventory/hosts.yml
/usr/share/doc/exposure-agent/examples/ansible/roles/exposure_agent/defaults/main.yml
/usr/share/doc/exposure-agent/examples/ansible/roles/exposure_agent/handlers/main.yml
/usr/share/doc/exposure-agent/examples/ansible/roles/exposure_agent/meta/main.yml
/usr/share/doc/exposure-agent/examples/ansible/roles/exposure_agent/tasks/main.yml
/usr/share/doc/exposure-agent/examples/ansible/roles/exposure_agent/templates/agent.yaml.j2
/usr/share/doc/exposure-agent/examples/ansible/site.yml
/usr/share/doc/exposure-agent/examples/drop-ins/exposure-agent.service.d/client-secret.conf
/usr/share/doc/exposure-agent/examples/drop-ins/exposure-agent.service.d/give-to-group.conf
/usr/share/doc/exposure-agent/examples/drop-ins/exposure-agent.service.d/output-group.conf
/usr/share/doc/exposure-agent/examples/drop-ins/exposure-agent.service.d/proxy.conf
/usr/share/doc/exposure-agent/examples/drop-ins/exposure-agent-deploy.service.d/commands.conf
/usr/share/doc/exposure-agent/examples/drop-ins/vector.service.d/client-certificate.conf
/usr/share/doc/exposure-agent/examples/fleet/publish-pair-to-etcd
/usr/share/doc/exposure-agent/examples/fleet/publish-pair-to-kubernetes
/usr/share/doc/exposure-agent/examples/fleet/publish-pair-to-vault
/usr/share/doc/exposure-agent/examples/fleet/publish-token-over-ssh
/usr/share/doc/exposure-agent/examples/fleet/publish-token-to-kubernetes
/usr/share/doc/exposure-agent/examples/fleet/receive-token
/usr/share/doc/exposure-agent/examples/fleet/with-environment
/usr/share/doc/exposure-agent/examples/grafana/exposure-agent-fleet.json
/usr/share/doc/exposure-agent/examples/grafana/exposure-agent.json
/usr/share/doc/exposure-agent/examples/notify/chat.sh
/usr/share/doc/exposure-agent/examples/notify/journal.sh
/usr/share/doc/exposure-agent/examples/notify/mail.sh
/usr/share/doc/exposure-agent/examples/notify/pager.sh
/usr/share/doc/exposure-agent/examples/prometheus/exposure-agent-fleet.rules.yml
/usr/share/doc/exposure-agent/examples/prometheus/exposure-agent.rules.yml
/usr/share/exposure-agent/agent.schema.json
/usr/share/fish/vendor_completions.d/exposure-agent.fish
/usr/share/man/man1/exposure-agent.1.gz
/usr/share/man/man1/exposure-agent-probe.1.gz
/usr/share/man/man5/exposure-agent.yaml.5.gz
/usr/share/man/man7/exposure-agent-json.7.gz
/usr/share/man/man7/exposure-agent-runbook.7.gz
/usr/share/man/man8/exposure-agent-deploy.8.gz
/usr/share/zsh/vendor-completions/_exposure-agent
""".split()


def rebuilt(deb, version):
    """The same package with another version number."""
    tree = deb.parent / version
    support.run("dpkg-deb", "--raw-extract", deb, tree)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", f"Version: {version}", control.read_text()))
    made = deb.parent / f"exposure-agent-{version}.deb"
    support.run("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, made)
    shutil.rmtree(tree)
    return made


# recipes that people copy unchanged
SCRIPTS = re.compile(r".*/examples/(fleet|notify)/[a-z0-9.-]+$")


class package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.deb = support.package()

    def test_lintian_finds_no_error(self):
        support.require("lintian")
        support.run("lintian", "--allow-root", "--fail-on", "error", self.deb)

    def test_content(self):
        lines = support.run("dpkg-deb", "--contents", self.deb).stdout.splitlines()
        entries = {words[5].removeprefix("."): (words[0], words[1]) for words in (line.split() for line in lines)}
        files = sorted(path for path in entries if not path.endswith("/"))
        self.assertEqual(files, sorted(EXPECTED))
        for path, (mode, owner) in entries.items():
            self.assertEqual(owner, "root/root", path)
            executable = path.endswith("/") or path.startswith("/usr/bin/") or SCRIPTS.match(path)
            self.assertEqual(mode[1:], "rwxr-xr-x" if executable else "rw-r--r--", path)

    def test_it_asks_for_systemd_and_the_libraries_it_needs(self):
        self.assertIn("systemd (>= 247)", support.run("dpkg-deb", "--field", self.deb, "Depends").stdout)
        wanted = set(support.dependencies(self.deb))
        self.assertEqual([name for name in wanted if re.match("libboost|libyaml-cpp", name)], [])
        for program in (support.PROGRAM, support.BUILD / "exposure-agent-probe"):
            libraries = re.findall(r"NEEDED.*\[(.+)\]", support.run("readelf", "--dynamic", "--wide", program).stdout)
            self.assertTrue(libraries, program)
            for library in libraries:
                found = support.run("dpkg-query", "--search", f"*/{library}").stdout
                self.assertTrue(wanted & {line.split(":")[0] for line in found.splitlines()}, library)


class tools(unittest.TestCase):
    def test_packing_fails_without_what_finds_the_libraries(self):
        support.require("cpack")
        for missing, package in (("dpkg-shlibdeps", "dpkg-dev"), ("file", "file")):
            with self.subTest(missing), tempfile.TemporaryDirectory() as directory:
                programs = pathlib.Path(directory, "bin")
                programs.mkdir()
                for tool in {"dpkg-shlibdeps", "file"} - {missing}:
                    (programs / tool).symlink_to("/bin/true")
                done = support.run(shutil.which("cpack"), "-G", "DEB", "--config", support.BUILD / "CPackConfig.cmake",
                                   "-B", f"{directory}/package", check=False, env={"PATH": programs})
                self.assertNotEqual(done.returncode, 0, done.stdout)
                shown = " ".join(done.stderr.split())
                self.assertIn(f"{missing} is not installed; run: apt-get install {package}", shown)
                self.assertEqual(list(pathlib.Path(directory).rglob("*.deb")), [])


class life(unittest.TestCase):
    """One root, from the first installation to the purge; systemd does not run in it."""

    suite = support.HOST

    def setUp(self):
        support.new_mounts()
        self.deb = support.package()
        self.root = self.enterContext(support.bootable_root(self.deb, self.suite))

    def inside(self, *command, check=True):
        return support.run_in(self.root, *command, check=check)

    def dpkg(self, *arguments):
        return self.inside("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", *arguments)

    def install(self, deb):
        shutil.copy(deb, self.root / "root/package.deb")
        self.dpkg("--install", "/root/package.deb")

    def test_life(self):
        with self.subTest("installation: user, unit and program are there, nothing runs"):
            self.install(self.deb)
            uid = int(self.inside("id", "-u", "exposure-agent").stdout)
            self.assertTrue((self.root / WANTS).is_symlink())
            self.assertEqual(self.inside("systemctl", "is-enabled", "exposure-agent-reconcile.timer", check=False).stdout,
                             "disabled\n")
            self.assertEqual((self.root / "run/exposure-agent-deploy/spool").stat().st_uid, uid)
            self.assertFalse((self.root / CONFIGURATION / "agent.yaml").exists())
            self.inside("exposure-agent", "--version")
            self.assertNotIn("not found", self.inside("ldd", "/usr/bin/exposure-agent-probe").stdout)

        kept = [self.root / CONFIGURATION / "agent.yaml", self.root / STATE / "private/token"]
        environment = self.root / CONFIGURATION / "environment"
        for path in kept:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("mine\n")
        environment.write_text("NO_PROXY=example.com\n")

        with self.subTest("upgrade: state, configuration and the decision to disable it are kept"):
            self.inside("systemctl", "disable", UNIT)
            self.install(rebuilt(self.deb, "99.1"))
            self.assertFalse((self.root / WANTS).exists())
            self.assertEqual([path.read_text() for path in kept], ["mine\n"] * 2)
            self.assertEqual(environment.read_text(), "NO_PROXY=example.com\n")

        with self.subTest("removal: the program goes, state and configuration stay"):
            self.dpkg("--remove", "exposure-agent")
            self.assertFalse((self.root / "usr/bin/exposure-agent").exists())
            self.assertTrue(all(path.exists() for path in (*kept, environment)))

        with self.subTest("purge: everything goes"):
            self.dpkg("--purge", "exposure-agent")
            left = {path for path in (CONFIGURATION, STATE, "run/exposure-agent-deploy") if (self.root / path).exists()}
            self.assertEqual(left, set())
            self.assertEqual(list((self.root / "etc/systemd").rglob("exposure-agent*")), [])
            self.assertEqual(list((self.root / "var/lib/systemd").rglob("*exposure-agent*")), [])

        with self.subTest("a new beginning: it is enabled again"):
            self.install(self.deb)
            self.assertTrue((self.root / WANTS).is_symlink())


class life_on_debian_13(life):
    suite = "trixie"


class life_on_ubuntu_24_04(life):
    suite = "noble"


if __name__ == "__main__":
    support.main()
