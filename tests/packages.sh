# The packages that this project needs, in one place. Sourced by run.sh and demo.sh.
# An entry a|b is satisfied by either package; the first one gets installed.

# The two distributions differ in the version that is part of Boost's package names.
distribution() {
    # shellcheck source=/dev/null
    (source /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}") || echo unknown
}

case $(distribution) in
"ubuntu 24.04") boost=1.83 ;;
*) boost=1.81 ;;  # Debian 12
esac

build_packages=(
    cmake ninja-build 'g++' pkgconf ccache gzip
    "libboost$boost-dev" "libboost-json$boost-dev" "libboost-url$boost-dev"
    libssl-dev libsqlite3-dev libyaml-cpp-dev libcli11-dev libsystemd-dev librdkafka-dev
    dpkg-dev file  # cpack -G DEB
)
demo_packages=(python3 openssl curl)
test_packages=("libboost-test$boost-dev" python3 openssl)

# Tests that need these are skipped without them, by name and with the reason.
peer_packages=(
    man-db mandoc           # the manuals
    prometheus              # promtool: alert rules and dashboard
    python3-jsonschema python3-yaml  # JSON Schema of the configuration
    lintian                 # the Debian package
    debootstrap             # ... its lifecycle in a clean root
    systemd systemd-container  # ... and under a real systemd
    tinyproxy-bin strace
    chromium                # status page in a browser
    python3-icalendar       # calendar of the forecast
    etcd-server etcd-client  # one login for many hosts
    openssh-server openssh-client 'kubernetes-client|kubectl'  # ... and its recipes
    zsh fish                # completion
)
identity_packages=(
    'default-jdk-headless|openjdk-17-jdk-headless' maven nodejs
    'nginx-light|nginx-core|nginx' haproxy apache2 squid caddy
)
command -v npm >/dev/null || identity_packages+=(npm)  # some nodejs packages include npm
python3 -m pip --version >/dev/null 2>&1 || identity_packages+=(python3-pip)
kafka_packages=('default-jdk-headless|openjdk-17-jdk-headless' maven kcat)

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

# Services that come with test tools are neither started now nor enabled at boot.
apt_install() {
    local policy=/usr/sbin/policy-rc.d status=0 ours= package
    if [ ! -e $policy ]; then
        ours=yes
        printf '#!/bin/sh\nexit 101\n' | as_root install -m 0755 /dev/stdin $policy
    fi
    apt_get install --no-install-recommends "$@" || status=$?
    [ -z "$ours" ] || as_root rm -f $policy
    if [ -d /run/systemd/system ]; then
        for package; do
            case $package in
            nginx*) as_root systemctl disable --quiet nginx.service ;;
            openssh-server) as_root systemctl disable --quiet ssh.service ;;
            etcd-server) as_root systemctl disable --quiet etcd.service ;;
            prometheus | haproxy | apache2 | squid | caddy) as_root systemctl disable --quiet "$package.service" ;;
            esac || true
        done
    fi
    return $status
}

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Prints the entries that no installed package satisfies, each as the package to install.
missing_of() {
    local entry package
    for entry; do
        for package in ${entry//|/ }; do
            installed "$package" && continue 2
        done
        echo "${entry%%|*}"
    done
}

# install_packages REQUIRED... -- OPTIONAL...: installs only what is missing. Fails if a required package cannot
# be installed; reports optional ones that could not.
install_packages() {
    local required=() optional=() package entry list=required refused=()
    for entry; do
        case $entry in
        --) list=optional ;;
        *) [ $list = required ] && required+=("$entry") || optional+=("$entry") ;;
        esac
    done
    case $(distribution) in
    "debian 12" | "ubuntu 24.04") ;;
    *)
        echo "This is neither Debian 12 nor Ubuntu 24.04: nothing is installed. On Debian 12 it would be:"
        echo "    ${required[*]} ${optional[*]}"
        return 0
        ;;
    esac
    mapfile -t required < <(missing_of "${required[@]}")
    mapfile -t optional < <(missing_of "${optional[@]}")
    [ $((${#required[@]} + ${#optional[@]})) != 0 ] || return 0

    echo "Missing packages: ${required[*]} ${optional[*]}"
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        echo "Could not install them: neither root nor sudo."
        refused=("${optional[@]}")
    else
        apt_get update || echo "apt-get update failed: trying with the lists that are there."
        if [ ${#required[@]} != 0 ] && apt_install "${required[@]}"; then
            required=()
        fi
        if [ ${#optional[@]} != 0 ] && ! apt_install "${optional[@]}"; then
            for package in "${optional[@]}"; do
                installed "$package" || apt_install "$package" || refused+=("$package")
            done
        fi
    fi
    if [ ${#refused[@]} != 0 ]; then
        echo "Could not install, tests that need them are skipped: ${refused[*]}"
    fi
    if [ ${#required[@]} != 0 ]; then
        echo "Could not install: ${required[*]}. Nothing works without them; install them and start again:"
        echo "    apt-get install ${required[*]}"
        return 1
    fi
}
