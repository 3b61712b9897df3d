# All packages that this project needs. Sourced by run.sh and demo.sh.
# An entry a|b is satisfied by either package; if both are missing, the first is installed.

# The versions in the names of the packages of Boost and clang depend on the distribution.
distribution() {
    # shellcheck source=/dev/null
    (source /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}") || echo unknown
}

case $(distribution) in
"ubuntu 24.04") boost=1.83 clang=18 ;;
*) boost=1.81 clang=14 ;;  # Debian 12
esac

build_packages=(
    cmake ninja-build 'g++' pkgconf ccache gzip
    "libboost$boost-dev" "libboost-json$boost-dev" "libboost-url$boost-dev"
    libssl-dev libsqlite3-dev libyaml-cpp-dev libcli11-dev libsystemd-dev librdkafka-dev
    dpkg-dev file  # cpack -G DEB
)
demo_packages=(python3 openssl curl)
test_packages=("libboost-test$boost-dev" python3 openssl)

# Without these, the tests that need them are skipped; the name and the reason are reported.
peer_packages=(
    man-db mandoc           # the manuals
    prometheus              # promtool: alert rules and dashboard
    python3-jsonschema python3-yaml  # JSON Schema of the configuration
    lintian                 # the Debian package
    mmdebstrap              # ... and its lifecycle in clean root directories
    systemd systemd-container  # ... and under a booted systemd
    'ansible-core|ansible' ansible-lint yamllint  # ... and the Ansible role
    rpm qemu-user-static    # the portable build's RPM, and its aarch64 programs
    tinyproxy-bin strace
    chromium                # the status page in a browser
    python3-icalendar       # the calendar of the forecast
    etcd-server etcd-client  # one login for many hosts
    openssh-server openssh-client 'kubernetes-client|kubectl'  # ... and its recipes
    zsh fish                # shell completion
)
identity_packages=(
    'default-jdk-headless|openjdk-17-jdk-headless' maven nodejs
    'nginx-light|nginx-core|nginx' haproxy apache2 squid caddy
)
command -v npm >/dev/null || identity_packages+=(npm)  # some nodejs packages include npm
python3 -m pip --version >/dev/null 2>&1 || identity_packages+=(python3-pip)
fuzzing_packages=(clang "libclang-rt-$clang-dev")
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

# Installs packages without starting their services or enabling them at boot.
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

# Prints the package to install for each entry that no installed package satisfies.
missing_of() {
    local entry package
    for entry; do
        for package in ${entry//|/ }; do
            installed "$package" && continue 2
        done
        echo "${entry%%|*}"
    done
}

# install_packages REQUIRED... -- OPTIONAL...: installs missing packages. Fails if a required package cannot be
# installed; reports optional packages that cannot be installed.
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
        echo "Not Debian 12 or Ubuntu 24.04: no packages were installed. Required on Debian 12:"
        echo "    ${required[*]} ${optional[*]}"
        return 0
        ;;
    esac
    mapfile -t required < <(missing_of "${required[@]}")
    mapfile -t optional < <(missing_of "${optional[@]}")
    [ $((${#required[@]} + ${#optional[@]})) != 0 ] || return 0

    echo "Missing packages: ${required[*]} ${optional[*]}"
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        echo "Cannot install them: not running as root, and sudo not found."
        refused=("${optional[@]}")
    else
        apt_get update || echo "apt-get update failed: continuing with the existing package lists."
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
        echo "Could not install these packages, so the tests that need them are skipped: ${refused[*]}"
    fi
    if [ ${#required[@]} != 0 ]; then
        echo "Could not install required packages: ${required[*]}. Install them and try again:"
        echo "    apt-get install ${required[*]}"
        return 1
    fi
}
