#!/bin/sh
# Installs exposure-agent from this directory on a host with systemd, upgrades it, or removes it. Run as root.
#
#   ./install.sh [--prefix DIR] [--no-start]     default prefix: /usr/local
#   ./install.sh --remove [--prefix DIR]         keeps /etc/exposure-agent and /var/lib/exposure-agent
#   ./install.sh --purge [--prefix DIR]          deletes these as well
#
# With DESTDIR set, files are put below it, and no user or service is touched (for images).
set -eu
umask 022

prefix=/usr/local
action=install
start=yes
while [ $# != 0 ]; do
    case $1 in
    --prefix) prefix=${2:?--prefix needs a directory} && shift ;;
    --no-start) start= ;;
    --remove) action=remove ;;
    --purge) action=purge ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "install.sh: unknown option '$1'; see --help" >&2 && exit 64 ;;
    esac
    shift
done
case $prefix in
/*[!A-Za-z0-9/._-]* | [!/]*)
    echo "install.sh: --prefix $prefix: not an absolute path of letters, digits, / . _ -" >&2
    exit 64
    ;;
esac

here=$(cd "$(dirname "$0")" && pwd)
root=${DESTDIR:-}
# systemd looks for units, users and directories in these two places only
case $prefix in
/usr) integration=/usr/lib ;;
*) integration=/usr/local/lib ;;
esac
installed=$prefix/share/exposure-agent/installed-files
units="exposure-agent.service exposure-agent-deploy.path"

if [ -z "$root" ] && [ "$(id -u)" != 0 ]; then
    echo "install.sh: permission denied; run with sudo" >&2
    exit 77
fi

running() {
    [ -z "$root" ] && [ -d /run/systemd/system ]
}

# Where a file of usr/ belongs on this host.
place_of() {
    case $1 in
    lib/*) echo "$integration/${1#lib/}" ;;
    *) echo "$prefix/$1" ;;
    esac
}

# Replaces the file atomically: a running program keeps the one that it was started from.
put() {
    mode=0644
    [ ! -x "$1" ] || mode=0755
    mkdir -p "$root$(dirname "$2")"
    case $1 in
    */lib/systemd/system/*) sed "s#/usr/bin/exposure-agent#$prefix/bin/exposure-agent#g" "$1" > "$root$2.new" ;;
    *) cp "$1" "$root$2.new" ;;
    esac
    chmod $mode "$root$2.new"
    mv -f "$root$2.new" "$root$2"
}

install_all() {
    upgrade=
    [ ! -e "$root$installed" ] || upgrade=yes
    mkdir -p "$root$prefix/share/exposure-agent"
    rm -f "$root$installed.new"
    (cd "$here/usr" && find . -type f | sed 's#^\./##' | sort) | while read -r file; do
        put "$here/usr/$file" "$(place_of "$file")"
        place_of "$file" >> "$root$installed.new"
    done
    if [ -n "$upgrade" ]; then
        # files that only the previous version had
        grep -vxFf "$root$installed.new" "$root$installed" | while read -r file; do rm -f "$root$file"; done
    fi
    mv "$root$installed.new" "$root$installed"
    [ -e "$root/etc/exposure-agent/environment" ] ||
        put "$here/etc/exposure-agent/environment" /etc/exposure-agent/environment
    [ -z "$root" ] || return 0

    if ! command -v systemctl >/dev/null; then
        echo "exposure-agent installed, but not as a service: systemctl not found"
        return 0
    fi
    if command -v restorecon >/dev/null; then
        restorecon -RF "$prefix/bin/exposure-agent" "$prefix/bin/exposure-agent-probe" /etc/exposure-agent || true
    fi
    systemd-sysusers "$integration/sysusers.d/exposure-agent.conf"
    systemd-tmpfiles --create "$integration/tmpfiles.d/exposure-agent.conf" || true
    if [ -z "$upgrade" ]; then
        # shellcheck disable=SC2086
        systemctl --quiet enable $units
    fi
    if running; then
        systemctl daemon-reload
        # Without /etc/exposure-agent/agent.yaml the service does not start (ConditionPathExists=).
        verb=start
        [ -z "$upgrade" ] || verb=try-restart
        # shellcheck disable=SC2086
        [ -z "$start" ] || systemctl $verb $units
    fi
    if [ -e /etc/exposure-agent/agent.yaml ]; then
        echo "exposure-agent installed. Status: sudo $prefix/bin/exposure-agent status"
    else
        echo "exposure-agent installed. Next: sudo $prefix/bin/exposure-agent init"
    fi
}

remove_all() {
    if [ ! -e "$root$installed" ]; then
        echo "install.sh: exposure-agent is not installed in $prefix; see --prefix" >&2
        exit 1
    fi
    if [ -e "$root/var/lib/exposure-agent/private/state.db" ] &&
        ! "$root$prefix/bin/exposure-agent" status -o json 2>/dev/null | grep -q '"finished_at":"'; then
        echo "This host was not decommissioned: its users stay on the platform until their certificates expire." \
            "To delete them, install exposure-agent again and run: exposure-agent decommission --now" >&2
    fi
    if [ -z "$root" ] && command -v systemctl >/dev/null; then
        # shellcheck disable=SC2086
        if running; then systemctl stop exposure-agent-reconcile.timer $units || true; fi
        # shellcheck disable=SC2086
        systemctl --quiet disable exposure-agent-reconcile.timer $units 2>/dev/null || true
    fi
    while read -r file; do rm -f "$root$file"; done < "$root$installed"
    rm -rf "$root$prefix/share/exposure-agent" "$root$prefix/share/doc/exposure-agent"
    if running; then systemctl daemon-reload; fi
    if [ "$action" = purge ]; then
        rm -rf "$root/etc/exposure-agent" "$root/var/lib/exposure-agent" "$root/run/exposure-agent" \
            "$root/run/exposure-agent-deploy"
        echo "exposure-agent removed, with its configuration, keys and tokens."
    else
        echo "exposure-agent removed. /etc/exposure-agent and /var/lib/exposure-agent are kept; --purge deletes them."
    fi
}

case $action in
install) install_all ;;
*) remove_all ;;
esac
