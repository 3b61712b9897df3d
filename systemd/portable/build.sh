#!/usr/bin/env bash
# Builds exposure-agent for other Linux hosts: programs that need glibc 2.28 or later and no other library.
#
#   systemd/portable/build.sh [x86_64|aarch64]...     default: this machine's architecture
#
# Runs on Debian 12 from a clean clone. Writes exposure-agent-VERSION-linux-ARCH.tar.gz, an RPM, an SBOM and SHA256SUMS to
# build-portable/. Everything that is linked in is pinned in sources.txt; downloads and built libraries are kept in
# ~/.cache/exposure-agent-portable. JOBS=N runs N compilers at a time (default: one per processor).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/exposure-agent-portable
output=$top/build-portable
glibc=2.28
jobs=${JOBS:-$(nproc)}
# the same sources give the same bytes, whenever and wherever they are built
SOURCE_DATE_EPOCH=$(git -C "$top" log -1 --format=%ct)
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022

fail() {
    echo "build.sh: $*" >&2
    exit 1
}

# pinned KIND: the other fields of sources.txt's lines of this kind
pinned() {
    awk -v kind="$1" '$1 == kind { $1 = ""; print substr($0, 2) }' "$here/sources.txt"
}

check_sum() {
    echo "$2  $1" | sha256sum --check --quiet --status || fail "$1 is not the file that sources.txt pins"
}

# Source packages from this host's mirrors, through private lists: the host's own configuration is not changed.
fetch_sources() {
    local apt=$cache/apt package file sum
    mkdir -p "$apt/lists/partial" "$apt/parts" "$cache/sources"
    for file in /etc/apt/sources.list.d/*.sources; do
        [ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" > "$apt/parts/$(basename "$file")"
    done
    if [ -s /etc/apt/sources.list ]; then
        sed -n 's/^deb /deb-src /p' /etc/apt/sources.list > "$apt/parts/main.list"
    fi
    printf 'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "%s";\nDir::State::lists "%s";\n' \
        "$apt/parts" "$apt/lists" > "$apt/apt.conf"
    export APT_CONFIG=$apt/apt.conf
    local updated=
    while read -r package file sum; do
        if [ ! -e "$cache/sources/$file" ]; then
            [ -n "$updated" ] || apt-get update -qq
            updated=yes
            local version=${file#*_}
            version=${version%.orig.*}
            # only the upstream archive is used, and its checksum decides
            (cd "$cache/sources" &&
                apt-get source -qq --download-only "$package" >/dev/null 2>&1) || true
            [ -e "$cache/sources/$file" ] || fail "$package $version: the mirror no longer has $file"
        fi
        check_sum "$cache/sources/$file" "$sum"
    done < <(pinned source)
    unset APT_CONFIG
}

fetch_compiler() {
    local name version sum wheel
    read -r name version sum < <(pinned python)
    wheel=$(find "$cache" -maxdepth 1 -name "$name-$version-*.whl" | head -n 1)
    if [ -z "$wheel" ]; then
        python3 -m pip download -q --no-deps --dest "$cache" "$name==$version"
        wheel=$(find "$cache" -maxdepth 1 -name "$name-$version-*.whl" | head -n 1)
    fi
    check_sum "$wheel" "$sum"
    if [ ! -d "$cache/$name-$version" ]; then
        python3 -m zipfile -e "$wheel" "$cache/$name-$version.partial"
        chmod -R u+w "$cache/$name-$version.partial"
        chmod +x "$cache/$name-$version.partial/$name/zig"
        mv "$cache/$name-$version.partial" "$cache/$name-$version"
    fi
    zig=$cache/$name-$version/$name/zig
}

check_headers() {
    local package version found
    while read -r package version; do
        found=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null) || fail "install $package"
        [ "$found" = "$version" ] || fail "$package is $found, sources.txt names $version"
    done < <(pinned headers)
}

# Compilers as single words, as configure scripts and CMake expect them.
make_tools() {
    tools=$work/tools
    mkdir -p "$tools"
    # sections: the linker leaves out what no program calls, half of OpenSSL among it
    local flags="-target $arch-linux-gnu.$glibc -ffile-prefix-map=$work=. -ffile-prefix-map=$top=. -g0"
    # the libraries are hardened like the programs
    flags+=" -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"
    flags+=" -ffunction-sections -fdata-sections"
    printf '#!/bin/sh\nexec "%s" cc %s "$@"\n' "$zig" "$flags" > "$tools/cc"
    printf '#!/bin/sh\nexec "%s" c++ %s "$@"\n' "$zig" "$flags -DBOOST_DISABLE_CURRENT_LOCATION" > "$tools/c++"
    printf '#!/bin/sh\nexec "%s" ar "$@"\n' "$zig" > "$tools/ar"
    printf '#!/bin/sh\nexec "%s" ranlib "$@"\n' "$zig" > "$tools/ranlib"
    chmod +x "$tools"/*
    cat > "$work/toolchain.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $arch)
set(CMAKE_C_COMPILER $tools/cc)
set(CMAKE_CXX_COMPILER $tools/c++)
set(CMAKE_AR $tools/ar)
set(CMAKE_RANLIB $tools/ranlib)
set(CMAKE_PREFIX_PATH $prefix)
set(CMAKE_FIND_ROOT_PATH $prefix)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR /usr/bin/env)
set(OPENSSL_USE_STATIC_LIBS ON)
set(OPENSSL_ROOT_DIR $prefix)
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "")
set(CMAKE_EXE_LINKER_FLAGS "-Wl,--gc-sections -s" CACHE STRING "")
END
}

unpack() {
    local file
    file=$(pinned source | awk -v package="$1" '$1 == package { print $2 }')
    rm -rf "${work:?}/$1"
    mkdir -p "$work/$1"
    tar -xf "$cache/sources/$file" -C "$work/$1" --strip-components=1
}

# once NAME COMMAND...: what was built from the same sources in the same way is not built again
once() {
    local name=$1
    shift
    [ -e "$work/$name.done" ] && return
    echo "== $arch: $name"
    # not with ||, which would ignore the failure of every step but the last
    local status=0
    set +e
    (set -e; "$@") > "$work/$name.log" 2>&1
    status=$?
    set -e
    [ $status = 0 ] || { tail -n 30 "$work/$name.log" >&2; fail "$arch: $name failed, see $work/$name.log"; }
    touch "$work/$name.done"
}

build_openssl() {
    unpack openssl
    cd "$work/openssl"
    # The paths are Debian's; other places are looked for at run time (agent/io/tls.cpp). The date and the compiler's name
    # become part of the library: they must not depend on when and where this runs.
    export SOURCE_DATE_EPOCH=0 PATH="$tools:$PATH"
    CC=cc AR=ar RANLIB=ranlib ./Configure "linux-$arch" no-shared no-tests no-legacy no-engine \
        no-dso no-afalgeng no-comp --prefix=/usr --libdir=lib --openssldir=/etc/ssl
    make -j "$jobs" build_libs
    make install_dev DESTDIR="$work/openssl/installed"
    cp -a installed/usr/. "$prefix/"
    sed -i "s#^prefix=.*#prefix=$prefix#" "$prefix"/lib/pkgconfig/*.pc
}

build_sqlite() {
    unpack sqlite3
    cd "$work/sqlite3"
    ./configure --disable-tcl --disable-readline --disable-shared > /dev/null
    make sqlite3.c sqlite3.h
    "$tools/cc" -O2 -DSQLITE_THREADSAFE=1 -DSQLITE_OMIT_LOAD_EXTENSION -c sqlite3.c -o sqlite3.o
    install -d "$prefix/lib" "$prefix/include"
    rm -f "$prefix/lib/libsqlite3.a"
    "$tools/ar" rcsD "$prefix/lib/libsqlite3.a" sqlite3.o
    install -m 0644 sqlite3.h sqlite3ext.h "$prefix/include/"
}

build_yaml() {
    unpack yaml-cpp
    cmake -S "$work/yaml-cpp" -B "$work/yaml-cpp/build" -DCMAKE_TOOLCHAIN_FILE="$work/toolchain.cmake" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DYAML_CPP_BUILD_TESTS=OFF \
        -DYAML_CPP_BUILD_TOOLS=OFF -DYAML_BUILD_SHARED_LIBS=OFF
    cmake --build "$work/yaml-cpp/build" -j "$jobs" --target install
}

build_rdkafka() {
    unpack librdkafka
    # Its condition does not ask whether OpenSSL was built with engines. With WITH_STATIC_LIB_libcrypto it looks for the
    # authorities in the places of all distributions.
    sed -i 's/^#define WITH_SSL_ENGINE 1$/#define WITH_SSL_ENGINE 0/' "$work/librdkafka/src/rdkafka_conf.h"
    cmake -S "$work/librdkafka" -B "$work/librdkafka/build" -DCMAKE_TOOLCHAIN_FILE="$work/toolchain.cmake" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DRDKAFKA_BUILD_STATIC=ON \
        -DRDKAFKA_BUILD_EXAMPLES=OFF -DRDKAFKA_BUILD_TESTS=OFF -DCMAKE_C_FLAGS=-DWITH_STATIC_LIB_libcrypto=1 -DWITH_SSL=ON -DWITH_SASL=OFF -DWITH_ZLIB=OFF \
        -DWITH_ZSTD=OFF -DWITH_CURL=OFF -DWITH_LIBDL=OFF -DWITH_PLUGINS=OFF -DENABLE_LZ4_EXT=OFF -DCMAKE_INSTALL_LIBDIR=lib
    cmake --build "$work/librdkafka/build" -j "$jobs" --target rdkafka
    install -d "$prefix/include/librdkafka" "$prefix/lib/pkgconfig"
    install -m 0644 "$work/librdkafka/src/rdkafka.h" "$prefix/include/librdkafka/"
    install -m 0644 "$work/librdkafka/build/src/librdkafka.a" "$prefix/lib/"
    printf 'Name: rdkafka\nDescription: Kafka client\nVersion: 2.0.2\nLibs: -L%s/lib -lrdkafka -lssl -lcrypto -lm\nCflags: -I%s/include\n' \
        "$prefix" "$prefix" > "$prefix/lib/pkgconfig/rdkafka.pc"
}

# Boost and CLI11 are headers; Boost.JSON and Boost.URL compile from one source each.
install_headers() {
    install -d "$prefix/include" "$prefix/lib/cmake/Boost-1.81.0" "$prefix/lib/cmake/CLI11"
    ln -sfn /usr/include/boost "$prefix/include/boost"
    ln -sfn /usr/include/CLI "$prefix/include/CLI"
    ln -sfn /usr/include/systemd "$prefix/include/systemd"
    printf 'Name: libsystemd\nDescription: headers alone\nVersion: 252\n' > "$prefix/lib/pkgconfig/libsystemd.pc"
    local part
    for part in json url; do
        echo "#include <boost/$part/src.hpp>" > "$work/boost-$part.cpp"
        "$tools/c++" -std=c++20 -O2 -I"$prefix/include" -c "$work/boost-$part.cpp" -o "$work/boost-$part.o"
        rm -f "$prefix/lib/libboost_$part.a"
        "$tools/ar" rcsD "$prefix/lib/libboost_$part.a" "$work/boost-$part.o"
    done
    cat > "$prefix/lib/cmake/Boost-1.81.0/BoostConfig.cmake" <<END
add_library(Boost::headers INTERFACE IMPORTED)
target_include_directories(Boost::headers INTERFACE $prefix/include)
foreach(part json url)
  add_library(Boost::\${part} INTERFACE IMPORTED)
  target_link_libraries(Boost::\${part} INTERFACE $prefix/lib/libboost_\${part}.a Boost::headers)
endforeach()
END
    cat > "$prefix/lib/cmake/Boost-1.81.0/BoostConfigVersion.cmake" <<END
set(PACKAGE_VERSION 1.81.0)
set(PACKAGE_VERSION_COMPATIBLE TRUE)
END
    cat > "$prefix/lib/cmake/CLI11/CLI11Config.cmake" <<END
add_library(CLI11::CLI11 INTERFACE IMPORTED)
target_include_directories(CLI11::CLI11 INTERFACE $prefix/include)
END
}

build_programs() {
    local launcher=()
    if command -v ccache >/dev/null; then launcher+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
    export CCACHE_COMPILERCHECK=content
    rm -rf "$work/build"
    PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig cmake -S "$top" -B "$work/build" -G Ninja \
        -DCMAKE_TOOLCHAIN_FILE="$work/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
        -DCMAKE_INSTALL_PREFIX=/usr "${launcher[@]}" --log-level=WARNING
    cmake --build "$work/build" -j "$jobs" --target exposure-agent exposure-agent-probe manuals
    # Completions and schema are what the program itself prints, the same on every processor.
    if [ "$arch" = "$(uname -m)" ]; then
        cmake --build "$work/build" -j "$jobs" --target generated
    else
        (cd "$cache/$(uname -m)/build/systemd" && cp -a agent.schema.json exposure-agent _exposure-agent \
            exposure-agent.fish "$work/build/systemd/") || fail "build $(uname -m) first"
    fi
}

# The licences of what is linked in require that their texts come with the programs. SQLite is in the public domain.
install_licences() {
    install -d "$1"
    install -m 0644 "$work/openssl/LICENSE.txt" "$1/openssl"
    install -m 0644 "$work/librdkafka/LICENSES.txt" "$1/librdkafka"
    install -m 0644 "$work/yaml-cpp/LICENSE" "$1/yaml-cpp"
    install -m 0644 "$(dirname "$zig")/lib/libcxx/LICENSE.TXT" "$1/libcxx"
    local package version
    while read -r package version; do
        install -m 0644 "/usr/share/doc/$package/copyright" "$1/$package"
    done < <(pinned headers)
}

package() {
    local version name root
    version=$(sed -n 's/^project(exposure-agent VERSION \([0-9.]*\).*/\1/p' "$top/CMakeLists.txt")
    name=exposure-agent-$version-linux-$arch
    root=$work/$name
    rm -rf "$root"
    DESTDIR=$root cmake --install "$work/build" > /dev/null
    install -m 0755 "$here/install.sh" "$root/"
    install_licences "$root/usr/share/doc/exposure-agent/licences"
    # scripts keep the modes of the clone, which depend on the umask; RPM keeps times that are before the last commit
    chmod -R u=rwX,go=rX "$root"
    find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    python3 "$here/sbom.py" "$here/sources.txt" "$version" "$arch" > "$output/$name.spdx.json"
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" |
        gzip -9n > "$output/$name.tar.gz"
    package_rpm
    (cd "$output" && sha256sum -- *.tar.gz *.spdx.json $(compgen -G '*.rpm') > SHA256SUMS)
    echo "$output/$name.tar.gz"
}

# The same files as an RPM, if rpmbuild is installed.
package_rpm() {
    if ! command -v rpmbuild >/dev/null; then
        echo "build.sh: no RPM was built: rpmbuild is not installed; run: apt-get install rpm" >&2
        return
    fi
    local tree=$work/tree
    rm -rf "$work/rpm" "$tree"
    mkdir -p "$work/rpm"
    cp -a "$root" "$tree"
    rm "$tree/install.sh"
    mv "$tree/usr/share/zsh/vendor-completions" "$tree/usr/share/zsh/site-functions"
    sed -e "s#@VERSION@#$version#" -e "s#@ARCH@#$arch#" -e "s#@TREE@#$tree#" \
        "$here/exposure-agent.spec.in" > "$work/rpm/exposure-agent.spec"
    rpmbuild --quiet -bb --target "$arch" --define "_topdir $work/rpm" "$work/rpm/exposure-agent.spec"
    cp "$work/rpm/RPMS/$arch/exposure-agent-$version-1.$arch.rpm" "$output/"
}

build() {
    arch=$1
    work=$cache/$arch
    prefix=$work/prefix
    local pinned
    pinned=$( (echo "$glibc" && grep -v '^#' "$here/sources.txt" && declare -f make_tools unpack build_openssl build_sqlite \
        build_yaml build_rdkafka install_headers) | sha256sum)
    if [ "$(cat "$work/pinned" 2>/dev/null)" != "$pinned" ]; then
        rm -rf "$work"
        mkdir -p "$work"
        echo "$pinned" > "$work/pinned"
    fi
    make_tools
    once openssl build_openssl
    once sqlite build_sqlite
    once yaml-cpp build_yaml
    once librdkafka build_rdkafka
    once headers install_headers
    rm -f "$work/programs.done"
    once programs build_programs
    package
}

[ $# != 0 ] || set -- "$(uname -m)"
for arch; do
    case $arch in
    x86_64 | aarch64) ;;
    *) fail "unknown architecture '$arch'; x86_64 and aarch64 are known" ;;
    esac
done
mkdir -p "$cache" "$output"
exec 9> "$cache/lock"
flock 9
fetch_sources
fetch_compiler
check_headers
for arch; do
    (build "$arch")
done
