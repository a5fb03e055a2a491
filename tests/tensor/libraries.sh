#!/bin/sh
# Proves what the libraries of tensors need and export.
#
#   libraries.sh LIBDISTWRAP LIBTENSOR LIBOPS_CPU LIBOPS_FAKE LIBRARY
#
# LIBRARY is one of operators that calls others.
set -eu
core=$1 tensor=$2 cpu=$3 fake=$4 user=$5
fail() {
  echo "FAILED: $*"
  exit 1
}

# Programs that only communicate load nothing of the tensor library.
! readelf -d "$core" | grep -E 'NEEDED.*(tensor|ops_|blas|sleef)' ||
  fail "libdistwrap.so needs the libraries above"
! nm -DC "$core" | grep -E 'distwrap::(Tensor|Storage|dispatch|autograd)::' ||
  fail "libdistwrap.so has the names above"

# The tensor library knows no kernels, and uses public functions only.
! readelf -d "$tensor" | grep -E 'NEEDED.*(ops_|blas|sleef)' ||
  fail "libdistwrap_tensor.so needs the libraries above"
! nm -DC --undefined-only "$tensor" |
  grep -E 'distwrap::(base|store|plugin|algo|comm|group)::' ||
  fail "libdistwrap_tensor.so uses the internals above"

# Kernels know nothing of gradients, and export nothing.
for library in "$cpu" "$fake"; do
  ! nm -DC --undefined-only "$library" | grep 'distwrap::autograd::' ||
    fail "$library knows gradients"
  ! nm -D --defined-only "$library" | grep ' T ' ||
    fail "$library exports the names above"
done

# Every library reads the thread's keys at a fixed place of its thread, without
# a call: that is the initial-exec model.
for library in "$tensor" "$cpu" "$fake" "$user"; do
  ! readelf -rW "$library" | grep thread_keys | grep -v TPOFF64 ||
    fail "$library reaches the thread's keys by a call"
done
readelf -rW "$user" | grep thread_keys >/dev/null ||
  fail "$user does not use the thread's keys"
