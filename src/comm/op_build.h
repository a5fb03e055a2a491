// Builds the ABI's descriptor from a checked call.
#ifndef DISTWRAP_SRC_COMM_OP_BUILD_H_
#define DISTWRAP_SRC_COMM_OP_BUILD_H_

#include "comm/op_check.h"
#include "comm/prepared_op.h"
#include "distwrap/deadline.h"

#include <absl/time/time.h>

#include <vector>

namespace distwrap::comm {

// Fills in a plain call; inlined on the short path.
void fill_op(uint16_t kind, const Call& call, bool in_place, int64_t timeout_ns,
             dw_op* op);

// Adds the counts per rank of a checked v form, which are borrowed.
void fill_counts(const Counts& in_counts, const Counts& out_counts,
                 const CheckedCall& checked, dw_op* op);

// Fills in what other calls have beside: counts per rank, lists, whose
// addresses and counts lie in `lists`, flags, extensions, and the factor of
// premul_sum, which lies in `scale` unless the caller gave a tensor. Returns
// whether it lies in `scale`.
bool fill_rest(uint16_t kind, const AnyCall& call, const CheckedCall& checked,
               ScaleBytes* scale, ListArrays* lists, dw_op* op);

// The reverse: the views of a buffer in a descriptor, flat; one for each part
// of a list of `size`. None where this rank has no buffer.
std::vector<TensorView> views_of(const dw_buf& buffer, int size,
                                 Device device = kCpu);

// A timeout in nanoseconds; 0 for none.
inline int64_t timeout_ns_of(absl::Duration timeout) {
  return timeout == absl::InfiniteDuration()
             ? 0
             : absl::ToInt64Nanoseconds(timeout);
}

inline dw_stream abi_stream(const Stream& stream) {
  return {stream.device.type, stream.device.id, stream.native};
}
// Sets the deadline from `timeout_ns`, unless the op has one.
Deadline set_deadline(dw_op& op, int64_t now_ns);

// ---- the short way ----

namespace op_build {

inline constexpr dw_dtype kAbiDTypes[] = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  {code, bits, 1},
#include "distwrap/abi/dtypes.def"
};

// Zeroes an op. Left to itself, gcc does it with `rep stos`, whose start-up
// costs more than all else here.
[[gnu::always_inline]] inline void clear(dw_op* op) {
  typedef uint64_t Pair __attribute__((vector_size(16), may_alias, aligned(8)));
  constexpr size_t kPairs = sizeof(dw_op) / sizeof(Pair);
  static_assert(sizeof(dw_op) == kPairs * sizeof(Pair));
  Pair* const at = reinterpret_cast<Pair*>(op);
#pragma GCC unroll 16
  for (size_t i = 0; i < kPairs; ++i) at[i] = Pair{};
}

// Fills a buffer that is zero from a checked view.
[[gnu::always_inline]] inline void fill_buffer(const TensorView& view,
                                               dw_buf* buffer) {
  buffer->data = view.data();
  buffer->count = internal::ViewAccess::count(view);
  buffer->dtype = kAbiDTypes[static_cast<uint8_t>(view.dtype())];
}

}  // namespace op_build

[[gnu::always_inline]] inline void fill_op(uint16_t kind, const Call& call,
                                           bool in_place, int64_t timeout_ns,
                                           dw_op* op) {
  op_build::clear(op);
  op->struct_size = sizeof(dw_op);
  op->kind = kind;
  op->reduce = call.reduce;
  op->flags = in_place ? DW_FLAG_IN_PLACE : 0;
  op->peer = call.peer;
  op->tag = static_cast<uint64_t>(call.tag);
  op_build::fill_buffer(call.in, &op->in);
  op_build::fill_buffer(call.out, &op->out);
  op->stream.device_type = DW_DEVICE_CPU;
  op->timeout_ns = timeout_ns;
}

[[gnu::always_inline]] inline void fill_counts(const Counts& in_counts,
                                               const Counts& out_counts,
                                               const CheckedCall& checked,
                                               dw_op* op) {
  const auto fill = [](const Counts& division, int64_t sum, dw_buf* buffer) {
    if (division.counts.empty()) return;
    buffer->counts = division.counts.data();
    buffer->displs = division.displs.empty() ? nullptr : division.displs.data();
    buffer->count = sum;
  };
  op->flags |= DW_FLAG_PER_RANK;
  fill(in_counts, checked.in_sum, &op->in);
  fill(out_counts, checked.out_sum, &op->out);
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_OP_BUILD_H_
