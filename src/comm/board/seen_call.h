// A collective as one rank shows it to the others: what has to be equal on all
// of them, as one number to compare and in words.
//
// Threads: values.
#ifndef DISTWRAP_SRC_COMM_BOARD_SEEN_CALL_H_
#define DISTWRAP_SRC_COMM_BOARD_SEEN_CALL_H_

#include "distwrap/abi/types.h"

#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace distwrap::comm {

struct SeenCall {
  uint64_t print = 0;
  // kind 8, reduction 4, kWithCounts, kExclusive, dtype's code 8 and bits 8,
  // root 32
  uint64_t what = 0;
  static constexpr uint64_t kWithCounts = 1 << 12, kExclusive = 1 << 13;
  // Elements per rank; kOwnCount when each rank has its own.
  int64_t count = 0;
  static constexpr int64_t kOwnCount = -1;

  // Of a group of `size` ranks. Reads the counts of v forms.
  static SeenCall of(const dw_op& op, int size);
  // "all_reduce f32 x 1024 sum", "broadcast u8 x 3 from rank 1". Any bits.
  std::string text() const;
};

// The counts of a v form that have to be the same on all ranks, by rank; null
// in any other call.
const int64_t* common_counts(const dw_op& op);

// What another process has written, up to a zero, as part of one line.
std::string seen_word(absl::string_view bytes);

// Spreads what differs in any bit over all.
inline uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0x9e3779b97f4a7c15u;
  return value ^ value >> 29;
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_SEEN_CALL_H_
