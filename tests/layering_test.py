"""The layering of the source tree: which directory may include which, and other conventions that readers rely on.

A lower module never includes a higher one. CMake checks that for linking; this test checks it for headers.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[1]

TOP_LEVEL = {
    "CMakeLists.txt", "README.md", "agent", "config", "crypto", "policy", "systemd", "tests",
    ".ci", ".clang-format", ".clang-tidy", ".gitignore",
}

# Each module, and what it may include besides itself.
IO = {"policy", "crypto", "agent/io"}
MODULES = {
    "policy": set(),
    "config": {"policy"},
    "crypto": {"policy"},
    "agent/io": {"policy", "crypto"},
    "agent/platform": IO,
    "agent/disk": IO,
    "agent/deploy": IO | {"agent/disk"},
    "agent/reconcile": IO | {"agent/platform", "agent/disk", "agent/deploy"},
    "agent/service": IO | {"agent/platform", "agent/disk", "agent/deploy", "agent/reconcile", "config"},
}
MODULES["agent/cli"] = MODULES["agent/service"] | {"agent/service"}
MODULES["agent"] = {"agent/cli"}  # main.cpp
MODULES["tests/simulator"] = set()  # follows the reference of the platform, not our client

# Libraries restricted to certain modules, by prefix of the header name.
LIBRARIES = {
    "yaml-cpp/": {"config"},
    "openssl/": {"crypto", "agent/io", "tests/simulator"},
    "CLI/": {"agent/cli", "tests/simulator"},
    "librdkafka/": {"agent/deploy"},
    "systemd/": {"agent/io"},
    "sqlite3": {"agent/disk"},
}
# The parts of Boost without I/O, all that the pure modules may use; policy has only these and the standard
# library.
PURE_BOOST = ("boost/describe", "boost/mp11", "boost/pfr", "boost/system/", "boost/json", "boost/url")
PURE = {"policy", "config", "crypto"}

AWAITABLE_OR = "agent/io/async"  # the only place that combines awaitables with ||

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def sources(root):
    """Yields (module, path relative to the root, text) for every source file."""
    for module in MODULES:
        for path in sorted((root / module).glob("*.[ch]pp")):
            yield module, path.relative_to(root), path.read_text(encoding="utf-8")


def include_mistake(root, module, path, quoted, header):
    if quoted:
        if module == "tests/simulator" and (root / path.parent / header).is_file():
            return None
        if not (root / header).is_file():
            return f"includes {header}, which is no path from the top level"
        other = str(pathlib.PurePath(header).parent)
        if other != module and other not in MODULES[module]:
            return f"includes {header}: {module} knows {', '.join(sorted(MODULES[module])) or 'no other module'}"
        return None
    for library, modules in LIBRARIES.items():
        if header.startswith(library) and module not in modules:
            return f"includes <{header}>, which is for {', '.join(sorted(modules))}"
    if module in PURE and header.startswith("boost/") and not header.startswith(PURE_BOOST):
        return f"includes <{header}>: {module} has {', '.join(PURE_BOOST)} only"
    if module == "policy" and re.search(r"[/.]", header) and not header.startswith(PURE_BOOST):
        return f"includes <{header}>: {module} has the standard library and {', '.join(PURE_BOOST)} only"
    return None


def mistakes(root):
    """Yields a line for each violation."""
    for module, path, text in sources(root):
        for bracket, header in INCLUDE.findall(text):
            mistake = include_mistake(root, module, path, bracket == '"', header)
            if mistake:
                yield f"{path}: {mistake}"
        code = COMMENT.sub("", text)
        if module != "agent/io" and module != "tests/simulator" and re.search(r"\bdetached\b", code):
            yield f"{path}: detached: only agent/io spawns without waiting"
        if "awaitable_operators" in code and not str(path).startswith(AWAITABLE_OR):
            yield f"{path}: awaitable_operators are for {AWAITABLE_OR}: || cancels what it does not wait for"
    for name in sorted(top_level(root) - TOP_LEVEL):
        yield f"{name}: not on the plan of the top level"


def top_level(root):
    """Names at the top level, without build output and, in a clone, files not tracked by git."""
    tracked = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=False)
    if tracked.returncode == 0 and tracked.stdout:
        return {line.split("/")[0] for line in tracked.stdout.splitlines()}
    return {path.name for path in root.iterdir() if not path.name.startswith("build")}


class layering(unittest.TestCase):
    maxDiff = None

    def test_tree(self):
        self.assertEqual(list(mistakes(SOURCE)), [])

    def test_every_room_is_known(self):
        found = {str(path.parent.relative_to(SOURCE)) for top in ("agent", "config", "crypto", "policy")
                 for path in (SOURCE / top).rglob("*.[ch]pp")}
        self.assertLessEqual(found, set(MODULES))

    def test_it_finds_what_is_forbidden(self):
        cases = {
            "policy/result.hpp": ('#include "crypto/key.hpp"', "includes crypto/key.hpp"),
            "policy/plan.cpp": ("#include <unistd.h>", "includes <unistd.h>"),
            "config/load.hpp": ('#include "crypto/key.hpp"', "includes crypto/key.hpp"),
            "crypto/key.hpp": ("#include <boost/asio/awaitable.hpp>", "includes <boost/asio/awaitable.hpp>"),
            "agent/io/clock.hpp": ('#include "agent/disk/state_directory.hpp"', "includes agent/disk/state_directory.hpp"),
            "agent/platform/json.hpp": ('#include "agent/disk/state_directory.hpp"', "includes agent/disk/state_directory.hpp"),
            "agent/disk/state_directory.hpp": ("#include <openssl/evp.h>", "includes <openssl/evp.h>"),
            "agent/deploy/hooks.hpp": ('#include "agent/reconcile/pass.hpp"', "includes agent/reconcile/pass.hpp"),
            "agent/reconcile/pass.hpp": ('#include "config/load.hpp"', "includes config/load.hpp"),
            "agent/reconcile/look.cpp": ("auto x = asio::detached;", "detached"),
            "agent/disk/state_directory.cpp": ("using namespace boost::asio::experimental::awaitable_operators;", "awaitable_op"),
            "agent/platform/json.cpp": ("#include <sqlite3.h>", "includes <sqlite3.h>"),
            "agent/disk/directory.cpp": ('#include "errors.hpp"', "no path from the top level"),
            "tests/simulator/ca.cpp": ('#include "crypto/key.hpp"', "includes crypto/key.hpp"),
            "docs": ("", "not on the plan"),
        }
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for module in MODULES:
                if (SOURCE / module).is_dir():
                    shutil.copytree(SOURCE / module, root / module, dirs_exist_ok=True)
            self.assertEqual(list(mistakes(root)), [], "the copy is as good as the original")
            for name, (line, complaint) in cases.items():
                with self.subTest(name):
                    path = root / name
                    before = path.read_text() if path.exists() else None
                    path.write_text((before or "") + line + "\n")
                    found = list(mistakes(root))
                    self.assertEqual(len(found), 1, found)
                    self.assertTrue(found[0].startswith(name + ": ") and complaint in found[0], found)
                    path.write_text(before) if before is not None else path.unlink()


if __name__ == "__main__":
    unittest.main(verbosity=2)
