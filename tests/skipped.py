"""Lists the tests skipped by ctest in the given build directories, and the skipped parts of tests, with reasons."""

import pathlib
import re
import sys
import xml.etree.ElementTree

PART = re.compile(r"^(?P<test>.*?) ?(?:\(.*\) )?\.\.\. skipped ['\"](?P<reason>.*)['\"]$", re.MULTILINE)
WHOLE = re.compile(r"^(?:skipped: ?)(?P<reason>.*)$", re.MULTILINE)


def skipped(case):
    """The reasons that this test case reports."""
    output = (case.findtext("system-out") or "").replace("\\n", " ")
    parts = [f"{match['test']}: {match['reason']}" for match in PART.finditer(output)]
    if case.find("skipped") is None:
        return parts
    return parts or [match["reason"] for match in WHOLE.finditer(output)] or ["no reason told"]


for directory in sys.argv[1:]:
    for case in xml.etree.ElementTree.parse(pathlib.Path(directory, "tests.xml")).iter("testcase"):
        for reason in skipped(case):
            print(f"{directory}: skipped: {case.get('name')}: {reason}")
