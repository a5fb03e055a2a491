// Collectives for which one slot of each rank is enough if nobody is late: a
// rank writes its slot, with the data or their place, and reads those of
// others. How a call runs is computed once for calls alike. An all_to_all with
// counts belongs here while its pieces are short.
//
// `run` does everything else: a slot or staging that is still in use, a peer
// that has not come within a few polls, a call that differs. It continues from
// what was published here and publishes nothing twice.
#ifndef DISTWRAP_BACKENDS_SHM_SHORT_CALL_H_
#define DISTWRAP_BACKENDS_SHM_SHORT_CALL_H_

#include "copy.h"
#include "distwrap/abi/plugin.h"

#include <cstddef>
#include <cstdint>

namespace shm_backend {

struct EngineOp;
struct Comm;

struct ShortCall {
  // Most bytes that a rank publishes.
  static constexpr size_t kMost = 16 << 10;

  // Runs the call to its end. False: `run` has to do it.
  using Body = bool (*)(Comm* comm, const EngineOp& call, const ShortCall& how);
  Body run = nullptr;  // NULL: not a short call
  bool shows = false;
  bool looks_at_all = false;
  // This rank copies its own data first, while the others' data are coming.
  bool keeps = false;
  // Every rank waits for every other one, on a processor of its own.
  bool meets = false;
  // Whether the input and the output have a piece for each rank.
  bool lists_in = false, lists_out = false;
  // The ranks first..end-1, perhaps with this one, whose data this rank reads.
  int first = 0, end = 0;
  // Bytes that a rank publishes, and the offset and size of this rank's part of
  // them.
  uint32_t shown = 0, at = 0, bytes = 0;
  dw_reduce_fn reduce = nullptr;  // NULL: data only move
  uint64_t count = 0;             // elements to reduce

  // How to run a call without counts, or an all_to_all.
  static ShortCall of(const Comm& comm, const EngineOp& call);
};

// short_pairs.cc: runs operations whose sizes only pairs know.
bool run_short_pairs(Comm* comm, const EngineOp& call, const ShortCall& how);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_SHORT_CALL_H_
