// The links of simulated ranks, and the pieces of rows that move over them.
//
// Threads: one.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MOE_FABRIC_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MOE_FABRIC_H_

#include "bench/moe/simulate.h"

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap::bench {

class Fabric {
 public:
  Fabric(const MoeGrid& grid, const MoeLinks& links, int64_t row_bytes);

  // Rows from one rank to another; those to itself take no link.
  void add(int from, int to, int64_t rows);
  // Rows to a forwarder, which hands onward[i] of them to members[i].
  void add_forwarded(int from, int forwarder, int64_t rows,
                     absl::Span<const int32_t> members,
                     absl::Span<const int64_t> onward);

  // The least time of the busiest link, without hops.
  double limit_us() const;
  // The time until the last row has arrived.
  double run_us();

 private:
  struct Piece {
    int from, to;
    double us;
    double ready = 0;                // when the sender has it
    std::vector<int> hands_on = {};  // pieces that wait for it
    bool first = true;               // not one that a forwarder hands on
  };
  bool between_nodes(int a, int b) const {
    return a / grid_.lanes != b / grid_.lanes;
  }
  // Adds a piece, of which there may be none; -1 then.
  int put(int from, int to, double rows, bool first);

  const MoeGrid grid_;
  const MoeLinks links_;
  const double row_bytes_;
  const int pieces_;  // parts of the rows from one rank to another
  std::vector<Piece> all_;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MOE_FABRIC_H_
