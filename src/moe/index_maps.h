// The index maps of the raw form: making, checking, and reading them as the
// lists of a plan. Pure computation.
#ifndef DISTWRAP_SRC_MOE_INDEX_MAPS_H_
#define DISTWRAP_SRC_MOE_INDEX_MAPS_H_

#include "moe/plan_parts.h"

#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::moe {

struct MapShape {
  int nodes = 0, lanes = 0;
  int64_t tokens = 0;
  int experts = 0;  // experts of a rank
  int ranks() const { return nodes * lanes; }
};

// The maps of a rank, rows of `tokens` positions.
struct MapViews {
  const int32_t* send = nullptr;     // (N,T)
  const int32_t* forward = nullptr;  // (L,N,T)
  const int32_t* recv = nullptr;     // (E,R,T)
};

// Ids (R,T,K); those that are no expert are left out.
template <class Id>
void make_maps(const Id* ids, int64_t slots, const MapShape& shape, int rank,
               std::vector<int32_t>* send, std::vector<int32_t>* forward,
               std::vector<int32_t>* recv);

// The first position that breaks the rule of maps, as text with array, row and
// position; empty: none.
std::string check_maps(const MapViews& maps, const MapShape& shape);

// Writes the maps of a plan with two hops: the reverse of read_maps.
void write_maps(const PlanParts& parts, const MapShape& shape,
                std::vector<int32_t>* send, std::vector<int32_t>* forward,
                std::vector<int32_t>* recv);

// Reads checked maps into the lists and the layout of a plan with two hops.
void read_maps(const MapViews& maps, const MapShape& shape, int rank,
               PlanParts* parts);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_INDEX_MAPS_H_
