#!/usr/bin/env python3
"""Prints an SPDX 2.3 document for one portable archive: what is linked in, its version, licence and checksum.

    sbom.py SOURCES VERSION ARCHITECTURE
"""

import datetime
import json
import os
import re
import sys

LICENSES = {
    "openssl": "Apache-2.0", "sqlite3": "blessing", "yaml-cpp": "MIT", "librdkafka": "BSD-2-Clause",
    "libboost1.81-dev": "BSL-1.0", "libcli11-dev": "BSD-3-Clause",
    "ziglang": "MIT AND Apache-2.0 WITH LLVM-exception",  # the second is libc++, which is linked in
}


def parts(path):
    """(kind, package, version, SHA-256 or None) of every line of sources.txt."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.split("#")[0].split()
            if not fields:
                continue
            kind, name = fields[:2]
            version = re.match(r".*_(.+)\.orig", fields[2]).group(1) if kind == "source" else fields[2]
            yield kind, name, version, fields[3] if len(fields) > 3 else None


def main():
    sources, version, architecture = sys.argv[1:]
    name = f"exposure-agent-{version}-linux-{architecture}"
    made = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    packages = [{"SPDXID": "SPDXRef-agent", "name": "exposure-agent", "versionInfo": version,
                 "downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION"}]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                  "relatedSpdxElement": "SPDXRef-agent"}]
    for kind, package, of, checksum in parts(sources):
        part = {"SPDXID": f"SPDXRef-{package.replace('.', '-')}", "name": package, "versionInfo": of,
                "downloadLocation": "NOASSERTION", "licenseConcluded": LICENSES[package]}
        if checksum:
            part["checksums"] = [{"algorithm": "SHA256", "checksumValue": checksum}]
        packages.append(part)
        relations.append({"spdxElementId": "SPDXRef-agent", "relationshipType": "STATIC_LINK",
                          "relatedSpdxElement": part["SPDXID"]})
        if kind == "python":
            relations.append({"spdxElementId": part["SPDXID"], "relationshipType": "BUILD_TOOL_OF",
                              "relatedSpdxElement": "SPDXRef-agent"})
    json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
               "documentNamespace": f"https://example.com/spdx/{name}",
               "creationInfo": {"created": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
                                "creators": ["Tool: systemd/portable/sbom.py"]},
               "packages": packages, "relationships": relations}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
