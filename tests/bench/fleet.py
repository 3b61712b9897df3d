#!/usr/bin/env python3
"""The load of a fleet on the platform during two years of virtual time: prints tables in Markdown and plots them.

    tests/bench/fleet.py [--build build] [--hosts 100000] [--svg FILE]

Runs fleet-load of a Release build: hosts of one to five users, clocks off by up to five minutes, all onboarded within
an hour, a platform outage of a day, a power cut, a keeper whose login is revoked. --check is for ctest: few hosts, and
only assertions that hold for any number of them.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

STEADY = "steady state"
PLOTS = (("requests", "requests"), ("bytes", "MB"))
WIDTH, HEIGHT, LEFT, TOP, GAP = 340, 100, 78, 54, 56
STYLE = """
  text { font: 13px sans-serif; fill: #24292f } .small { font-size: 11px; fill: #57606a }
  path { fill: none; stroke: #0969da; stroke-width: 1.2 } line { stroke: #d0d7de }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } path { stroke: #4493f8 } line { stroke: #3d444d }
  }"""


def plot(values, unit, left, top, hours):
    """The maximum of each interval, from zero to the highest of all."""
    bottom, highest = top + HEIGHT, max(values) or 1
    points = " ".join(f"{'L' if i else 'M'}{left + i * WIDTH / (len(values) - 1):.1f},{bottom - HEIGHT * v / highest:.1f}"
                      for i, v in enumerate(values))
    shown = f"{highest / 1e6:,.0f}" if unit == "MB" else f"{highest:,}"
    return (f'<line x1="{left}" y1="{bottom}" x2="{left + WIDTH}" y2="{bottom}"/>'
            f'<text class="small" x="{left - 8}" y="{top + 9}" text-anchor="end">{shown}</text>'
            f'<text class="small" x="{left - 8}" y="{bottom}" text-anchor="end">0</text>'
            f'<text class="small" x="{left + WIDTH}" y="{bottom + 15}" text-anchor="end">{hours} h</text>'
            f'<path d="{points}"/>')


def picture(found):
    """Requests and bytes per second, one row for each window."""
    rows = [f'<text class="small" x="{LEFT + column * (LEFT + WIDTH)}" y="16">{unit} per second</text>'
            for column, (_, unit) in enumerate(PLOTS)]
    for place, window in enumerate(found["windows"]):
        top = TOP + place * (HEIGHT + GAP)
        rows.append(f'<text x="{LEFT}" y="{top - 12}">{window["name"]}</text>')
        rows += [plot(window[kind]["plot"], unit, LEFT + column * (LEFT + WIDTH), top, window["hours"])
                 for column, (kind, unit) in enumerate(PLOTS)]
    width, height = len(PLOTS) * (LEFT + WIDTH) + 20, TOP + len(found["windows"]) * (HEIGHT + GAP)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
            f'<title>Requests and bytes per second of {found["hosts"]:,} hosts</title><style>{STYLE}</style>'
            f'{"".join(rows)}</svg>\n')


def kilobytes(count):
    return f"{count / 1000:,.0f} kB" if count < 1e6 else f"{count / 1e6:,.1f} MB"


def report(found):
    steady = next(w for w in found["windows"] if w["name"] == STEADY)
    print(f"{found['hosts']:,} hosts in tenants of {found['users_of_a_tenant']:,} users, two years: "
          f"{found['creations']:,} certificates issued, {found['expired']} expired (least time left at a rotation: "
          f"{found['shortest_left_days']} days), {found['lists']:,} lists, {found['refreshes']:,} refreshes with a login "
          f"for each host. {os.cpu_count()} processors.\n")
    for kind, _ in PLOTS:
        show = (lambda count: f"{count:,.0f}") if kind == "requests" else kilobytes
        print(f"| {kind.capitalize()} per second | mean | busiest minute | 99.9 % | peak | peak to steady mean |")
        print("| --- | ---: | ---: | ---: | ---: | ---: |")
        for window in found["windows"]:
            of = window[kind]
            shown = " | ".join(show(of[field]) for field in ("mean", "minute", "p999", "peak"))
            print(f"| {window['name']} | {shown} | {of['peak'] / steady[kind]['mean']:.1f} |")
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = json.loads(subprocess.run([options.build / "tests/fleet-load", str(options.hosts)], check=True,
                                      stdout=subprocess.PIPE).stdout)
    report(found)
    if options.svg:
        options.svg.write_text(picture(found))
    if options.check:
        assert found["creations"] >= 3 * found["hosts"], "certificates were not rotated"
        assert found["expired"] == 0, "certificates ran out"
    return 0


if __name__ == "__main__":
    sys.exit(main())
