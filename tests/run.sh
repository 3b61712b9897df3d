#!/usr/bin/env bash
# Installs missing packages, builds, and runs all tests. A second run rebuilds only what has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/packages.sh

usage() {
    cat <<'END'
usage: tests/run.sh [OPTION...]

  --with-sanitizers    also run the tests under AddressSanitizer and UndefinedBehaviorSanitizer, with crash points,
                       in build-sanitize/
  --with-crash-points  also run the end-to-end tests with the named crash points, in build-crash-points/
                       (included in --with-sanitizers)
  --with-kafka         also test against a real Kafka broker, downloaded with Maven
  --with-identity-servers  also test against Keycloak and oidc-provider, downloaded with Maven and npm, behind nginx,
                       HAProxy, Apache, Caddy, Envoy and Squid, and with OpenBao; Envoy and OpenBao come from PyPI
  --with-fuzzing       also run the fuzz targets for up to ten minutes (needs clang), in build-fuzz/, with the
                       processor time that the other tests leave
  --werror             treat warnings as errors
  --debug              build in debug mode in build/ (default: Release)
  --no-install         do not install packages
  -j N                 run N jobs and tests in parallel (default: number of processors)
END
}

jobs=$(nproc)
type=Release
settings=()
kafka=OFF
identity=OFF
sanitizers= crash_points= fuzzing= install=yes
while [ $# != 0 ]; do
    case $1 in
    --with-sanitizers) sanitizers=yes ;;
    --with-crash-points) crash_points=yes ;;
    --with-kafka) kafka=ON ;;
    --with-identity-servers) identity=ON ;;
    --with-fuzzing) fuzzing=yes ;;
    --werror) settings+=(-DWERROR=ON) ;;
    --debug) type=Debug ;;
    --no-install) install= ;;
    -j) jobs=${2:?-j requires a number} && shift ;;
    -j*) jobs=${1#-j} ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 64 ;;
    esac
    shift
done

if [ -n "$install" ]; then
    peers=("${peer_packages[@]}")
    [ $kafka = OFF ] || peers+=("${kafka_packages[@]}")
    [ $identity = OFF ] || peers+=("${identity_packages[@]}")
    [ -z "$fuzzing" ] || peers+=("${fuzzing_packages[@]}")
    install_packages "${build_packages[@]}" "${test_packages[@]}" -- "${peers[@]}"
fi

# Lets other clones of the same sources reuse what this one has compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# configure DIRECTORY SETTING...
configure() {
    local directory=$1 ours=()
    shift
    if [ ! -e "$directory/CMakeCache.txt" ] && command -v ninja >/dev/null; then
        ours+=(-G Ninja)
    fi
    if command -v ccache >/dev/null; then
        ours+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    fi
    printf '\n== %s\n' "$directory"
    cmake -S . -B "$directory" "${ours[@]}" "${settings[@]}" "$@" --log-level=WARNING
}

# run_tests DIRECTORY CTEST-OPTION...: records a failure and continues with the remaining tests.
failed=
tested=()
run_tests() {
    local directory=$1
    shift
    tested+=("$directory")
    ctest --test-dir "$directory" -j "$jobs" --output-on-failure --no-tests=error \
        --test-output-size-passed 1000000 --output-junit "$PWD/$directory/tests.xml" "$@" | tee "$directory/tests.txt" || failed=yes
}

fuzzer=
if [ -n "$fuzzing" ] && command -v clang++ >/dev/null; then
    mkdir -p build-fuzz
    # the same inputs in each run: a change is not to fail for what an older one overlooked
    SEED=1 RUNS=400000 setsid chrt --idle 0 tests/fuzz/run.sh 600 >build-fuzz/run.txt 2>&1 &
    fuzzer=$!
    trap 'kill -- -"$fuzzer" 2>/dev/null || true' EXIT
fi

configure build -DCMAKE_BUILD_TYPE=$type -DBUILD_TESTING=ON -DWITH_KAFKA=$kafka \
    -DWITH_IDENTITY_SERVERS=$identity
cmake --build build -j "$jobs"
run_tests build

if [ -n "$sanitizers" ]; then
    configure build-sanitize -DCMAKE_BUILD_TYPE=Debug '-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1' -DSANITIZE=ON -DCRASH_POINTS=ON
    cmake --build build-sanitize -j "$jobs"
    # sanitizers make no difference to the tests of units, manuals and packages
    run_tests build-sanitize --label-exclude host
fi

if [ -n "$crash_points" ]; then
    configure build-crash-points -DCMAKE_BUILD_TYPE=$type -DCRASH_POINTS=ON
    cmake --build build-crash-points -j "$jobs" --target exposure-agent exposure-agent-probe platform-simulator
    run_tests build-crash-points --tests-regex '^e2e-'
fi

if [ -n "$fuzzer" ]; then
    printf '\n== build-fuzz\n'
    wait "$fuzzer" || failed=yes
    trap - EXIT
    cat build-fuzz/run.txt
elif [ -n "$fuzzing" ]; then
    printf '\nFuzzing was skipped: clang is not installed\n'
fi

printf '\n'
python3 -B tests/skipped.py "${tested[@]}"
for directory in "${tested[@]}"; do
    echo "$directory: $(grep 'tests passed' "$directory/tests.txt")"
done
[ -z "$failed" ]
