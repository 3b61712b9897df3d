#!/usr/bin/env bash
# Runs all fuzz targets, or those named, with libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   tests/fuzz/run.sh SECONDS [TARGET...]     SECONDS: total time for all targets
#
# SEED=N draws the same random numbers in each run, and RUNS=N ends a target after so many inputs: together they make a
# run repeatable, except for targets too slow to get that far. JOBS=N runs N targets at a time (default: number of
# processors).
# Inputs that reach new code are stored in build-fuzz/corpus. A failing input is stored in build-fuzz/; replay it with
# `build-fuzz/tests/fuzz/fuzz-TARGET FILE`.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v clang++ >/dev/null; then
    echo "tests/fuzz/run.sh: clang is not installed; run: apt-get install clang" >&2
    exit 1
fi
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [TARGET...]}
shift
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    for source in tests/fuzz/*_fuzz.cpp; do
        name=${source##*/}
        targets+=("${name%_fuzz.cpp}")
    done
fi
jobs=${JOBS:-$(nproc)}

launcher=()
if command -v ccache >/dev/null; then launcher+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
CC=clang CXX=clang++ cmake -S . -B build-fuzz -DCMAKE_BUILD_TYPE=Debug '-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1' -DFUZZ=ON \
    -DSANITIZE=ON -DBUILD_TESTING=ON "${launcher[@]}" --log-level=WARNING
cmake --build build-fuzz -j "$jobs" --target "${targets[@]/#/fuzz-}"

# run one target per job in parallel, each for its share of the time
share=$((seconds * jobs / ${#targets[@]}))
[ $share -gt 0 ] || share=1
drive() {
    mkdir -p "build-fuzz/corpus/$1"
    if "build-fuzz/tests/fuzz/fuzz-$1" -max_total_time="$share" -timeout=120 -rss_limit_mb=1024 -verbosity=0 \
        -print_final_stats=1 -seed="${SEED:-0}" -runs="${RUNS:--1}" -artifact_prefix="build-fuzz/$1-" \
        "build-fuzz/corpus/$1" "tests/fuzz/corpus/$1" > "build-fuzz/$1.log" 2>&1; then
        awk -v name="$1" '/number_of_executed_units/ { print name ": " $2 " inputs, no failure" }' "build-fuzz/$1.log"
    else
        tail -n 40 "build-fuzz/$1.log"
        echo "$1: failed, see build-fuzz/$1.log"
        return 1
    fi
}
export -f drive
export share
printf '%s\0' "${targets[@]}" | xargs -0 -P "$jobs" -I{} bash -c 'drive "$1"' drive {}
