"""The installed units: systemd accepts them, and they are as tightly sandboxed as documented."""

import os
import pathlib
import re
import shutil
import tempfile
import unittest

import support

AGENT, RECONCILE, DEPLOY = (f"exposure-agent{part}.service" for part in ("", "-reconcile", "-deploy"))
LOOSEST = 1.2  # maximum exposure level in `systemd-analyze security`; 10 is the worst


class units(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        support.require("systemd-analyze")
        cls.root = cls.enterClassContext(support.staged())
        cls.units = cls.root / "usr/lib/systemd/system"
        cls.examples = cls.root / "usr/share/doc/exposure-agent/examples/drop-ins"

    def verify(self, directory, *names):
        """`systemd-analyze verify` looks for the programs on this host, where the agent is not installed."""
        for unit in directory.glob("*.service"):
            unit.write_text(unit.read_text().replace("/usr/bin/exposure-agent", shutil.which("true")))
        done = support.run("systemd-analyze", "verify", "--man=no", *[directory / name for name in names],
                           env={**os.environ, "SYSTEMD_UNIT_PATH": f"{directory}:"}, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def copied(self):
        where = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "units"
        shutil.copytree(self.units, where)
        return where

    def test_systemd_finds_no_fault(self):
        where = self.copied()
        names = sorted(unit.name for unit in where.iterdir())
        self.assertEqual(names, ["exposure-agent-deploy.path", DEPLOY, RECONCILE, "exposure-agent-reconcile.timer", AGENT])
        self.verify(where, *names)

    def test_every_example_is_a_valid_drop_in(self):
        drop_ins = sorted(self.examples.glob("*.d/*.conf"))
        self.assertGreaterEqual(len(drop_ins), 6)
        for drop_in in drop_ins:
            with self.subTest(drop_in.name):
                where = self.copied()
                unit = drop_in.parent.name.removesuffix(".d")
                if not (where / unit).exists():
                    (where / unit).write_text(f"[Service]\nExecStart={shutil.which('true')}\n")
                shutil.copytree(drop_in.parent, where / drop_in.parent.name)
                self.verify(where, unit)

    def test_exposure_stays_low(self):
        for name in (AGENT, RECONCILE, DEPLOY):
            with self.subTest(name):
                said = support.run("systemd-analyze", "security", "--offline=true", "--no-pager", self.units / name,
                                   check=False).stdout
                level = float(re.search(r"exposure level for \S+: ([0-9.]+)", said)[1])
                self.assertLessEqual(level, LOOSEST, said)

    def test_units_name_the_installed_program(self):
        for name in (AGENT, RECONCILE, DEPLOY):
            self.assertRegex((self.units / name).read_text(), r"(?m)^ExecStart=/usr/bin/exposure-agent \w")
            self.assertNotIn("@", (self.units / name).read_text().replace("@system-service", "").replace(
                "@privileged", "").replace("@resources", ""))

    def test_user_and_directories_are_made(self):
        support.require("systemd-sysusers", "systemd-tmpfiles")
        support.require_root()
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (root / "etc").mkdir()
        support.run("systemd-sysusers", f"--root={root}", self.root / "usr/lib/sysusers.d/exposure-agent.conf")
        (entry,) = [line for line in (root / "etc/passwd").read_text().splitlines() if line.startswith("exposure-agent:")]
        _, _, uid, _, _, home, shell = entry.split(":")
        self.assertEqual((home, shell), ("/var/lib/exposure-agent", "/usr/sbin/nologin"))
        support.run("systemd-tmpfiles", "--create", f"--root={root}", self.root / "usr/lib/tmpfiles.d/exposure-agent.conf")
        facts = {path: ((root / path).stat().st_uid, (root / path).stat().st_gid, oct((root / path).stat().st_mode & 0o7777))
                 for path in (f"run/exposure-agent-deploy{part}" for part in ("", "/spool", "/results"))}
        self.assertEqual(facts, {"run/exposure-agent-deploy": (0, 0, "0o755"),
                                 "run/exposure-agent-deploy/spool": (int(uid), 0, "0o770"),
                                 "run/exposure-agent-deploy/results": (0, 0, "0o755")})


if __name__ == "__main__":
    support.main()
