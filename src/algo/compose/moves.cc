// Recipes of operations that move elements without reading their values.
#include "algo/below/dtypes.h"
#include "algo/compose/check.h"
#include "algo/compose/comm.h"
#include "algo/compose/execution.h"
#include "algo/compose/scratch.h"

#include <algorithm>
#include <cstring>

namespace distwrap::algo::compose {
namespace {

// Copies between pieces that are the same memory or share none.
void copy(void* to, const void* from, uint64_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

// The dissemination barrier: in each round every rank hears from twice as many
// ranks. The peers of the rounds differ, so rounds need no numbers of their
// own.
int32_t Execution::barrier_by_messages() {
  const uint64_t bytes = dtype_bytes(carrier_);
  uint64_t token_out = 0, token_in = 0;
  for (int distance = 1; distance < size_; distance *= 2) {
    receive((rank_ - distance + size_) % size_, &token_in, bytes);
    send((rank_ + distance) % size_, &token_out, bytes);
    if (int32_t code = exchange()) return code;
  }
  return DW_OK;
}

int32_t Execution::barrier_by_all_reduce(const dw_op& op) {
  uint64_t in = 0, out = 0;
  dw_op part = part_of(op, DW_OP_ALL_REDUCE);
  part.reduce = DW_REDUCE_MAX;
  part.in.data = &in;
  part.out.data = &out;
  part.in.count = part.out.count = 1;
  part.in.dtype = part.out.dtype = kDTypeOf[carrier_];
  return run_below(part);
}

// Broadcasts along a binomial tree from the root.
int32_t Execution::broadcast(const dw_op& op) {
  const uint64_t bytes =
      static_cast<uint64_t>(op.out.count) * dtype_bytes(op_dtype(op));
  const int place = (rank_ - op.peer + size_) % size_;
  int distance = 1;
  if (place == 0) {
    copy(op.out.data, op.in.data, bytes);
    while (distance < size_) distance *= 2;
  } else {
    while ((place & distance) == 0) distance *= 2;
    receive((rank_ - distance + size_) % size_, op.out.data, bytes);
    if (int32_t code = exchange()) return code;
  }
  while ((distance /= 2) > 0)
    if (place + distance < size_)
      send((rank_ + distance) % size_, op.out.data, bytes);
  return exchange();
}

int32_t Execution::gather(const dw_op& op) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  const uint64_t own = static_cast<uint64_t>(op.in.count) * element;
  if (rank_ != op.peer) {
    send(op.peer, op.in.data, own);
    return exchange();
  }
  out_parts_.set(op.out, size_, element);
  for (int i = 1; i < size_; ++i) {
    const int r = (rank_ + i) % size_;
    receive(r, out_parts_.at(r), out_parts_.bytes(r));
  }
  if (int32_t code = exchange()) return code;
  copy(out_parts_.at(rank_), op.in.data, own);
  return DW_OK;
}

int32_t Execution::scatter(const dw_op& op) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  const uint64_t own = static_cast<uint64_t>(op.out.count) * element;
  if (rank_ != op.peer) {
    receive(op.peer, op.out.data, own);
    return exchange();
  }
  in_parts_.set(op.in, size_, element);
  for (int i = 1; i < size_; ++i) {
    const int r = (rank_ + i) % size_;
    send(r, in_parts_.at(r), in_parts_.bytes(r));
  }
  if (int32_t code = exchange()) return code;
  copy(op.out.data, in_parts_.at(rank_), own);
  return DW_OK;
}

int32_t Execution::all_gather(const dw_op& op) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  const uint64_t own = static_cast<uint64_t>(op.in.count) * element;
  out_parts_.set(op.out, size_, element);
  for (int i = 1; i < size_; ++i) {
    const int to = (rank_ + i) % size_;
    const int from = (rank_ - i + size_) % size_;
    receive(from, out_parts_.at(from), out_parts_.bytes(from));
    send(to, op.in.data, own);
  }
  if (int32_t code = exchange()) return code;
  copy(out_parts_.at(rank_), op.in.data, own);
  return DW_OK;
}

int32_t Execution::all_to_all(const dw_op& op) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  in_parts_.set(op.in, size_, element);
  out_parts_.set(op.out, size_, element);
  const bool in_place = (op.flags & DW_FLAG_IN_PLACE) != 0;
  const Scratch staged(scratch_, in_place ? in_parts_.all_bytes() : 0);
  if (!staged.ok()) return no_memory();
  char* at = staged.data();
  const auto outgoing = [&](int r) {
    if (!in_place) return in_parts_.at(r);
    char* const piece = at;
    copy(piece, in_parts_.at(r), in_parts_.bytes(r));
    at += in_parts_.bytes(r);
    return piece;
  };
  for (int i = 1; i < size_; ++i) {
    const int to = (rank_ + i) % size_;
    const int from = (rank_ - i + size_) % size_;
    send(to, outgoing(to), in_parts_.bytes(to));
    receive(from, out_parts_.at(from), out_parts_.bytes(from));
  }
  // With counts and in place, this rank's part may lie elsewhere in the output.
  const char* const own = outgoing(rank_);
  if (int32_t code = exchange()) return code;
  copy(out_parts_.at(rank_), own, out_parts_.bytes(rank_));
  return DW_OK;
}

int32_t Execution::gather_by_all_gather(const dw_op& op) {
  const bool root = rank_ == op.peer;
  const auto n = static_cast<uint64_t>(size_);
  const Scratch all(scratch_, root ? 0
                                   : n * static_cast<uint64_t>(op.in.count) *
                                         dtype_bytes(op_dtype(op)));
  if (!all.ok()) return no_memory();
  dw_op part = part_of(op, DW_OP_ALL_GATHER);
  part.in = op.in;
  if (root) {
    part.flags = op.flags & (DW_FLAG_IN_PLACE | DW_FLAG_PARTS);
    part.out = op.out;
  } else {
    part.out.data = all.data();
    part.out.count = op.in.count * size_;
    part.out.dtype = op.in.dtype;
  }
  return perform(part);
}

int32_t Execution::scatter_by_broadcast(const dw_op& op) {
  const bool root = rank_ == op.peer;
  const uint64_t own =
      static_cast<uint64_t>(op.out.count) * dtype_bytes(op_dtype(op));
  const auto n = static_cast<uint64_t>(size_);
  const Scratch all(scratch_, n * own);
  if (!all.ok()) return no_memory();
  if (root) {
    in_parts_.set(op.in, size_, dtype_bytes(op_dtype(op)));
    for (int r = 0; r < size_; ++r)
      copy(all.data() + static_cast<uint64_t>(r) * own, in_parts_.at(r), own);
  }
  dw_op part = part_of(op, DW_OP_BROADCAST);
  part.peer = op.peer;
  part.out.data = all.data();
  part.out.count = op.out.count * size_;
  part.out.dtype = op.out.dtype;
  if (root) {
    part.in = part.out;
    part.flags = DW_FLAG_IN_PLACE;
  }
  if (int32_t code = perform(part)) return code;
  copy(op.out.data, all.data() + static_cast<uint64_t>(rank_) * own, own);
  return DW_OK;
}

// Every rank knows the counts of all ranks.
int32_t Execution::all_gather_padded(const dw_op& op) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  const int64_t most = *std::max_element(op.out.counts, op.out.counts + size_);
  const uint64_t bytes = static_cast<uint64_t>(most) * element;
  const auto n = static_cast<uint64_t>(size_);
  const Scratch staged(scratch_, bytes);
  const Scratch all(scratch_, n * bytes);
  if (!staged.ok() || !all.ok()) return no_memory();
  const uint64_t own = static_cast<uint64_t>(op.in.count) * element;
  copy(staged.data(), op.in.data, own);
  if (bytes > own) std::memset(staged.data() + own, 0, bytes - own);
  dw_op part = part_of(op, DW_OP_ALL_GATHER);
  part.in.data = staged.data();
  part.in.count = most;
  part.out.data = all.data();
  part.out.count = most * size_;
  part.in.dtype = part.out.dtype = op.out.dtype;
  if (int32_t code = perform(part)) return code;
  out_parts_.set(op.out, size_, element);
  for (int r = 0; r < size_; ++r)
    copy(out_parts_.at(r), all.data() + static_cast<uint64_t>(r) * bytes,
         out_parts_.bytes(r));
  return DW_OK;
}

int32_t Execution::all_to_all_by_all_gather(const dw_op& op) {
  const uint64_t element = dtype_bytes(op_dtype(op));
  const auto n = static_cast<uint64_t>(size_);
  const uint64_t bytes = static_cast<uint64_t>(op.in.count) * element;
  const Scratch staged(scratch_, op.in.parts == nullptr ? 0 : bytes);
  const Scratch all(scratch_, n * bytes);
  if (!staged.ok() || !all.ok()) return no_memory();
  in_parts_.set(op.in, size_, element);
  const uint64_t piece = in_parts_.bytes(0);
  dw_op part = part_of(op, DW_OP_ALL_GATHER);
  part.in = op.in;
  if (op.in.parts != nullptr) {
    for (int r = 0; r < size_; ++r)
      copy(staged.data() + static_cast<uint64_t>(r) * piece, in_parts_.at(r),
           piece);
    part.in.parts = nullptr;
    part.in.data = staged.data();
  }
  part.out.data = all.data();
  part.out.count = op.in.count * size_;
  part.out.dtype = op.in.dtype;
  if (int32_t code = perform(part)) return code;
  out_parts_.set(op.out, size_, element);
  for (int r = 0; r < size_; ++r)
    copy(out_parts_.at(r),
         all.data() + static_cast<uint64_t>(r) * bytes +
             static_cast<uint64_t>(rank_) * piece,
         piece);
  return DW_OK;
}

}  // namespace distwrap::algo::compose
