// Collectives for which one post of each rank is enough, when nobody is late: a
// line is written, with the data or where they are staged, others are read, and
// that was all. How a call goes is found once for calls alike. An all_to_all
// with counts is one as long as its pieces are short.
//
// Whatever else there may be is left to `run`: a line or staging that is still
// in use, a peer that has not come within a few looks or whose call differs. It
// finds what has been shown here, and shows it no second time.
#ifndef DISTWRAP_BACKENDS_SHM_SHORT_CALL_H_
#define DISTWRAP_BACKENDS_SHM_SHORT_CALL_H_

#include "copy.h"
#include "distwrap/abi/plugin.h"

#include <cstddef>
#include <cstdint>

namespace shm_backend {

struct Call;
struct Comm;

struct ShortCall {
  // What a rank shows at most.
  static constexpr size_t kMost = 16 << 10;

  // To the end, or false: `run` has to do it.
  using Body = bool (*)(Comm* comm, const Call& call, const ShortCall& how);
  Body run = nullptr;  // NULL: no such call
  bool shows = false;
  bool looks_at_all = false;
  // What is this rank's own comes first, while the others' is on its way.
  bool keeps = false;
  // Every rank waits for every other one, on a processor of its own.
  bool meets = false;
  // Its buffers have a piece for each rank.
  bool lists_in = false, lists_out = false;
  // The ranks whose data it takes, perhaps itself among them.
  int first = 0, end = 0;
  // What a rank shows, and where in it this rank's begins.
  uint32_t shown = 0, at = 0, bytes = 0;
  dw_reduce_fn reduce = nullptr;  // NULL: data only move
  uint64_t count = 0;             // elements that are reduced

  // Of a call without counts, or of an all_to_all.
  static ShortCall of(const Comm& comm, const Call& call);
};

// short_pairs.cc: a ShortCall::Body of pairs, which alone know sizes.
bool run_short_pairs(Comm* comm, const Call& call, const ShortCall& how);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_SHORT_CALL_H_
