#!/bin/sh
# Counts the instructions of one 8-byte all_reduce on the loopback, made in two
# ways, and compares the difference with the number kept for this build.
#
#   count_instructions.sh VALGRIND PROGRAM KEPT "BUILD" WAY BASE
#
# WAY and BASE are straight (into the backend), facade, c, c_group, shown and
# unshown (a communicator with the board and without), or recorded: the facade
# with the recorder, which is off for all others.
#
# Fails when a call costs more than kept; asks for a new number when it costs
# clearly less. A build without a kept number is skipped (exit 77).
set -eu
valgrind=$1 program=$2 kept=$3 build=$4 way=$5 base=$6

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

count() { # way -> instructions per call
  function=count_$1 recorder=0
  if [ "$1" = recorded ]; then function=count_facade recorder=1; fi
  DISTWRAP_RECORDER=$recorder "$valgrind" --tool=callgrind --callgrind-out-file="$out/callgrind" \
    --collect-atstart=no --toggle-collect="$function" "$program" 2>"$out/log" || {
    cat "$out/log" >&2
    exit 1
  }
  total=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$out/log")
  echo $((total / 1000))
}

# The least of five: on a busy machine something rare may fall into the count.
least() {
  for try in 1 2 3 4 5; do count "$1"; done | sort -n | head -n 1
}
dear=$(least "$way")
cheap=$(least "$base")
if [ -z "$dear" ] || [ -z "$cheap" ]; then
  echo "a count was not taken" >&2
  exit 1
fi
cost=$((dear - cheap))
echo "build: $build"
echo "$way $dear, $base $cheap, difference $cost instructions per call"

limit=$(awk -F': ' -v build="$build" '$1 == build { print $2 }' "$kept")
if [ -z "$limit" ]; then
  echo "no number is kept for this build; add to $(basename "$kept"):"
  echo "$build: $cost"
  exit 77
fi
echo "kept: $limit"
if [ "$cost" -gt "$limit" ]; then
  echo "a call costs more than kept: find out why, or keep the new number with" \
    "its reason in the commit" >&2
  exit 1
fi
if [ $((cost + 5)) -lt "$limit" ]; then
  echo "a call costs less than kept: lower the number in $(basename "$kept")" >&2
  exit 1
fi
