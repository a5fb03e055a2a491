// The rows that travel between ranks at a level, and where each delivered
// row comes from. Pure computation: a dispatch runs the hops forwards, a
// combine runs them backwards.
//
// A row reference is a row of staging memory (the rows of the first hop, then
// those of the second), or ~t for row t of this rank's own input.
// Threads: one thread. Ownership: the vectors keep their memory for the next
// plan.
#ifndef DISTWRAP_SRC_MOE_MOVES_H_
#define DISTWRAP_SRC_MOE_MOVES_H_

#include "moe/inbound.h"
#include "moe/routing.h"
#include "moe/topology.h"

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap::moe {

// One hop: the rows that this rank sends to each rank and gets from each. Its
// rows for itself are in neither list.
struct Hop {
  std::vector<int64_t> send_first;  // (R+1)
  std::vector<int64_t> recv_first;  // (R+1)

  int64_t sent() const { return send_first.back(); }
  int64_t received() const { return recv_first.back(); }
};

struct Moves {
  bool by_pair = false;  // a row for each pair (no deduplication)
  bool two_hops = false;
  Hop first, second;
  // Only by pair: the token of each own pair, and for each pair that comes the
  // first of its places in the layout's list, one more at the end. In
  // rank-major order only the first pair of a row has one.
  std::vector<int32_t> give;
  std::vector<int64_t> place_first;
  // Only with two hops: the second one of a dispatch, as in dw_ext_moe, with
  // this rank's rows for itself. Token t is given as t, row m of the first hop
  // as ~m.
  struct Delivery {
    std::vector<int64_t> give_first, get_first;  // (R+1)
    std::vector<int32_t> give;
    std::vector<int64_t> place_first;
    std::vector<int32_t> place;
  };
  Delivery delivery;
  // Only with two hops. For each (inbound row of a forwarder, local rank that
  // wants it): the row of the second hop's sending order, or ~i for row i of
  // the layout.
  std::vector<int32_t> handed_on;
  // By rank of the own node: the first of this rank's own rows in the second
  // hop's sending order.
  std::vector<int64_t> own_first;
};

// Memory that the functions below use, for the next plan.
struct MoveScratch {
  std::vector<int64_t> counts, next, row_of, to_me_first;
  std::vector<int32_t> to_me, given;
};

// The tokens of `source` for each forwarder: Lists whose ranks are forwarders
// and whose "buckets" are the lanes that want the token. The own node's stand
// under the source itself.
void make_forward_lists(const Lists& lists, const Topology& topology,
                        int source, MoveScratch* scratch, Lists* out);

// One row for each pair.
void move_pairs(const Lists& own, const Layout& layout, int rank, Moves* moves);
// One row for each (token, rank).
void move_rows(const Lists& own, const Layout& layout, int rank, Moves* moves);
// One row for each (token, node), which a forwarder copies. `forward`: the
// forward lists of this rank; `forwarded`: those that all sources sent to this
// rank. False when `forwarded` and the layout contradict each other.
bool move_by_node(const Lists& forward, const Lists& forwarded,
                  const Layout& layout, const Topology& topology, int rank,
                  MoveScratch* scratch, Moves* moves);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_MOVES_H_
