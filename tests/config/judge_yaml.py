#!/usr/bin/env python3
"""Compares the YAML reader with PyYAML: judge_yaml.py PRINT_TREE EXAMPLE.

The reader must reject every file that PyYAML rejects, and both must read the same values: a corpus of valid
and broken files, and thousands of small changes to the example. Exits 77 (skipped) if
python3-yaml is not installed."""

import json
import random
import subprocess
import sys

try:
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}; install python3-yaml")
    sys.exit(77)

CHANGES = 1000
CHARACTERS = "\"'[]{}:,-#\n |>%@`?\\a0~"  # PyYAML rejects a tab where YAML 1.2 allows it

RIGHT = [
    "a: b\n", "a:\n- b\n- c\n", "a:\n  - b: 1\n    c: 2\n  - d\n", "- - a\n  - b\n- c\n", "- a: 1\n  b:\n  - 2\n",
    "a: 'it''s'\n", 'a: "x\\"y\\u00e9\\n"\n', "a: it's\n", 'a: say "hello"\n', "a: b#c\n", "a: b #c\n", "# c\na: b\n",
    "a: [b, c,]\n", "a: {b: 1, c: [d, {e: f}]}\n", "a: [\n  b,\n  c # d\n]\n", "a: {b: 1,\n  c: 2}\nd: e\n",
    "a: |\n  b: c\n   d\n\n  e\nf: g\n", "a: >-\n  b\n  c\n", "a: |2\n   b\n", "- |\n  a\n- b\n", "a: b\n  c\n  d\nf: g\n",
    'a: "b\n  c"\nd: e\n', "a: 'b\n\n  c'\n", "---\na: b\n...\n", "a:\nb:\n", "a: ~\n", "'a b': c\n", '"a": b\n',
    "a:   b   \n", "a: b\r\nc: d\r\n", "\ufeffa: b\n", "a: http://x:8080/y\n", "a: -b\n", "a: [-b]\n",
    "a: b\n\n\n# x\n\nc: d\n", "a:\n    b: 1\n    c:\n      d: 2\ne: 3\n", "a: {}\nb: []\n", "a: [b: c]\n",
    "a: {b, c: }\n", 'a: {"b":c}\n', "a: 'b' # c\n", "a: |\n  b\n# c\nd: e\n", "a: é\n", "a:\n-  b: 1\n   c: 2\n",
    "a: b,c\n", "a: b}c]\n", "-\n  a: b\n-\n  - c\n", "a: |+\n  b\n\nc: d\n", "a: x 'y' z\n", "a: ''\n", 'a: ""\n',
    "a: b\n", "a:\n  'b'\n", "a:\n  b\n", "a:\n  [b]\n", "a: [b, 'c', \"d\"]\n", "a: {b: 'c:d', e: f:g}\n", "a: $b\n",
    "'a': 'b'\n'c': 'd'\n", "a: [[b], [c]]\n", "a: b: \n".replace(": \n", ":c\n"), "a:\n- b\nc:\n- d\n",
]

BROKEN = [
    'a: "b\n', "a: 'b\n", 'a:\n  - c: "siem\n  - name: b\n', 'a: "b\nc: "d"\n', "a: [b\n", "a: {b: c\n", "a: [b}\n",
    "a: b]\nc: [\n", "a: [b, c\nd: e\n", "a: ]\n", "a: }\n", "a: [,b]\n", "a: [b,,c]\n", "a: {,}\n", 'a: "b" c\n',
    "a: 'b'c\n", 'a: "b""c"\n', "a: [b] c\n", "a: {b: c} d\n", "a: b: c\n", "a: 'b': c\n", "a: - b\n", "a: b\n  c: d\n",
    "a:\n  b: 1\n c: 2\n", "a:\n    b: 1\n  c: 2\n", "a: 1\n b: 2\n", "\ta: b\n", "a:\n\tb: c\n",
    "a:\n  b: c\n\td: e\n", "a: @b\n", "a: `b`\n", "a: %b\n", "a: b\nc\n", "a: b\nc\nd: e\n", "- a\nb: c\n", "a: b\n- c\n",
    "a: [b c: d: e]\n", "a: {b: c: d}\n", "a: {b: c d: e}\n", "a: \"\\q\"\n", "a: \"\\u12\"\n", "a: |x\n  b\n", "a: > b\n",
    "a: *b\n", "a: b\n...\nc: d\n", "a: b\n--- c\n", "a: {b: [c}\n", "a: [b]]\n", "a: {b: c}}\n", "a: {b\n", "a: ,b\n",
    "a: ? b\n", "[a\n", "{\n", "'", '"', "a: 'b\nc: d'\ne: 'f\n", "a:\n  - b\n c\n", "a: !b!c d\n", "a: &b\n&c\n",
    "a: \"b\n--- c\"\n", "a: [b\n---\n]\n", "a:\n - b\n  - c\n - d: e\n   - f\n", "- a: b\n c: d\n", "a: |\n  b\n c\n",
    "a: {b: \"c}\n", "a: [\"b, c]\nd: e\n", "a: 'b\\'c'\n", "x: [a: b: c]\n", "a: [b\n, c] d\n", "a: \x01\n", "a: b\x00c\n",
]

# Rejected by YAML 1.2 or by this reader only: PyYAML reads YAML 1.1 and is lenient where 1.2 is not.
STRICTER = [
    "a: b\n - c\n", 'a: "b"#c\n', "a: [b]#c\n", "a: [b,#c\n]\n", 'a:\n  b: "c\n d"\n', "a: b\rc: d\n", "a: &b c\n", "a: !!str c\n",
    "a: &b c\nd: *b\n", "<<: {a: b}\n", "? a\n: b\n", "? [a]\n: b\n", "[a]: b\n", "{a: b}: c\n", "a: 1\na: 2\n",
    "a: {b: 1, b: 2}\n", "---\na: b\n---\nc: d\n", "a: ! b\n", "a: " + "[" * 40 + "]" * 40 + "\n", "a: b\x7f\n", "a: \x85\n",
]


class NoTypes(yaml.BaseLoader):
    """Loads every scalar as a string; a duplicate key is an error."""


def read(text):
    """What PyYAML makes of a text, in JSON types, or None if it rejects the text."""
    try:
        documents = list(yaml.load_all(text, Loader=NoTypes))
        value = documents[0] if documents else ""
        return {"read": json.loads(json.dumps(value))} if len(documents) < 2 else None
    except (yaml.YAMLError, TypeError, ValueError, RecursionError):
        return None


def null_is_empty(value):
    if isinstance(value, dict):
        return {key: null_is_empty(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [null_is_empty(inner) for inner in value]
    return "" if value in ("~", "null", "Null", "NULL") else value


def trees_of(program, texts):
    """The reader's answer for each text. NUL separates the texts, so none may contain it."""
    answer = subprocess.run([program], input=b"".join(text.encode() + b"\0" for text in texts), check=True,
                            capture_output=True).stdout
    trees = [json.loads(line) for line in answer.decode().splitlines()]
    assert len(trees) == len(texts), (len(trees), len(texts))
    return trees


def is_error(tree):
    return isinstance(tree, dict) and list(tree) == ["error"]


def changes(text, count):
    source = random.Random(17)
    for _ in range(count):
        at = source.randrange(len(text))
        if source.random() < 0.3:
            yield text[:at] + text[at + source.randint(1, 3):]
        else:
            yield text[:at] + source.choice(CHARACTERS) + text[at:]


def main(program, example):
    failures = []
    for text, tree in zip(RIGHT, trees_of(program, RIGHT)):
        wanted = read(text)
        if wanted is None:
            failures.append(f"PyYAML refuses {text!r}, which is listed as right")
        elif is_error(tree):
            failures.append(f"refused {text!r}: {tree['error']}")
        elif null_is_empty(wanted["read"]) != null_is_empty(tree):
            failures.append(f"read {text!r} as {tree}, not as {wanted['read']}")
    broken = [text for text in BROKEN if "\0" not in text]
    for text, tree in zip(broken, trees_of(program, broken)):
        if read(text) is not None:
            failures.append(f"PyYAML reads {text!r}, which is listed as broken")
        if not is_error(tree):
            failures.append(f"accepted {text!r} as {tree}")
    for text, tree in zip(STRICTER, trees_of(program, STRICTER)):
        if not is_error(tree):
            failures.append(f"accepted {text!r} as {tree}")

    with open(example, encoding="utf-8") as file:
        lines = file.read().splitlines()
    short = "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("# "))
    whole = "\n".join(line.replace("#", "", 1) if line.lstrip().startswith("#") and not line.lstrip().startswith("# ")
                      else line for line in lines if "access_token" not in line)
    refused = accepted = stricter = 0
    for base in (short, whole):
        texts = list(changes(base, CHANGES // 2))
        for text, tree in zip(texts, trees_of(program, texts)):
            wanted = read(text)
            if wanted is None:
                refused += 1
                if not is_error(tree):
                    failures.append(f"accepted what PyYAML refuses:\n{difference(base, text)}")
            elif is_error(tree):
                stricter += 1
            else:
                accepted += 1
                if null_is_empty(wanted["read"]) != null_is_empty(tree):
                    failures.append(f"read otherwise than PyYAML:\n{difference(base, text)}")
    print("\n".join(failures[:40]))
    print(f"{len(RIGHT)} right, {len(broken) + len(STRICTER)} broken; of {CHANGES} changes {refused} refused by both, "
          f"{accepted} read the same, {stricter} refused by this reader alone; {len(failures)} failures")
    return 1 if failures else 0


def difference(base, text):
    """The lines around the first difference."""
    old, new = base.splitlines(), text.splitlines()
    for i, (a, b) in enumerate(zip(old, new)):
        if a != b:
            return f"  - {a!r}\n  + {b!r}\n  + {new[i + 1] if i + 1 < len(new) else ''!r}"
    return "  (at the end)"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
