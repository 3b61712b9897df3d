"""Collects every message of the program and checks it against the style of contract section 8.

With --list, prints the messages for review.
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]

MODULES = ("agent", "config", "policy", "crypto")

FORBIDDEN = {
    r"as the file wants": "up to date",
    r"\bis no (?!longer\b)": "is not a",
    r"\bthere is no\b": "not found, no ...",
    r"\bsays? `": "run: COMMAND",
    r"\bmend": "fix, correct",
    r"\banew\b": "again",
    r"without a word": "no output",
    r"nobody came": "timed out",
    r"generation before": "previous certificate",
    r"\bours alone\b": "private",
    r"by user 0": "by root",
    r"in the way\b": "already exists",
    r"no such thing": "not found",
    r"\bwhoever\b": "who",
    r"\(s\)": "policy::count",
    r"\bshall\b": "will",
    r"\bnot believed\b": "sent an invalid response",
    r"\bby itself\b": "automatically",
    r"\b(some|no)body\b": "another user, no one",
    r"\bby everybody\b": "world-readable, world-writable",
    r"\bby others than\b": "by users other than",
    r"\b(is|was) ended\b|\bended (by|with)\b|\bhung\b": "was killed, timed out, failed with exit code",
    r"\bsaying\b": "output",
    r"\bdid not help\b": "failed",
    r"\bleft alone\b|\bleft there\b": "was not changed, created by exposure-agent",
    r"\bthrown away\b": "discarded",
    r"\blook(ed)? at (\W|$)|\bcannot be looked at\b": "inspect",
    r"\bno (regular file|link|word|verdict|assignment)\b": "not a ...",
    r"\btakes the certificate\b": "accepts the certificate",
    r"\bnothing can be kept\b|\bkeep room\b": "cannot write to, reserve space",
    r"\bstands? in\b": "is in, already exists",
    r"\bit is repeated\b|\bis tried again\b": "is retried",
    r"\bno answer came\b": "got no response",
    r"\ball the same\b": "anyway",
    r"\bwithout a question\b": "without confirmation",
    r"\bnot ours\b.*\bway\b": "not created by exposure-agent",
}


def literals(text):
    """The string literals of a C++ source; adjacent ones are joined, as the compiler does."""
    text = re.sub(r'R"shell\(.*?\)shell"', '""', text, flags=re.S)
    text = re.sub(r"(?m)^\s*#include.*$|//[^\n\"]*$", "", text)
    quoted = r'"(?:[^"\\\n]|\\.)*"'
    for match in re.finditer(rf"{quoted}(?:\s+{quoted})*", text):
        yield "".join(part[1:-1] for part in re.findall(quoted, match[0]))


def sentences(module):
    """Literals that contain a space are for people; single words are for programs."""
    for path in sorted((ROOT / module).rglob("*.cpp")):
        for text in literals(path.read_text()):
            if " " in text.strip():
                yield path.relative_to(ROOT), text


class Messages(unittest.TestCase):
    def test_form(self):
        seen = 0
        for module in MODULES:
            for path, text in sentences(module):
                seen += 1
                with self.subTest(path=str(path), text=text):
                    for pattern, instead in FORBIDDEN.items():
                        self.assertNotRegex(text, pattern, f"write: {instead}")
        self.assertGreater(seen, 600)

    def test_counts_agree_with_their_nouns(self):
        """Only policy::count combines a number with its noun."""
        counted = re.compile(r'to_string\([^;]*\) \+\s*" (users|exposures|certificates|hosts)\b')
        for module in ("agent", "config", "policy"):
            for path in sorted((ROOT / module).rglob("*.cpp")):
                with self.subTest(path=str(path)):
                    self.assertIsNone(counted.search(path.read_text()))

    def test_it_can_fail(self):
        found = list(literals('x = "there is " /* */ "no";\n// "nothing"\ny = "a" "b";'))
        self.assertIn("ab", found)
        for sentence in ("there is no login: say `login`", "hook 1 of 1 was ended by signal 9, saying: x",
                         "spool entry was thrown away", "cannot look at "):
            self.assertRegex(sentence, "|".join(FORBIDDEN))


if __name__ == "__main__":
    if "--list" in sys.argv:
        for where in MODULES:
            for file, sentence in sentences(where):
                print(f"{file}: {sentence}")
    else:
        unittest.main()
