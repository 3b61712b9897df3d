#!/usr/bin/env bash
# Builds twice, here and in a clean root of Debian 12, and compares archive, RPM, SBOM and container image byte for byte.
#
#   sudo systemd/portable/compare.sh [x86_64|aarch64]...     default: this machine's architecture
#
# The second build has no network, only the downloads that sources.txt pins, and differs in user, path, host name, umask,
# time zone and language. Needs root, mmdebstrap, and about as many minutes as a first build.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/exposure-agent-portable
packages=git,ca-certificates,cmake,ninja-build,make,gcc,g++,perl,python3,tcl,pkgconf,rpm,xz-utils,libboost1.81-dev,libcli11-dev,libsystemd-dev

fail() {
    echo "compare.sh: $*" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "run it as root: it enters a root directory with chroot"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is not installed; run: apt-get install mmdebstrap"
[ -z "$(git -C "$top" status --porcelain --untracked-files=no)" ] ||
    fail "there are changes that are not committed; the second build is one of the last commit"
[ $# != 0 ] || set -- "$(uname -m)"
"$here/build.sh" "$@"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 0755 "$scratch"
root=$scratch/root
# arm64: the C library of the image for aarch64
mmdebstrap --quiet --mode=root --variant=minbase --architectures=amd64,arm64 --skip=cleanup/apt --include="$packages" \
    bookworm "$root"
cp /etc/resolv.conf "$root/etc/resolv.conf"
home=$root/home/somebody-else
install -d "$home/.cache/exposure-agent-portable"
cp -R "$cache/sources" "$cache"/*.whl "$home/.cache/exposure-agent-portable/"
# no hard links: they would change the owner of this clone's objects
(umask 077 && git clone --quiet --no-hardlinks "$top" "$home/source")
chown -R 4321:4321 "$home"

# inside [OPTION...] -- COMMAND...: as another user in the root; the options are those of unshare
inside() {
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    unshare --mount --pid --fork --mount-proc="$root/proc" --uts "${options[@]}" sh -euc \
        'hostname another.example.com; umask 077; root=$1; shift; exec chroot --userspec=4321:4321 --groups= "$root" "$@"' \
        sh "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/home/somebody-else TZ=Asia/Tokyo LANG=C.UTF-8 \
        JOBS="${JOBS:-$(nproc)}" "$@"
}

inside --net -- /home/somebody-else/source/systemd/portable/build.sh "$@"

status=0
# compare NAME FIRST SECOND
compare() {
    if diff -rq "$2" "$3"; then
        echo "same bytes: $1"
    else
        status=1
        echo "different: $1" >&2
        ! command -v diffoscope >/dev/null || diffoscope "$2" "$3" || true
    fi
}

for arch; do
    for file in "$home/source/build-portable/"*linux-"$arch".{tar.gz,spdx.json} "$home/source/build-portable/"*."$arch".rpm; do
        # without rpmbuild, the first build made no RPM
        [ ! -e "$file" ] || compare "$(basename "$file")" "$top/build-portable/$(basename "$file")" "$file"
    done
    archive=$(basename "$home/source/build-portable/"*linux-"$arch".tar.gz)
    if python3 -B "$here/image.py" "$top/build-portable/$archive" "$scratch/$arch" >/dev/null; then
        inside -- python3 -B /home/somebody-else/source/systemd/portable/image.py \
            "/home/somebody-else/source/build-portable/$archive" "/home/somebody-else/$arch" >/dev/null
        compare "image of $archive" "$scratch/$arch" "$home/$arch"
    else
        echo "compare.sh: no image for $arch was compared; run: dpkg --add-architecture and apt-get update" >&2
    fi
done
exit $status
