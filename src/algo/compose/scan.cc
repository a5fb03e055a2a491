// Prefix reductions by messages.
#include "algo/below/dtypes.h"
#include "algo/compose/check.h"
#include "algo/compose/comm.h"
#include "algo/compose/execution.h"
#include "algo/compose/scratch.h"

namespace distwrap::algo::compose {
namespace {

// Up to this size each rank sends its whole input to all higher ranks, in one
// round.
constexpr uint64_t kWhole = 4096;

}  // namespace

int32_t Execution::scan(const dw_op& op) {
  const dw_reduce_fn kernel = kernel_of(op, op.reduce);
  if (kernel == nullptr) return no_kernel();
  const uint64_t bytes =
      static_cast<uint64_t>(op.in.count) * dtype_bytes(op_dtype(op));
  if (bytes > kWhole && size_ > 2) return scan_by_blocks(op, kernel);
  const Scratch lower(scratch_, static_cast<uint64_t>(rank_) * bytes);
  if (!lower.ok()) return no_memory();
  inputs_.clear();
  for (int r = 0; r < rank_; ++r) {
    char* const piece = lower.data() + static_cast<uint64_t>(r) * bytes;
    inputs_.push_back(piece);
    receive(r, piece, bytes);
  }
  for (int r = rank_ + 1; r < size_; ++r) send(r, op.in.data, bytes);
  if ((op.flags & DW_FLAG_EXCLUSIVE) == 0) inputs_.push_back(op.in.data);
  if (int32_t code = exchange()) return code;
  if (bytes != 0 && !inputs_.empty())
    kernel(op.out.data, inputs_.data(), inputs_.size(),
           static_cast<uint64_t>(op.in.count), nullptr);
  return DW_OK;
}

// Each rank gets its block of all inputs, computes all prefixes of the block,
// and sends every rank the rank's own prefix. Each rank sends twice (R-1)/R of
// the bytes, for any number of ranks.
int32_t Execution::scan_by_blocks(const dw_op& op, dw_reduce_fn kernel) {
  const int dtype = op_dtype(op);
  const uint64_t element = dtype_bytes(dtype);
  const bool exclusive = (op.flags & DW_FLAG_EXCLUSIVE) != 0;
  const auto block = [&](int r) {
    return static_cast<uint64_t>(block_begin(r, op.in.count)) * element;
  };
  const auto in = [&](int r) {
    return static_cast<char*>(op.in.data) + block(r);
  };
  const uint64_t own = block(rank_ + 1) - block(rank_);
  const auto n = static_cast<uint64_t>(size_);
  const Scratch inputs(scratch_, n * own);
  const Scratch prefixes(scratch_, n * own);
  if (!inputs.ok() || !prefixes.ok()) return no_memory();
  inputs_.clear();
  for (int r = 0; r < size_; ++r) {
    char* const piece = inputs.data() + static_cast<uint64_t>(r) * own;
    inputs_.push_back(r == rank_ ? in(r) : piece);
    if (r == rank_) continue;
    receive(r, piece, own);
    send(r, in(r), block(r + 1) - block(r));
  }
  if (int32_t code = exchange()) return code;
  const auto prefix = [&](int r) {
    return prefixes.data() + static_cast<uint64_t>(r) * own;
  };
  for (int r = 0; own != 0 && r < size_; ++r) {
    // Built from the previous prefix where that does not round more often.
    const void* const pair[] = {r == 0 ? nullptr : prefix(r - 1),
                                inputs_[static_cast<size_t>(r)]};
    const bool from_all = r == 0 || is_half(dtype);
    kernel(prefix(r), from_all ? inputs_.data() : pair,
           from_all ? static_cast<uint64_t>(r) + 1 : 2, own / element, nullptr);
  }
  next_step();
  // The prefix of rank r covers the inputs up to r or, if exclusive, up to r -
  // 1.
  const auto made_for = [&](int r) { return exclusive ? r - 1 : r; };
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    if (made_for(r) >= 0) send(r, prefix(made_for(r)), own);
    if (made_for(rank_) >= 0)
      receive(r, static_cast<char*>(op.out.data) + block(r),
              block(r + 1) - block(r));
  }
  if (int32_t code = exchange()) return code;
  if (own != 0 && made_for(rank_) >= 0)
    __builtin_memcpy(static_cast<char*>(op.out.data) + block(rank_),
                     prefix(made_for(rank_)), own);
  return DW_OK;
}

}  // namespace distwrap::algo::compose
