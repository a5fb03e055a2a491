#!/bin/sh
# Shows that the door costs an operation of distwrap nothing: an 8-byte
# all_reduce takes as many instructions with the door loaded, open and closed,
# as without it.
#
#   same_instructions.sh VALGRIND PROGRAM DOOR
set -eu
valgrind=$1 program=$2 door=$3

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

count() { # preloaded library, DISTWRAP_GUARD -> instructions of 1000 calls
  LD_PRELOAD=$1 DISTWRAP_GUARD=$2 DISTWRAP_RECORDER=0 "$valgrind" \
    --tool=callgrind --callgrind-out-file="$out/callgrind" --collect-atstart=no \
    --toggle-collect=count_facade "$program" 2>"$out/log" || {
    cat "$out/log" >&2
    exit 1
  }
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$out/log"
}

# The least of three: on a busy machine something rare may fall into the count.
least() { for try in 1 2 3; do count "$1" "$2"; done | sort -n | head -n 1; }

without=$(least "" off) open=$(least "$door" off) closed=$(least "$door" block)
echo "1000 calls: $without instructions, door open $open, closed $closed"
[ "$without" -gt 1000 ] && [ "$open" -eq "$without" ] &&
  [ "$closed" -eq "$without" ]
