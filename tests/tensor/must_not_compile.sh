#!/bin/sh
# Compiles refused_kernels.cc once for each of its cases. Case 0 compiles; each
# other one fails with the words behind its number.
#
#   must_not_compile.sh COMPILER INCLUDE SOURCE
set -eu
compiler=$1 include=$2 source=$3
out=$(mktemp)
trap 'rm -f "$out"' EXIT
try() {
  "$compiler" -std=c++20 -fsyntax-only -DCASE="$1" -I"$include" "$source" 2>"$out"
}
try 0 || { cat "$out"; echo "FAILED: the good case does not compile"; exit 1; }
sed -n 's/^#elif CASE == \([0-9]*\)  \/\/ /\1 /p' "$source" |
  while read -r number words; do
    ! try "$number" || { echo "FAILED: case $number compiles"; exit 1; }
    grep -F "$words" "$out" >/dev/null ||
      { cat "$out"; echo "FAILED: case $number does not say: $words"; exit 1; }
    echo "case $number is refused: $words"
  done
