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
WIDTH, HEIGHT, LEFT, TOP, GAP = 760, 110, 90, 34, 62
STYLE = """
  text { font: 13px sans-serif; fill: #24292f } .small { font-size: 11px; fill: #57606a }
  path { fill: none; stroke: #0969da; stroke-width: 1.2 } line { stroke: #d0d7de }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } path { stroke: #4493f8 } line { stroke: #3d444d }
  }"""


def picture(found):
    """Requests per second in each window, one plot below the other: the maximum of each interval."""
    rows = []
    for place, window in enumerate(found["windows"]):
        values = window["requests"]["plot"]
        top, bottom = TOP + place * (HEIGHT + GAP), TOP + place * (HEIGHT + GAP) + HEIGHT
        highest = max(values) or 1
        points = " ".join(f"{'L' if i else 'M'}{LEFT + i * WIDTH / (len(values) - 1):.1f},{bottom - HEIGHT * v / highest:.1f}"
                          for i, v in enumerate(values))
        rows.append(f'<text x="{LEFT}" y="{top - 10}">{window["name"]}</text>'
                    f'<line x1="{LEFT}" y1="{bottom}" x2="{LEFT + WIDTH}" y2="{bottom}"/>'
                    f'<text class="small" x="{LEFT - 8}" y="{top + 9}" text-anchor="end">{highest:,}/s</text>'
                    f'<text class="small" x="{LEFT - 8}" y="{bottom}" text-anchor="end">0</text>'
                    f'<text class="small" x="{LEFT + WIDTH}" y="{bottom + 15}" text-anchor="end">{window["hours"]} h</text>'
                    f'<path d="{points}"/>')
    height = TOP + len(found["windows"]) * (HEIGHT + GAP)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" role="img">'
            f'<title>Requests per second of {found["hosts"]:,} hosts</title><style>{STYLE}</style>{"".join(rows)}</svg>\n')


def kilobytes(count):
    return f"{count / 1000:,.0f} kB" if count < 1e6 else f"{count / 1e6:,.1f} MB"


def report(found):
    steady = next(w for w in found["windows"] if w["name"] == STEADY)
    print(f"{found['hosts']:,} hosts in tenants of {found['users_of_a_tenant']:,} users, two years: "
          f"{found['creations']:,} certificates issued, {found['expired']} expired (least time left at a rotation: "
          f"{found['shortest_left_days']} days), {found['lists']:,} lists, {found['refreshes']:,} refreshes with a login "
          f"for each host. {os.cpu_count()} processors.\n")
    print("| | Requests per second: mean | 99.9 % | Peak | Peak to steady mean | Bytes per second: mean | 99.9 % | Peak |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for window in found["windows"]:
        requests, sizes = window["requests"], window["bytes"]
        print(f"| {window['name']} | {requests['mean']:,.0f} | {requests['p999']:,} | {requests['peak']:,} "
              f"| {requests['peak'] / steady['requests']['mean']:.1f} | {kilobytes(sizes['mean'])} "
              f"| {kilobytes(sizes['p999'])} | {kilobytes(sizes['peak'])} |")


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
