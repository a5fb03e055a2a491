// The counts that a rank sends to and expects from each other one, in a
// collective in which each pair has a count of its own: the v forms of
// all_to_all, gather and scatter.
//
// For what it sends, a rank adds a print to its balance; for what it expects,
// it takes away the print that the sender has to have added. The sum over all
// ranks is 0 when all pairs agree, and else is not, but for one in 2^64. So one
// number of each rank shows that something differs, in a group of any size; the
// counts are shown beside it as far as there is room, to say where.
//
// Counts that all ranks have to know, those of all_gather and reduce_scatter,
// are part of what each call has to equal; they are shown in the same place, to
// say which of them differs.
//
// Threads: values.
#ifndef DISTWRAP_SRC_COMM_BOARD_PAIR_COUNTS_H_
#define DISTWRAP_SRC_COMM_BOARD_PAIR_COUNTS_H_

#include "comm/board/page.h"
#include "comm/board/seen_call.h"
#include "distwrap/abi/types.h"

#include <cstdint>
#include <optional>

namespace distwrap::comm {

class PairCounts {
 public:
  static bool are_in(const dw_op& op);
  static bool are_in(const SeenCall& call);
  // The counts of one rank of a group of `size`; reads the operation's arrays.
  PairCounts(const dw_op& op, int rank, int size)
      : op_(op), rank_(rank), size_(size) {}

  // Publishes the counts, in elements; those of the rank to itself count 0,
  // since no other rank can check them. Returns what the call adds to the
  // balance.
  uint64_t show(ShownCounts* shown) const;
  // The counts that this rank sends to `peer` and expects of it; 0 for itself.
  struct Pair {
    int64_t sends = 0, expects = 0;
  };
  Pair with(int peer) const;

 private:
  const dw_op& op_;
  const int rank_, size_;
};

// Shows `common_counts` as what is expected of each rank. Nothing in a call
// without them.
void show_common_counts(const dw_op& op, int size, ShownCounts* shown);

// A rank's counts, as others read them.
struct ShownPair {
  // Counts above are shown as this.
  static constexpr uint32_t kMost = UINT32_MAX;
  uint32_t sends, expects;

  // Reads a rank's counts to and from one rank in a call of a group of `size`
  // ranks; nothing when they are overwritten or found no room.
  static std::optional<ShownPair> read(const ShownCounts& shown, int size,
                                       uint64_t number, int peer);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_PAIR_COUNTS_H_
