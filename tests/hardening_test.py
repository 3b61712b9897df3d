"""The programs of a Release build are hardened like a distribution's packages, according to readelf."""

import pathlib
import platform
import re
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path("build")
PROGRAMS = ("exposure-agent", "exposure-agent-probe")
SKIPPED = 77


def cached(name):
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return found.group(1) if found else ""


def readelf(option, program):
    return subprocess.run(["readelf", "-W", option, BUILD / program], capture_output=True, text=True,
                          check=True).stdout


class hardening(unittest.TestCase):
    @staticmethod
    def each(option):
        for program in PROGRAMS:
            yield readelf(option, program)

    def test_position_independent(self):
        for header in self.each("-h"):
            self.assertRegex(header, r"Type:\s+DYN")
        for dynamic in self.each("-d"):
            self.assertRegex(dynamic, r"FLAGS_1.*\bPIE\b")

    def test_relocations_are_read_only_and_bound_at_start(self):
        for segments in self.each("-l"):
            self.assertIn("GNU_RELRO", segments)
        for dynamic in self.each("-d"):
            self.assertRegex(dynamic, r"\(FLAGS\).*BIND_NOW|FLAGS_1.*\bNOW\b")

    def test_the_stack_is_not_executable(self):
        for segments in self.each("-l"):
            flags = re.search(r"GNU_STACK(?:\s+0x[0-9a-f]+){5}\s+([RWE ]+?)\s+0x", segments)
            self.assertIsNotNone(flags)
            self.assertNotIn("E", flags.group(1))

    def test_canaries_and_checked_functions(self):
        for symbols in self.each("--dyn-syms"):
            self.assertIn("__stack_chk_fail", symbols)
            self.assertRegex(symbols, r"__\w+_chk\b")

    # The program as a whole is marked only if every library linked into it is; our own code has the landing pads for
    # indirect branches.
    @unittest.skipUnless(platform.machine() == "x86_64", "CET is of x86-64")
    def test_indirect_branches_have_landing_pads(self):
        for program, functions in (("exposure-agent", 5000), ("exposure-agent-probe", 50)):
            code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", BUILD / program], capture_output=True, text=True,
                                  check=True).stdout
            self.assertGreater(len(re.findall(r"\bendbr64\b", code)), functions, program)


if __name__ == "__main__":
    kind = cached("CMAKE_BUILD_TYPE")
    if kind not in ("Release", "RelWithDebInfo", "MinSizeRel") or cached("SANITIZE") == "ON":
        print(f"skipped: a {kind or 'build without a type'} build is not hardened; configure with "
              "-DCMAKE_BUILD_TYPE=Release")
        sys.exit(SKIPPED)
    unittest.main()
