// The messages by which ranks make a plan together. The ranks run the same
// program, so numbers travel in the machine's form; what comes in is checked.
//
//   round 0  Offer       what a rank brings, to all: refused or agreed
//   round 1  lists       the rows and pairs for one rank
//   round 2  Verdict     with a capacity or masked ranks: which pairs are kept
//   round 3  counts and forward lists, where tokens cross nodes once
//
// Threads: any.
#ifndef DISTWRAP_SRC_MOE_MESSAGES_H_
#define DISTWRAP_SRC_MOE_MESSAGES_H_

#include "moe/inbound.h"
#include "moe/routing.h"

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap::moe {

struct Offer {
  static constexpr uint32_t kMagic = 0x4d6f4531;  // "MoE1"
  uint32_t magic = kMagic;
  uint32_t reason =
      0;  // reason of the error that keeps the rank from taking part
  uint64_t options = 0;  // a hash of the options
  int64_t tokens = 0, slots = 0, experts = 0;
  int64_t id_type = 0;
  int64_t number = 0;           // the rank's own number for the plan
  int64_t rows = 0, pairs = 0;  // for the rank that gets the offer
  Crossings crossings;
  // An id that is no expert; token -1: none.
  RoutingFault fault;
  char text[120] = {};  // text of the error
};

// The bytes of a list with so many rows and pairs.
constexpr int64_t list_bytes(int64_t rows, int64_t pairs) {
  return 8 * (rows + pairs);
}
// Writes the lists for one rank; returns the end.
uint8_t* write_list(const Lists& lists, int rank, uint8_t* to);
// Reads the list of one source, whose counts are known, into its place.
void read_list(const uint8_t* from, int source, Lists* lists);

// A rank tells a source what it would need, how many pairs of each of its
// experts it dropped, and which pairs of this source it keeps.
int64_t verdict_bytes(int64_t buckets, int64_t pairs);
uint8_t* write_verdict(const Needed& needed, absl::Span<const int64_t> dropped,
                       absl::Span<const uint8_t> kept, uint8_t* to);
void read_verdict(const uint8_t* from, int64_t buckets, int64_t pairs,
                  Needed* needed, int64_t* dropped, uint8_t* kept);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_MESSAGES_H_
