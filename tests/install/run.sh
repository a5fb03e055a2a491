#!/bin/sh
# Installs distwrap, and uses it as other projects do: by find_package and by
# pkg-config, from the prefix, from the prefix moved elsewhere, and from the
# build tree; then as a part of a bigger project, without GoogleTest.
#
#   run.sh SOURCE BUILD WORK CXX
set -eu
source=$1 build=$2 work=$3 cxx=$4
here=$source/tests/install
backend=$source/backends/loopback

step() { echo "==> $*"; }
fail() {
  echo "FAILED: $*"
  exit 1
}

# use PREFIX NAME: builds the consumer against it both ways, and runs it.
use() {
  step "$2: find_package"
  cmake -S "$here/consumer" -B "$work/$2" -G Ninja --log-level=WARNING \
    "-DCMAKE_CXX_COMPILER=$cxx" "-DCMAKE_PREFIX_PATH=$1" \
    "-DBACKEND_SOURCE=$backend" \
    "-DTENSORS_SOURCE=$source/examples/tensors.cc"
  grep -qF "distwrap_DIR:PATH=$1/" "$work/$2/CMakeCache.txt" ||
    fail "another distwrap was found than that in $1"
  cmake --build "$work/$2" -- --quiet
  "$work/$2/consumer"
  if [ -x "$work/$2/tensors" ]; then
    "$work/$2/tensors" | grep -x 'y = 3 x + -1'
  fi
  "$work/$2/consumer" "$work/$2/libdistwrap_backend.so"
  "$work/$2/consumer" "$(find "$1"/lib* -name libdistwrap_loopback.so)"

  step "$2: pkg-config"
  libdir=$(dirname "$(find "$1"/lib* -name libdistwrap.so)")
  export PKG_CONFIG_PATH="$libdir/pkgconfig"
  # The words of pkg-config are quoted for the shell.
  eval "set -- \"\$1\" \"\$2\" $(pkg-config --cflags --libs distwrap)"
  program=$work/$2/by_pkg_config
  shift 2
  "$cxx" -std=c++20 "$here/consumer/main.cc" -o "$program" "$@" \
    "-Wl,-rpath,$libdir"
  "$program"
}

rm -rf "$work"
mkdir -p "$work"
first=$work/first second=$work/second

step "installing"
cmake --install "$build" --prefix "$first" --strip >"$work/install.log" ||
  { cat "$work/install.log"; fail "installation"; }

step "no path of the source, the build or the prefix in any installed file"
for path in "$source" "$build" "$first"; do
  ! grep -rlF -e "$path" "$first" || fail "the files above hold $path"
done
! grep -rnE --include='*.cmake' --include='*.pc' '(^|[^}A-Za-z0-9_.])/(usr|opt|home|root|tmp)/' \
  "$first" || fail "absolute paths in the files above"

step "libraries are found relative to their users only"
find "$first" -type f \( -name '*.so*' -o -path '*/bin/*' -o \
  -path '*/libexec/*' \) >"$work/binaries"
[ -s "$work/binaries" ] || fail "nothing was installed"
while read -r file; do
  paths=$(readelf -d "$file" | sed -n 's/.*R\(UN\)\{0,1\}PATH.*\[\(.*\)\]/\2/p')
  # shellcheck disable=SC2016  # the loader's word
  case "$paths" in
    '' | '$ORIGIN' | '$ORIGIN/'*) ;;
    *) fail "$file looks for libraries in $paths" ;;
  esac
done <"$work/binaries"

step "exported names"
library=$(find "$first" -name libdistwrap.so)
readelf -d "$library" | grep -q 'SONAME.*\[libdistwrap\.so\.[0-9]*\]' ||
  fail "no SONAME with the major version"
nm -D --defined-only "$library" >"$work/names"
grep -q ' _ZN8distwrap' "$work/names" || fail "nothing is exported"
! grep -vE ' ((_ZNK?|_ZT[ISV]N)8distwrap|distwrap_[a-z_]*@@|A DISTWRAP_)' \
  "$work/names" || fail "exports more than namespace distwrap and the C API"
! grep -E ' _ZNK?8distwrap(4base|5store|6plugin|4algo|4comm|5group)' \
  "$work/names" || fail "exports internals"

use "$first" prefix
mv "$first" "$second"
use "$second" moved

step "the moved command finds its helpers"
"$second/bin/distwrap" bench --help >"$work/bench_help"
for helper in "$build"/libexec/distwrap/*; do
  [ -x "$second/libexec/distwrap/$(basename "$helper")" ] ||
    fail "$helper was not installed"
  ! grep -F "/$(basename "$helper") is missing" "$work/bench_help" ||
    fail "bench does not find what was installed"
done

step "the moved command measures MPI with the helpers beside it"
helpers=$second/libexec/distwrap
for mpi in openmpi mpich; do
  line=$(grep -E "^  $mpi: " "$work/bench_help") || fail "bench knows no $mpi"
  case "$line" in
    *'not here'*) echo "skipped:$line"; continue ;;
  esac
  bench() {
    "$second/bin/distwrap" bench all_reduce --backend none --vs "$mpi" -n 2 \
      --rounds 1 -w 1 --sizes 64 >"$work/bench_$mpi" 2>&1
  }
  if ! bench || ! grep -q 'all results correct' "$work/bench_$mpi"; then
    cat "$work/bench_$mpi"
    fail "bench --vs $mpi"
  fi
  # No other one would do.
  mv "$helpers/mpi_peer_$mpi" "$work/"
  ! bench || fail "bench --vs $mpi used a helper from elsewhere"
  grep -qF "$helpers/mpi_peer_$mpi is missing" "$work/bench_$mpi" ||
    { cat "$work/bench_$mpi"; fail "bench does not say which helper is missing"; }
  mv "$work/mpi_peer_$mpi" "$helpers/"
done
use "$build" build_tree

step "part of a bigger project, without GoogleTest"
cmake -S "$here/consumer" -B "$work/part" -G Ninja --log-level=WARNING \
  "-DCMAKE_CXX_COMPILER=$cxx" "-DDISTWRAP_SOURCE=$source" \
  "-DBACKEND_SOURCE=$backend" \
  -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON --no-warn-unused-cli

step "all uses work"
