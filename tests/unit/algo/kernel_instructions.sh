#!/bin/sh
# Counts the instructions of kernels, to check that their loops are vector code.
#
#   kernel_instructions.sh VALGRIND PROGRAM LIMITS
#
# A line of LIMITS has dtype, reduction, inputs, instructions for 1000 elements.
# Fails when a kernel needs more. Valgrind simulates AVX2 if the processor has
# it; on other processors nothing is counted.
set -eu
valgrind=$1 program=$2 limits=$3

grep -qw avx2 /proc/cpuinfo || exit 0
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

failed=0
while read -r dtype reduction inputs limit; do
  case $dtype in
    '#'*) continue ;;
  esac
  "$valgrind" --tool=callgrind --callgrind-out-file="$out/callgrind" \
    --collect-atstart=no --toggle-collect=count_kernel \
    "$program" "$dtype" "$reduction" "$inputs" 2>"$out/log" || {
    cat "$out/log" >&2
    exit 1
  }
  total=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$out/log")
  cost=$((total / 4))
  echo "$dtype $reduction of $inputs: $cost of $limit"
  [ "$cost" -gt 0 ] && [ "$cost" -le "$limit" ] || failed=1
done <"$limits"
[ $failed = 0 ] || echo "a kernel costs more: has a loop lost its vectors?" >&2
exit $failed
