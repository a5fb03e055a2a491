// The experts that one rank's tokens want, and the lists that it sends of them:
// the first pass of a plan. It touches each (token, slot) a constant number of
// times.
//
// Threads: one thread. Ownership: the vectors keep their memory for the next
// plan.
#ifndef DISTWRAP_SRC_MOE_ROUTING_H_
#define DISTWRAP_SRC_MOE_ROUTING_H_

#include "moe/topology.h"

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap::moe {

// The values of Routing::expert that are no expert.
inline constexpr int32_t kUnused = -1;
// A slot whose expert an earlier slot of the token has chosen already: the
// value is kRepeats - that slot.
inline constexpr int32_t kRepeats = -2;

// The first id that is no expert and no unused slot.
struct RoutingFault {
  int64_t token = -1;  // -1: none
  int64_t slot = 0, value = 0;
};

// The slots of T tokens, K each, without what does not count.
struct Routing {
  int64_t tokens = 0, slots = 0;
  std::vector<int32_t> expert;  // (T,K): expert, kUnused or a repetition

  // `ids` are (T,K), or a map (T,X) of bool, whose slots are the experts.
  template <class Id>
  RoutingFault read(const Id* ids, int64_t tokens, int64_t slots,
                    int64_t experts);
  void read_map(const uint8_t* map, int64_t tokens, int64_t experts);

  int64_t size() const { return tokens * slots; }

 private:
  std::vector<int32_t> last_token_;  // by expert: 1 + the last token that chose
                                     // it
};

// A routing as lists: a row for each (token, rank that has experts of it), and
// a pair for each (token, expert). Rows and pairs are grouped by rank, and
// ordered by token; the pairs of a row are ordered by bucket.
struct Lists {
  std::vector<int64_t> row_first, pair_first;   // (R+1)
  std::vector<int32_t> row_token, row_pairs;    // by row: token, its pairs
  std::vector<int32_t> pair_bucket, pair_slot;  // by pair
  int64_t rows() const { return row_first.back(); }
  int64_t pairs() const { return pair_first.back(); }
  int64_t rows_of(int rank) const {
    const auto r = static_cast<size_t>(rank);
    return row_first[r + 1] - row_first[r];
  }
  int64_t pairs_of(int rank) const {
    const auto r = static_cast<size_t>(rank);
    return pair_first[r + 1] - pair_first[r];
  }
};

// Rows that cross links between nodes, links inside of a node, and none.
struct Crossing {
  int64_t inter = 0, intra = 0, local = 0;
};

// The rows of one source at each level.
struct Crossings {
  Crossing none, rank, node;
};

// Makes the lists of a routing. Pairs of ranks in `masked` (by rank; empty:
// none) are left out and counted in `dropped` by expert, where that is not
// null.
class ListMaker {
 public:
  void make(const Routing& routing, const Experts& experts, int ranks,
            absl::Span<const uint8_t> masked, std::vector<int64_t>* dropped,
            Lists* lists);

 private:
  std::vector<int32_t> last_token_;  // by rank
  std::vector<int64_t> row_at_, pair_at_;
};

// Counts what the lists of `source` move at each level, in time that grows with
// its rows. `memory` is kept for the next count.
Crossings count_crossings(const Lists& lists, const Topology& topology,
                          int source, std::vector<int64_t>* memory);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_ROUTING_H_
