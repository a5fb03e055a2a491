#include "comm/op_build.h"

#include "sdk/half.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string.h>
#include <vector>

namespace distwrap::comm {
namespace {

using op_build::kAbiDTypes;

DType dtype_of_abi(const dw_dtype& given) {
  uint8_t index = 0;
  for (const dw_dtype& known : kAbiDTypes) {
    if (known.code == given.code && known.bits == given.bits) break;
    ++index;
  }
  return static_cast<DType>(index);
}

void fill_list(absl::Span<const TensorView> list, std::vector<void*>* parts,
               std::vector<int64_t>* counts, dw_buf* buffer) {
  if (list.empty()) return;
  parts->reserve(list.size());
  counts->reserve(list.size());
  for (const TensorView& view : list) {
    parts->push_back(view.data());
    counts->push_back(view.count());
    buffer->count += view.count();
  }
  buffer->parts = parts->data();
  buffer->counts = counts->data();
  buffer->dtype = kAbiDTypes[static_cast<uint8_t>(list.front().dtype())];
}

// Equal sizes that every rank knows are not passed one by one: more backends,
// and faster algorithms, take such a call.
void fill_lists(uint16_t kind, const AnyCall& call, ListArrays* lists,
                dw_op* op) {
  op->flags |= DW_FLAG_PARTS;
  fill_list(call.ins, &lists->in_parts, &lists->in_counts, &op->in);
  fill_list(call.outs, &lists->out_parts, &lists->out_counts, &op->out);
  const std::vector<int64_t>* seen = nullptr;
  if (kind == DW_OP_ALL_GATHER) seen = &lists->out_counts;
  if (kind == DW_OP_REDUCE_SCATTER) seen = &lists->in_counts;
  if (seen != nullptr &&
      std::adjacent_find(seen->begin(), seen->end(), std::not_equal_to<>()) ==
          seen->end()) {
    op->in.counts = nullptr;
    op->out.counts = nullptr;
    return;
  }
  op->flags |= DW_FLAG_PER_RANK;
}

template <class T>
ScaleBytes bytes_of(T number) {
  ScaleBytes scale;
  memcpy(scale.bytes, &number, sizeof number);
  return scale;
}

// A number in a floating-point element type.
ScaleBytes scale_bytes(double number, DType dtype) {
  const auto single = static_cast<float>(number);
  switch (dtype) {
    case DType::kF16:
      return bytes_of(dw_sdk::f32_to_f16(single));
    case DType::kBF16:
      return bytes_of(dw_sdk::f32_to_bf16(single));
    case DType::kF32:
      return bytes_of(single);
    default:
      return bytes_of(number);
  }
}

}  // namespace

bool fill_rest(uint16_t kind, const AnyCall& call, const CheckedCall& checked,
               ScaleBytes* scale, ListArrays* lists, dw_op* op) {
  op->next = call.next;
  if (call.exclusive) op->flags |= DW_FLAG_EXCLUSIVE;
  if (call.per_rank) fill_counts(call.in_counts, call.out_counts, checked, op);
  if (call.lists) fill_lists(kind, call, lists, op);
  if (call.reduce != DW_REDUCE_PREMUL_SUM) return false;
  if (call.op.factor() == ReduceOp::Factor::kTensor) {
    op->scale = call.op.tensor();
    if (call.op.tensor_device() != kCpu) op->flags |= DW_FLAG_SCALE_ON_DEVICE;
    return false;
  }
  const TensorView& in = call.ins.empty() ? call.in : call.ins.front();
  *scale = scale_bytes(call.op.number(), in.dtype());
  op->scale = scale->bytes;
  return true;
}

std::vector<TensorView> views_of(const dw_buf& buffer, int size,
                                 Device device) {
  const DType dtype = dtype_of_abi(buffer.dtype);
  if (buffer.parts == nullptr) {
    if (buffer.data == nullptr) return {};
    return {TensorView(buffer.data, buffer.count, dtype, device)};
  }
  std::vector<TensorView> parts;
  for (int r = 0; r < size; ++r)
    parts.emplace_back(
        buffer.parts[r],
        buffer.counts != nullptr ? buffer.counts[r] : buffer.count / size,
        dtype, device);
  return parts;
}

Deadline set_deadline(dw_op& op, int64_t now_ns) {
  if (op.deadline_ns != 0) return Deadline::at_ns(op.deadline_ns);
  if (op.timeout_ns == 0 ||
      __builtin_add_overflow(now_ns, op.timeout_ns, &op.deadline_ns)) {
    op.deadline_ns = 0;
    return Deadline::never();
  }
  return Deadline::at_ns(op.deadline_ns);
}

}  // namespace distwrap::comm
