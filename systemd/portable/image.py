#!/usr/bin/env python3
"""Makes a container image of a portable archive, as an OCI layout, without a daemon and without root.

    image.py exposure-agent-VERSION-linux-ARCH.tar.gz DIRECTORY

The image holds the programs, the C library and the authorities' certificates of the build machine's Debian, and one
user, 65532. Its root may be read-only; state belongs in a volume at /var/lib/exposure-agent that this user owns.

    skopeo copy oci:DIRECTORY docker://registry.example.com/exposure-agent:VERSION
"""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
BASE_PACKAGES = ("libc6", "ca-certificates")
USER = 65532
PASSWD = f"root:x:0:0:root:/:/sbin/nologin\nagent:x:{USER}:{USER}:exposure-agent:/var/lib/exposure-agent:/sbin/nologin\n"
GROUP = f"root:x:0:\nagent:x:{USER}:\n"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"


def deterministic(member, epoch):
    member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
    return member


class layer:
    """A tar whose bytes depend on nothing but what was put into it."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=tarfile.PAX_FORMAT)
        self.names = set()

    def directory(self, name, owner=0, mode=0o755):
        parts = pathlib.PurePosixPath(name).parts
        for i in range(1, len(parts) + 1):
            path = "/".join(parts[:i])
            if path in self.names:
                continue
            self.names.add(path)
            member = deterministic(tarfile.TarInfo(path), self.epoch)
            member.type = tarfile.DIRTYPE
            member.mode = mode if i == len(parts) else 0o755
            member.uid = member.gid = owner if i == len(parts) else 0
            self.tar.addfile(member)

    def file(self, name, content, mode=0o644):
        self.directory(str(pathlib.PurePosixPath(name).parent))
        member = deterministic(tarfile.TarInfo(name), self.epoch)
        member.size, member.mode = len(content), mode
        self.tar.addfile(member, io.BytesIO(content))

    def link(self, name, target):
        self.directory(str(pathlib.PurePosixPath(name).parent))
        member = deterministic(tarfile.TarInfo(name), self.epoch)
        member.type, member.linkname = tarfile.SYMTYPE, target
        self.tar.addfile(member)

    def finish(self):
        self.tar.close()
        return self.bytes.getvalue()


def add_base(image, architecture):
    """The C library as /lib and /lib64 want it, and one file with all authorities."""
    with tempfile.TemporaryDirectory() as scratch:
        for package in BASE_PACKAGES:
            # ca-certificates is the same for every architecture
            name = package if package == "ca-certificates" else f"{package}:{architecture}"
            subprocess.run(["apt-get", "-qq", "download", name], cwd=scratch, check=True)
        root = pathlib.Path(scratch, "root")
        for deb in sorted(pathlib.Path(scratch).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
        libraries = sorted(path for path in root.glob("lib/*-linux-gnu/*.so*"))
        libraries += sorted(path for path in root.glob("lib64/*")) + sorted(path for path in root.glob("lib/ld-linux*"))
        for path in libraries:
            name = "usr/" + str(path.relative_to(root))
            if path.is_symlink():
                image.link(name, re.sub("^/lib", "/usr/lib", os.readlink(path)))
            else:
                image.file(name, path.read_bytes(), 0o755)
        bundle = b"".join(path.read_bytes() for path in sorted(root.glob("usr/share/ca-certificates/**/*.crt")))
        image.file(BUNDLE, bundle)
    image.link("lib", "usr/lib")
    if architecture == "amd64":
        image.link("lib64", "usr/lib64")


def base_layer(architecture, epoch):
    image = layer(epoch)
    add_base(image, architecture)
    image.file("etc/passwd", PASSWD.encode())
    image.file("etc/group", GROUP.encode())
    image.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    image.directory("etc/exposure-agent")
    image.directory("tmp", mode=0o1777)
    image.directory("var/lib/exposure-agent", owner=USER, mode=0o711)
    return image.finish()


def program_layer(archive, epoch):
    image = layer(epoch)
    with tarfile.open(archive) as source:
        for member in sorted(source.getmembers(), key=lambda m: m.name):
            if re.fullmatch(r"[^/]+/usr/bin/[^/]+", member.name) and member.isfile():
                name = "usr/bin/" + member.name.rsplit("/", 1)[1]
                image.file(name, source.extractfile(member).read(), 0o755)
    return image.finish()


class layout:
    def __init__(self, directory):
        self.blobs = directory / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)
        self.directory = directory

    def blob(self, content, media):
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{digest}", "size": len(content)}

    def json(self, value, media):
        return self.blob(json.dumps(value, sort_keys=True).encode(), media)


def write(directory, layers, architecture, version, created):
    out = layout(directory)
    blobs = [out.blob(gzip.compress(each, mtime=0), "layer.v1.tar+gzip") for each in layers]
    config = out.json({
        "created": created, "architecture": architecture, "os": "linux",
        "config": {"User": f"{USER}:{USER}", "Entrypoint": ["/usr/bin/exposure-agent"], "Cmd": ["run"],
                   "WorkingDir": "/", "Volumes": {"/var/lib/exposure-agent": {}},
                   "Env": ["PATH=/usr/bin", f"SSL_CERT_FILE=/{BUNDLE}"],
                   "Labels": {"org.opencontainers.image.title": "exposure-agent",
                              "org.opencontainers.image.version": version}},
        "rootfs": {"type": "layers",
                   "diff_ids": ["sha256:" + hashlib.sha256(each).hexdigest() for each in layers]},
    }, "config.v1+json")
    manifest = out.json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                         "config": config, "layers": blobs}, "manifest.v1+json")
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version}
    manifest["platform"] = {"architecture": architecture, "os": "linux"}
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (directory / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    asked = parser.parse_args()
    named = re.fullmatch(r"exposure-agent-(.+)-linux-(x86_64|aarch64)\.tar\.gz", asked.archive.name)
    if not named:
        sys.exit(f"image.py: {asked.archive} is not an archive of the portable programs")
    if asked.directory.exists():
        sys.exit(f"image.py: {asked.directory} already exists")
    with tarfile.open(asked.archive) as source:
        epoch = max(int(member.mtime) for member in source.getmembers())
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    architecture = ARCHITECTURES[named[2]]
    layers = [base_layer(architecture, epoch), program_layer(asked.archive, epoch)]
    write(asked.directory, layers, architecture, named[1], created)
    print(asked.directory)


if __name__ == "__main__":
    main()
