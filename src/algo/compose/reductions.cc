// Recipes of reductions. Kernels take all inputs in the order of the ranks and
// round once.
#include "algo/below/dtypes.h"
#include "algo/compose/check.h"
#include "algo/compose/comm.h"
#include "algo/compose/execution.h"
#include "algo/compose/scratch.h"
#include "algo/decorator.h"

#include <cstring>

namespace distwrap::algo::compose {
namespace {

// Up to this size one round of whole inputs is faster than two rounds of
// blocks.
constexpr uint64_t kWhole = 4096;

void copy(void* to, const void* from, uint64_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

// A buffer that is a part of an operation.
dw_buf buffer(void* data, int64_t count, dw_dtype dtype) {
  dw_buf buf = {};
  buf.data = data;
  buf.count = count;
  buf.dtype = dtype;
  return buf;
}

char* at(const void* data, int64_t elements, uint64_t element) {
  return static_cast<char*>(const_cast<void*>(data)) +
         static_cast<uint64_t>(elements) * element;
}

}  // namespace

dw_reduce_fn Execution::kernel_of(const dw_op& op, uint16_t reduce) const {
  const dw_host_api& host = comm_.backend().host();
  return host.reduce_kernel(host.self, op.in.dtype, reduce);
}

const void* Execution::operand_of(const dw_op& op) const {
  static_assert(sizeof(ranks_) == sizeof(int64_t));
  return op.reduce == DW_REDUCE_AVG ? &ranks_ : nullptr;
}

int32_t Execution::no_kernel() {
  return failed(unsupported(&error_, "the host has no kernel for this"));
}

int32_t Execution::sum_then_divide(const dw_op& op) {
  const dw_reduce_fn divide = kernel_of(op, DW_REDUCE_AVG);
  if (divide == nullptr) return no_kernel();
  dw_op sum = op;
  sum.reduce = DW_REDUCE_SUM;
  if (int32_t code = perform_native(sum)) return code;
  if (op.kind == DW_OP_REDUCE && rank_ != op.peer) return DW_OK;
  const void* const in[] = {op.out.data};
  if (op.out.count != 0)
    divide(op.out.data, in, 1, static_cast<uint64_t>(op.out.count), &ranks_);
  return DW_OK;
}

// The input must not be written, so it is scaled into a copy.
int32_t Execution::scale_then_sum(const dw_op& op) {
  const dw_reduce_fn scale = kernel_of(op, DW_REDUCE_PREMUL_SUM);
  if (scale == nullptr) return no_kernel();
  const uint64_t element = dtype_bytes(op_dtype(op));
  const Scratch scaled(scratch_, static_cast<uint64_t>(op.in.count) * element);
  if (!scaled.ok()) return no_memory();
  dw_op sum = op;
  sum.reduce = DW_REDUCE_SUM;
  sum.scale = nullptr;
  sum.flags &= ~uint32_t{DW_FLAG_IN_PLACE | DW_FLAG_PARTS};
  sum.in.data = scaled.data();
  sum.in.parts = nullptr;
  sum.in.displs = nullptr;
  const auto scale_piece = [&](char* to, const void* from, uint64_t count) {
    if (count != 0) scale(to, &from, 1, count, op.scale);
  };
  if (op.kind == DW_OP_REDUCE_SCATTER) {
    in_parts_.set(op.in, size_, element);
    char* to = scaled.data();
    for (int r = 0; r < size_; ++r) {
      scale_piece(to, in_parts_.at(r), in_parts_.count(r));
      to += in_parts_.bytes(r);
    }
  } else {
    scale_piece(scaled.data(), op.in.data, static_cast<uint64_t>(op.in.count));
  }
  return perform(sum);
}

// Sends each rank's whole input to the ranks that need it, to `to` or to all
// for -1; they reduce the inputs into the output.
int32_t Execution::reduce_whole(const dw_op& op, int to, dw_reduce_fn kernel) {
  const uint64_t bytes =
      static_cast<uint64_t>(op.in.count) * dtype_bytes(op_dtype(op));
  const bool receives = to < 0 || to == rank_;
  const auto others = static_cast<uint64_t>(size_ - 1);
  const Scratch all(scratch_, receives ? others * bytes : 0);
  if (!all.ok()) return no_memory();
  inputs_.clear();
  char* next = all.data();
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) {
      inputs_.push_back(op.in.data);
      continue;
    }
    if (to < 0 || to == r) send(r, op.in.data, bytes);
    if (!receives) continue;
    receive(r, next, bytes);
    inputs_.push_back(next);
    next += bytes;
  }
  if (int32_t code = exchange()) return code;
  if (receives && bytes != 0)
    kernel(op.out.data, inputs_.data(), static_cast<uint64_t>(size_),
           static_cast<uint64_t>(op.in.count), operand_of(op));
  return DW_OK;
}

// Sends every block to its rank, which reduces it into `out`.
int32_t Execution::reduce_blocks(const dw_op& op, void* out,
                                 dw_reduce_fn kernel) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  const int64_t begin = block_begin(rank_, op.in.count);
  const int64_t count = block_begin(rank_ + 1, op.in.count) - begin;
  const uint64_t bytes = static_cast<uint64_t>(count) * element;
  const Scratch all(scratch_, static_cast<uint64_t>(size_ - 1) * bytes);
  if (!all.ok()) return no_memory();
  inputs_.clear();
  char* next = all.data();
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) {
      inputs_.push_back(at(op.in.data, begin, element));
      continue;
    }
    const int64_t first = block_begin(r, op.in.count);
    const int64_t last = block_begin(r + 1, op.in.count);
    send(r, at(op.in.data, first, element),
         static_cast<uint64_t>(last - first) * element);
    receive(r, next, bytes);
    inputs_.push_back(next);
    next += bytes;
  }
  if (int32_t code = exchange()) return code;
  if (count != 0)
    kernel(out, inputs_.data(), static_cast<uint64_t>(size_),
           static_cast<uint64_t>(count), operand_of(op));
  return DW_OK;
}

int32_t Execution::reduce(const dw_op& op) {
  const dw_reduce_fn kernel = kernel_of(op, op.reduce);
  if (kernel == nullptr) return no_kernel();
  const uint64_t element = dtype_bytes(op_dtype(op));
  const uint64_t bytes = static_cast<uint64_t>(op.in.count) * element;
  if (bytes <= kWhole || size_ <= 2) return reduce_whole(op, op.peer, kernel);
  const int64_t begin = block_begin(rank_, op.in.count);
  const int64_t end = block_begin(rank_ + 1, op.in.count);
  const uint64_t own = static_cast<uint64_t>(end - begin) * element;
  const bool root = rank_ == op.peer;
  const Scratch block(scratch_, root ? 0 : own);
  if (!block.ok()) return no_memory();
  void* const reduced = root ? at(op.out.data, begin, element) : block.data();
  if (int32_t code = reduce_blocks(op, reduced, kernel)) return code;
  next_step();
  if (!root) {
    send(op.peer, reduced, own);
    return exchange();
  }
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const int64_t first = block_begin(r, op.in.count);
    const int64_t last = block_begin(r + 1, op.in.count);
    receive(r, at(op.out.data, first, element),
            static_cast<uint64_t>(last - first) * element);
  }
  return exchange();
}

int32_t Execution::all_reduce(const dw_op& op) {
  const dw_reduce_fn kernel = kernel_of(op, op.reduce);
  if (kernel == nullptr) return no_kernel();
  const uint64_t element = dtype_bytes(op_dtype(op));
  const uint64_t bytes = static_cast<uint64_t>(op.in.count) * element;
  if (bytes <= kWhole || size_ <= 2) return reduce_whole(op, -1, kernel);
  const int64_t begin = block_begin(rank_, op.in.count);
  const int64_t end = block_begin(rank_ + 1, op.in.count);
  char* const own = at(op.out.data, begin, element);
  if (int32_t code = reduce_blocks(op, own, kernel)) return code;
  next_step();
  for (int i = 1; i < size_; ++i) {
    const int to = (rank_ + i) % size_;
    const int from = (rank_ - i + size_) % size_;
    const int64_t first = block_begin(from, op.in.count);
    const int64_t last = block_begin(from + 1, op.in.count);
    receive(from, at(op.out.data, first, element),
            static_cast<uint64_t>(last - first) * element);
    send(to, own, static_cast<uint64_t>(end - begin) * element);
  }
  return exchange();
}

int32_t Execution::reduce_scatter(const dw_op& op) {
  const dw_reduce_fn kernel = kernel_of(op, op.reduce);
  if (kernel == nullptr) return no_kernel();
  const uint64_t element = dtype_bytes(op_dtype(op));
  in_parts_.set(op.in, size_, element);
  const uint64_t own = in_parts_.bytes(rank_);
  const Scratch all(scratch_, static_cast<uint64_t>(size_ - 1) * own);
  if (!all.ok()) return no_memory();
  inputs_.clear();
  char* next = all.data();
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) {
      inputs_.push_back(in_parts_.at(r));
      continue;
    }
    send(r, in_parts_.at(r), in_parts_.bytes(r));
    receive(r, next, own);
    inputs_.push_back(next);
    next += own;
  }
  if (int32_t code = exchange()) return code;
  if (own != 0)
    kernel(op.out.data, inputs_.data(), static_cast<uint64_t>(size_),
           in_parts_.count(rank_), operand_of(op));
  return DW_OK;
}

int32_t Execution::reduce_by_all_reduce(const dw_op& op) {
  const bool root = rank_ == op.peer;
  const Scratch dropped(scratch_, root ? 0
                                       : static_cast<uint64_t>(op.in.count) *
                                             dtype_bytes(op_dtype(op)));
  if (!dropped.ok()) return no_memory();
  dw_op part = op;
  part.kind = DW_OP_ALL_REDUCE;
  part.peer = -1;
  if (!root) {
    part.flags &= ~uint32_t{DW_FLAG_IN_PLACE};
    part.out = buffer(dropped.data(), op.in.count, op.in.dtype);
  }
  return perform(part);
}

// Uses blocks of equal size, padded when the backend below takes no others.
int32_t Execution::all_reduce_by_reduce_scatter(const dw_op& op) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  const int64_t share = (op.in.count + size_ - 1) / size_;
  const bool padded = share * size_ != op.in.count;
  const uint64_t own = static_cast<uint64_t>(share) * element;
  const uint64_t bytes = static_cast<uint64_t>(op.in.count) * element;
  const uint64_t all = own * static_cast<uint64_t>(size_);
  const Scratch staged(scratch_, padded ? all : 0);
  const Scratch block(scratch_, own);
  if (!staged.ok() || !block.ok()) return no_memory();
  dw_op part = part_of(op, DW_OP_REDUCE_SCATTER);
  part.reduce = op.reduce;
  part.in = op.in;
  if (padded) {
    copy(staged.data(), op.in.data, bytes);
    std::memset(staged.data() + bytes, 0, all - bytes);
    part.in = buffer(staged.data(), share * size_, op.in.dtype);
  }
  part.out = buffer(block.data(), share, op.in.dtype);
  if (int32_t code = perform(part)) return code;
  dw_op gathering = part_of(op, DW_OP_ALL_GATHER);
  gathering.in = part.out;
  gathering.out =
      buffer(padded ? staged.data() : op.out.data, share * size_, op.in.dtype);
  if (int32_t code = perform(gathering)) return code;
  if (padded) copy(op.out.data, staged.data(), bytes);
  return DW_OK;
}

int32_t Execution::all_reduce_by_reduce(const dw_op& op) {
  dw_op part = op;
  part.kind = DW_OP_REDUCE;
  part.peer = 0;
  if (rank_ != 0) {
    part.flags &= ~uint32_t{DW_FLAG_IN_PLACE};
    part.out = {};
  }
  if (int32_t code = perform(part)) return code;
  part = part_of(op, DW_OP_BROADCAST);
  part.peer = 0;
  part.out = op.out;
  if (rank_ == 0) {
    part.in = op.out;
    part.flags = DW_FLAG_IN_PLACE;
  }
  return perform(part);
}

int32_t Execution::reduce_scatter_by_all_to_all(const dw_op& op) {
  const dw_reduce_fn kernel = kernel_of(op, op.reduce);
  if (kernel == nullptr) return no_kernel();
  const uint64_t own =
      static_cast<uint64_t>(op.out.count) * dtype_bytes(op_dtype(op));
  const Scratch all(scratch_, static_cast<uint64_t>(size_) * own);
  if (!all.ok()) return no_memory();
  dw_op part = part_of(op, DW_OP_ALL_TO_ALL);
  part.flags = op.flags & (DW_FLAG_PER_RANK | DW_FLAG_PARTS);
  part.in = op.in;
  part.out = buffer(all.data(), op.out.count * size_, op.out.dtype);
  const std::vector<int64_t> counts(static_cast<size_t>(size_), op.out.count);
  if ((op.flags & DW_FLAG_PER_RANK) != 0) part.out.counts = counts.data();
  if (int32_t code = perform(part)) return code;
  if (own == 0) return DW_OK;
  inputs_.clear();
  for (int r = 0; r < size_; ++r)
    inputs_.push_back(all.data() + static_cast<uint64_t>(r) * own);
  kernel(op.out.data, inputs_.data(), static_cast<uint64_t>(size_),
         static_cast<uint64_t>(op.out.count), operand_of(op));
  return DW_OK;
}

int32_t Execution::reduce_scatter_by_all_reduce(const dw_op& op) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  in_parts_.set(op.in, size_, element);
  const uint64_t bytes = in_parts_.all_bytes();
  const Scratch staged(scratch_, in_parts_.packed() ? 0 : bytes);
  const Scratch reduced(scratch_, bytes);
  if (!staged.ok() || !reduced.ok()) return no_memory();
  uint64_t own = 0, offset = 0;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) own = offset;
    if (!in_parts_.packed())
      copy(staged.data() + offset, in_parts_.at(r), in_parts_.bytes(r));
    offset += in_parts_.bytes(r);
  }
  dw_op part = part_of(op, DW_OP_ALL_REDUCE);
  part.reduce = op.reduce;
  part.in = buffer(in_parts_.packed() ? op.in.data : staged.data(), op.in.count,
                   op.in.dtype);
  part.out = buffer(reduced.data(), op.in.count, op.in.dtype);
  if (int32_t code = perform(part)) return code;
  copy(op.out.data, reduced.data() + own,
       static_cast<uint64_t>(op.out.count) * element);
  return DW_OK;
}

int32_t Execution::kernel_by_all_gather(const dw_op& op) {
  const dw_reduce_fn kernel = kernel_of(op, op.reduce);
  if (kernel == nullptr) return no_kernel();
  const uint64_t bytes =
      static_cast<uint64_t>(op.in.count) * dtype_bytes(op_dtype(op));
  const Scratch all(scratch_, static_cast<uint64_t>(size_) * bytes);
  if (!all.ok()) return no_memory();
  dw_op part = part_of(op, DW_OP_ALL_GATHER);
  part.in = op.in;
  part.out = buffer(all.data(), op.in.count * size_, op.in.dtype);
  if (int32_t code = perform(part)) return code;
  const int last = op.kind != DW_OP_SCAN                 ? size_
                   : (op.flags & DW_FLAG_EXCLUSIVE) == 0 ? rank_ + 1
                                                         : rank_;
  const bool keeps = op.kind != DW_OP_REDUCE || rank_ == op.peer;
  if (!keeps || last == 0 || bytes == 0) return DW_OK;
  inputs_.clear();
  for (int r = 0; r < last; ++r)
    inputs_.push_back(all.data() + static_cast<uint64_t>(r) * bytes);
  kernel(op.out.data, inputs_.data(), static_cast<uint64_t>(last),
         static_cast<uint64_t>(op.in.count), operand_of(op));
  return DW_OK;
}

}  // namespace distwrap::algo::compose
