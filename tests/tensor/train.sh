#!/bin/sh
# Runs the examples of tensors.
#
#   train.sh oracle|learns|examples EXAMPLES ORACLE DOCS DISTWRAP
#
# oracle    50 steps in 64-bit floats equal plain loops to 1e-8
# learns    after 300 steps the loss is below 2.6 nats a byte
# examples  the others print what they promise; two ranks train together
set -eu
what=$1 examples=$2 oracle=$3 docs=$4 distwrap=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*"
  exit 1
}

case "$what" in
  oracle)
    shape="width=16 heads=2 layers=2 context=16 batch=4"
    # shellcheck disable=SC2086  # a list of settings
    "$examples/train_gpt" $shape steps=0 f64=1 dropout=0 "save=$work/start" \
      "$docs/moe.md"
    # shellcheck disable=SC2086
    "$examples/train_gpt" $shape steps=50 f64=1 dropout=0 "save=$work/end" \
      "$docs/moe.md"
    # shellcheck disable=SC2086
    "$oracle" "$work/start" "$work/end" $shape steps=50 "$docs/moe.md"
    ;;
  learns)
    "$examples/train_gpt" steps=301 "$docs"/*.md | tee "$work/out"
    tail -n 1 "$work/out" | awk '{ exit !($3 < 2.6) }' ||
      fail "the model did not learn"
    ;;
  examples)
    "$examples/tensors" | grep -x 'y = 3 x + -1'
    "$examples/use_own_op" "$examples/own_op.so" >"$work/own"
    grep -x '(3 \* 2)^3 = 216, its derivative 324' "$work/own"
    grep '^unloaded' "$work/own"
    "$distwrap" run -n 2 "$examples/train_gpt" steps=3 width=16 context=16 \
      "$docs/moe.md" | grep 'step 2:'
    code=0
    "$examples/train_gpt" stepz=1 2>"$work/err" || code=$?
    [ "$code" = 2 ] || fail "a wrong setting ended with $code"
    grep -q "no setting is named 'stepz'" "$work/err"
    "$distwrap" info --ops | grep -q '^dw::matmul'
    ! "$distwrap" info --ops --json | grep '"types": "-"' ||
      fail "the operators above have no row in operator_pages.def"
    "$distwrap" info --ops --json | python3 -m json.tool >/dev/null
    "$distwrap" bench dispatch --json | python3 -m json.tool >/dev/null
    ;;
esac
