#!/usr/bin/env python3
"""Checks the printed JSON Schema against draft-07, and files against it: check_schema.py PRINT_SCHEMA EXAMPLE.

Exits 77 (skipped) if python3-jsonschema or python3-yaml is not installed."""

import json
import subprocess
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}; install python3-jsonschema and python3-yaml")
    sys.exit(77)

RIGHT = {
    "token": "{identity: {access_token: {command: [vault, kv, get]}}, exposures: []}",
    "credentials": "{identity: {access_token: {env: T}}, credentials: []}",
    "publish": "{identity: {publish: {command: [etcdctl, put, token]}}}",
    "notify": "{identity: {}, exposures: [], notify: {url: 'https://h.example.com/x?a=b', repeat: 1h}}",
    "variables": """{identity: {access_token: {env: T}}, owner: "${hostname}", network: {connections: "${env:N}"},
                     reconcile: {prune: "${env:P}", interval: "${env:I}"}, exposures: []}""",
    "modes": """{identity: {access_token: {env: T}}, exposures: [],
                 defaults: {output: {mode: 0640}, key: ed25519, rotation: {renew_before: 33%}}}""",
}
WRONG = {
    "not one": "{}",
    "unknown key": "{identity: {}, exposures: [], zzz: 1}",
    "unknown inner key": "{identity: {zzz: 1}, exposures: []}",
    "nothing to keep": "{identity: {}}",
    "inline secret": "{identity: {client_secret: abc}, exposures: []}",
    "notify without anybody": "{identity: {}, exposures: [], notify: {repeat: 1h}}",
    "two sources": "{identity: {access_token: {env: T, file: /t}}, exposures: []}",
    "no boolean": "{identity: {}, exposures: [], reconcile: {prune: 'yes'}}",
    "out of range": "{identity: {}, exposures: [], network: {connections: 0}}",
    "no duration": "{identity: {}, exposures: [], network: {timeout: soon}}",
    "no word": "{identity: {}, exposures: [], defaults: {key: dsa}}",
    "name in defaults": "{identity: {}, exposures: [], defaults: {name: x}}",
    "incomplete exposure": "{identity: {}, exposures: [{name: e}]}",
    "two hooks in one": "{identity: {}, exposures: [], defaults: {hooks: [{restart: a, reload: b}]}}",
}


def main(print_schema, example):
    schema = json.loads(subprocess.run([print_schema], check=True, capture_output=True, text=True).stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)

    failures = []
    with open(example, encoding="utf-8") as file:
        right = {example: file.read(), **RIGHT}
    for name, text in right.items():
        failures += [f"{name}: refused: {error.message}" for error in validator.iter_errors(yaml.safe_load(text))]
    for name, text in WRONG.items():
        if validator.is_valid(yaml.safe_load(text)):
            failures.append(f"{name}: not refused")
    print("\n".join(failures) or f"ok ({len(right)} right, {len(WRONG)} wrong)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
