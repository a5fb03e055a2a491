#include "algo/compose/execution.h"

#include "algo/below/dtypes.h"
#include "algo/compose/check.h"
#include "algo/compose/comm.h"
#include "algo/compose/scratch.h"
#include "algo/decorator.h"

#include <cstring>

namespace distwrap::algo::compose {

Execution::Execution(Comm& comm, bool may_block)
    : comm_(comm),
      may_block_(may_block),
      rank_(comm.rank()),
      size_(comm.size()),
      ranks_(comm.size()),
      scratch_(comm.backend().host()) {}

int32_t Execution::run(const dw_op& op, dw_error* error) {
  seq_ = op.seq;
  fingerprint_ = op.fingerprint;
  step_ = 0;
  started_ = broken_ = false;
  error_ = {};
  error_.peer = -1;
  messages_.clear();
  deadline_ns_ = op.deadline_ns;
  if (deadline_ns_ == 0 && op.timeout_ns != 0 &&
      __builtin_add_overflow(comm_.backend().now_ns(), op.timeout_ns,
                             &deadline_ns_))
    deadline_ns_ = 0;
  const bool composes_rows =
      dw_sdk::moe_extension_of(op) != nullptr && !comm_.moves_rows_of(op);
  const int32_t code = composes_rows ? move_rows(op) : perform(op);
  if (code != DW_OK && error != nullptr) *error = error_;
  return code;
}

// The descriptor of a step that is an operation of its own.
dw_op Execution::part_of(const dw_op& op, uint16_t kind) const {
  dw_op part = {};
  part.struct_size = sizeof part;
  part.kind = kind;
  part.peer = -1;
  part.stream = op.stream;
  return part;
}

int32_t Execution::perform(const dw_op& op) {
  const Recipes& recipes = comm_.backend().recipes();
  const int dtype = op_dtype(op);
  carrier_ = op.kind == DW_OP_BARRIER ? recipes.barrier_dtype()
                                      : recipes.message_carrier(dtype);
  const Recipe recipe = recipes.recipe(op.kind, op.flags, dtype, op.reduce);
  switch (recipe) {
    case Recipe::kNative:
      return perform_native(op);
    case Recipe::kCarried:
      return carried(op);
    case Recipe::kSumThenDivide:
      return sum_then_divide(op);
    case Recipe::kScaleThenSum:
      return scale_then_sum(op);
    case Recipe::kBarrierByAllReduce:
      return barrier_by_all_reduce(op);
    case Recipe::kGatherByAllGather:
      return gather_by_all_gather(op);
    case Recipe::kScatterByBroadcast:
      return scatter_by_broadcast(op);
    case Recipe::kAllGatherPadded:
      return all_gather_padded(op);
    case Recipe::kAllToAllByAllGather:
      return all_to_all_by_all_gather(op);
    case Recipe::kReduceByAllReduce:
      return reduce_by_all_reduce(op);
    case Recipe::kAllReduceByReduceScatter:
      return all_reduce_by_reduce_scatter(op);
    case Recipe::kAllReduceByReduce:
      return all_reduce_by_reduce(op);
    case Recipe::kReduceScatterByAllToAll:
      return reduce_scatter_by_all_to_all(op);
    case Recipe::kReduceScatterByAllReduce:
      return reduce_scatter_by_all_reduce(op);
    case Recipe::kKernelByAllGather:
      return kernel_by_all_gather(op);
    case Recipe::kByMessages:
      break;
    case Recipe::kToSelf:
    case Recipe::kRefused:
      return failed(unsupported(&error_, "this cannot be composed"));
  }
  switch (op.kind) {
    case DW_OP_BARRIER:
      return barrier_by_messages();
    case DW_OP_BROADCAST:
      return broadcast(op);
    case DW_OP_REDUCE:
      return reduce(op);
    case DW_OP_ALL_REDUCE:
      return all_reduce(op);
    case DW_OP_GATHER:
      return gather(op);
    case DW_OP_SCATTER:
      return scatter(op);
    case DW_OP_ALL_GATHER:
      return all_gather(op);
    case DW_OP_REDUCE_SCATTER:
      return reduce_scatter(op);
    case DW_OP_ALL_TO_ALL:
      return all_to_all(op);
    default:
      return scan(op);
  }
}

int32_t Execution::perform_native(const dw_op& op) {
  const Recipes& recipes = comm_.backend().recipes();
  const int dtype = op_dtype(op);
  const auto native_with = [&](uint32_t flags) {
    return recipes.native(op.kind, flags, dtype, op.reduce);
  };
  if (native_with(op.flags)) return run_below(op);
  // Copies only the parts that are not in place already.
  if ((op.flags & DW_FLAG_PARTS) != 0 &&
      ((op.flags & DW_FLAG_IN_PLACE) == 0 ||
       !native_with(op.flags & ~uint32_t{DW_FLAG_IN_PLACE})))
    return without_parts(op);
  return without_alias(op);
}

// Moves the same bytes as elements of another type.
int32_t Execution::carried(const dw_op& op) {
  const Recipes& recipes = comm_.backend().recipes();
  const int dtype = op_dtype(op);
  const int as = recipes.carrier(op.kind, op.flags, dtype);
  const auto factor =
      static_cast<int64_t>(dtype_bytes(dtype) / dtype_bytes(as));
  dw_op part = op;
  const auto n = static_cast<size_t>(size_);
  std::vector<int64_t> scaled;
  if (factor != 1) scaled.reserve(4 * n);
  for (dw_buf* buf : {&part.in, &part.out}) {
    buf->dtype = kDTypeOf[as];
    if (factor == 1) continue;
    buf->count *= factor;
    for (const int64_t** list : {&buf->counts, &buf->displs}) {
      if (*list == nullptr) continue;
      const int64_t* const first = scaled.data() + scaled.size();
      for (size_t r = 0; r < n; ++r) scaled.push_back((*list)[r] * factor);
      *list = first;
    }
  }
  return perform_native(part);
}

// The smaller of two buffers that share memory goes through scratch memory.
int32_t Execution::without_alias(const dw_op& op) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  dw_op part = op;
  part.flags &= ~uint32_t{DW_FLAG_IN_PLACE};
  const bool stage_in = op.in.count <= op.out.count;
  dw_buf& staged = stage_in ? part.in : part.out;
  Parts& parts = stage_in ? in_parts_ : out_parts_;
  const uint64_t bytes = static_cast<uint64_t>(staged.count) * element;
  const Scratch scratch(scratch_, bytes);
  if (!scratch.ok()) return no_memory();
  // Only all_to_all has counts in the smaller, or equally large, buffer.
  const bool split = staged.counts != nullptr || staged.parts != nullptr;
  if (split) {
    parts.set(staged, size_, element);
    char* at = scratch.data();
    for (int r = 0; r < size_; ++r) {
      if (parts.bytes(r) != 0) std::memcpy(at, parts.at(r), parts.bytes(r));
      at += parts.bytes(r);
    }
    staged.parts = nullptr;
    staged.displs = nullptr;
    if (part.out.parts == nullptr) part.flags &= ~uint32_t{DW_FLAG_PARTS};
  } else if (stage_in && bytes != 0) {
    std::memcpy(scratch.data(), staged.data, bytes);
  }
  void* const into = staged.data;
  staged.data = scratch.data();
  const int32_t code = perform_native(part);
  if (code != DW_OK) return code;
  if (!stage_in && bytes != 0) std::memcpy(into, scratch.data(), bytes);
  return DW_OK;
}

int32_t Execution::without_parts(const dw_op& op) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  dw_op part = op;
  part.flags &= ~uint32_t{DW_FLAG_PARTS};
  const uint64_t in_bytes =
      op.in.parts == nullptr ? 0 : static_cast<uint64_t>(op.in.count) * element;
  const uint64_t out_bytes =
      op.out.parts == nullptr ? 0
                              : static_cast<uint64_t>(op.out.count) * element;
  const Scratch in(scratch_, in_bytes);
  const Scratch out(scratch_, out_bytes);
  if (!in.ok() || !out.ok()) return no_memory();
  if (op.in.parts != nullptr) {
    Parts parts;
    parts.set(op.in, size_, element);
    char* at = in.data();
    for (int r = 0; r < size_; ++r) {
      if (parts.bytes(r) != 0) std::memcpy(at, parts.at(r), parts.bytes(r));
      at += parts.bytes(r);
    }
    part.in.parts = nullptr;
    part.in.displs = nullptr;
    part.in.data = in.data();
    part.flags &= ~uint32_t{DW_FLAG_IN_PLACE};
  }
  if (op.out.parts != nullptr) {
    part.out.parts = nullptr;
    part.out.displs = nullptr;
    part.out.data = out.data();
    // The input is where the output was, and stays unchanged until the end.
    part.flags &= ~uint32_t{DW_FLAG_IN_PLACE};
  }
  const int32_t code = perform_native(part);
  if (code != DW_OK || op.out.parts == nullptr) return code;
  Parts parts;
  parts.set(op.out, size_, element);
  const char* at = out.data();
  for (int r = 0; r < size_; ++r) {
    if (parts.bytes(r) != 0) std::memcpy(parts.at(r), at, parts.bytes(r));
    at += parts.bytes(r);
  }
  return DW_OK;
}

}  // namespace distwrap::algo::compose
