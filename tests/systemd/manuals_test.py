"""The manuals render without warnings and cover every command, flag and configuration key of the program."""

import json
import os
import re
import unittest

import support

MANUALS = {path.name: path for path in (support.SOURCE / "systemd/man").iterdir()}


def text_of(name):
    """The rendered manual as plain text, without hyphenation and overstrikes."""
    shown = support.run("man", "--encoding=UTF-8", "--no-hyphenation", "-l", MANUALS[name],
                        env={**os.environ, "MANWIDTH": "500", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}).stdout
    return re.sub(r".\x08", "", shown)


def verbs(path=()):
    """Every command with its flags, from the program's own help."""
    shown = support.run(support.PROGRAM, *path, "--help").stdout
    yield path, set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown))
    commands = re.search(r"(?ms)^(?:Subcommands|Verbs):\n(.*?)(?:\n\n|\Z)", shown)
    for verb in re.findall(r"(?m)^  ([a-z]+)\b", commands[1]) if commands else ():
        yield from verbs((*path, verb))


def keys(schema):
    """Every configuration key, from the JSON Schema."""
    if isinstance(schema, list):
        for part in schema:
            yield from keys(part)
    elif isinstance(schema, dict):
        for word, part in schema.items():
            if word == "properties":
                yield from part
            yield from keys(part)


class manuals(unittest.TestCase):
    def test_they_render_without_a_warning(self):
        support.require("man", "groff")
        for name, path in MANUALS.items():
            with self.subTest(name):
                done = support.run("man", "--warnings", "--encoding=UTF-8", "-l", path,
                                   env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
                self.assertEqual(done.stderr, "")
                self.assertIn("NAME", done.stdout)

    def test_mandoc_finds_no_fault(self):
        support.require("mandoc")
        for name, path in MANUALS.items():
            with self.subTest(name):
                done = support.run("mandoc", "-Tlint", "-Wwarning", path, check=False)
                self.assertEqual(done.stdout + done.stderr, "")

    def test_every_verb_and_flag_is_mentioned(self):
        support.require("man", "groff")
        support.require_program(support.PROGRAM)
        text = text_of("exposure-agent.1")
        known = dict(verbs())
        self.assertGreater(len(known), 15)
        for path, flags in known.items():
            if path:
                self.assertRegex(text, rf"(?m)^ +{' '.join(path)}\b", "a verb is missing")
            for flag in flags:
                self.assertIn(flag, text, f"a flag of {' '.join(path) or 'the program'} is missing")

    def test_every_key_is_mentioned(self):
        support.require("man", "groff")
        support.require_program(support.PROGRAM)
        text = text_of("exposure-agent.yaml.5")
        known = set(keys(json.loads(support.run(support.PROGRAM, "schema").stdout)))
        self.assertGreater(len(known), 50)
        missing = {key for key in known if not re.search(rf"(?<![\w.]){re.escape(key)}(?!\w)", text)}
        self.assertEqual(missing, set())


if __name__ == "__main__":
    support.main()
