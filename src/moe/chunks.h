// The raw form with counts that only the sender knows: chunks that are
// announced to their receivers, checked on all ranks, and moved.
#ifndef DISTWRAP_SRC_MOE_CHUNKS_H_
#define DISTWRAP_SRC_MOE_CHUNKS_H_

#include "distwrap/tensor_view.h"
#include "distwrap/work.h"
#include "moe/agreement.h"
#include "moe/exchange.h"

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>

namespace distwrap::moe {

// The chunks of a call: sizes in rows, and ids for each rank.
struct Chunks {
  absl::Span<const int64_t> sizes = {};     // (C) own, or (R*C) gathered
  absl::Span<const int64_t> ids = {};       // by destination
  absl::Span<const int64_t> per_rank = {};  // (R)
  int64_t row = 0;                          // elements
  DType dtype = DType::kU8;
};

// `gathered` (R*C) gets the sizes of all ranks. `fault`: what is wrong with the
// arguments, which are then told to all ranks and not used. Sizes and ids are
// read before the functions return; with `async` the rows may still move.
absl::StatusOr<Work> dispatch_chunks(const Exchange& exchange,
                                     const Chunks& chunks, Fault fault,
                                     absl::Span<const TensorView> outs,
                                     const TensorView& input,
                                     absl::Span<int64_t> gathered, bool async);
absl::StatusOr<Work> combine_chunks(const Exchange& exchange,
                                    const Chunks& chunks, Fault fault,
                                    const TensorView& output,
                                    const TensorView& input, bool async);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_CHUNKS_H_
