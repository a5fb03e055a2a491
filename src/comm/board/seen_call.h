// A collective as one rank shows it to the others: what has to be equal on all
// of them, as one number to compare and in words.
//
// Threads: values.
#ifndef DISTWRAP_SRC_COMM_BOARD_SEEN_CALL_H_
#define DISTWRAP_SRC_COMM_BOARD_SEEN_CALL_H_

#include "comm/op_shape.h"
#include "distwrap/abi/types.h"

#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace distwrap::comm {

struct SeenCall {
  // A hash: calls that differ in one property have different prints; calls that
  // differ in more have equal prints once in 2^64. Mix it before adding it to
  // another.
  uint64_t print = 0;
  // kind 8, reduction 4, kWithCounts, kExclusive, kCaptured, kPrepared, dtype's
  // code 7, kRegistered, dtype's bits 8, root 32
  uint64_t what = 0;
  static constexpr uint64_t kWithCounts = 1 << 12, kExclusive = 1 << 13,
                            kCaptured = 1 << 14, kPrepared = 1 << 15,
                            kRegistered = 1 << 23;
  // Elements per rank; kOwnCount when each rank has its own.
  int64_t count = 0;
  static constexpr int64_t kOwnCount = -1;

  // The call of `op` in a group of `size` ranks. Reads the counts of v forms.
  // `kind` is that of the operation; where it is a constant most of this folds
  // away.
  static SeenCall of(uint16_t kind, const dw_op& op, int size);
  // "all_reduce f32 x 1024 sum", "broadcast u8 x 3 from rank 1". Any bits.
  std::string text() const;
};

// The counts of a v form that have to be the same on all ranks, by rank; null
// in any other call.
inline const int64_t* common_counts(const dw_op& op) {
  if ((op.flags & DW_FLAG_PER_RANK) == 0) return nullptr;
  if (op.kind == DW_OP_ALL_GATHER) return op.out.counts;
  if (op.kind == DW_OP_REDUCE_SCATTER) return op.in.counts;
  return nullptr;
}

// The text that another process wrote, up to a zero, as part of one line.
std::string seen_word(absl::string_view bytes);

// Spreads a difference in any bit over all bits.
inline uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0x9e3779b97f4a7c15u;
  return value ^ value >> 29;
}

// ---- inline, on the way of every call ----

namespace seen_call {

// The buffer that all ranks bring, or that holds what all of them know.
[[gnu::always_inline]] inline const dw_buf& common_buffer(uint16_t kind,
                                                          const dw_op& op) {
  switch (kind) {
    case DW_OP_BROADCAST:
    case DW_OP_SCATTER:
    case DW_OP_REDUCE_SCATTER:
      return op.out;
    default:
      return op.in;
  }
}

// The print of counts that all ranks have to know.
uint64_t print_of(const int64_t* counts, int size);

}  // namespace seen_call

[[gnu::always_inline]] inline SeenCall SeenCall::of(uint16_t kind,
                                                    const dw_op& op, int size) {
  SeenCall seen;
  const OpShape& shape = op_shape(kind);
  uint64_t sizes = 0;
  if (kind != DW_OP_BARRIER) {
    const dw_buf& buf = seen_call::common_buffer(kind, op);
    seen.what = uint64_t{buf.dtype.code} << 16 | uint64_t{buf.dtype.bits} << 24;
    seen.count = buf.count;
    if ((op.flags & DW_FLAG_PER_RANK) != 0) [[unlikely]] {
      seen.what |= kWithCounts;
      seen.count = kOwnCount;
    }
    sizes = static_cast<uint64_t>(seen.count);
    if (const int64_t* const counts = common_counts(op); counts != nullptr)
        [[unlikely]]
      sizes += seen_call::print_of(counts, size);
  }
  constexpr uint32_t kShown =
      DW_FLAG_EXCLUSIVE | DW_FLAG_CAPTURE | DW_FLAG_REGISTERED;
  if (((op.flags & kShown) | op.fingerprint) != 0) [[unlikely]] {
    if ((op.flags & DW_FLAG_EXCLUSIVE) != 0) seen.what |= kExclusive;
    if ((op.flags & DW_FLAG_CAPTURE) != 0) seen.what |= kCaptured;
    if ((op.flags & DW_FLAG_REGISTERED) != 0) seen.what |= kRegistered;
    if (op.fingerprint != 0) seen.what |= kPrepared;
    sizes += mix(op.fingerprint);
  }
  const int32_t root = shape.peer == PeerRole::ROOT ? op.peer : -1;
  seen.what |= uint64_t{kind & 0xffu} |
               (shape.reduces() ? uint64_t{op.reduce & 0xfu} << 8 : 0) |
               uint64_t{static_cast<uint32_t>(root)} << 32;
  seen.print = seen.what + sizes * 0xff51afd7ed558ccdu;
  return seen;
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_SEEN_CALL_H_
