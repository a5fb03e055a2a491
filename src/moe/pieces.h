// One piece for each rank, whose size the receiver learns in the call.
#ifndef DISTWRAP_SRC_MOE_PIECES_H_
#define DISTWRAP_SRC_MOE_PIECES_H_

#include "distwrap/tensor_view.h"
#include "distwrap/work.h"
#include "moe/agreement.h"
#include "moe/exchange.h"

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>

namespace distwrap::moe {

struct Pieces {
  DType dtype = DType::kU8;
  absl::Span<const TensorView> ins = {};   // (R): what each rank gets
  absl::Span<const TensorView> outs = {};  // (R): room for what comes from each
  // The elements that this rank expects of each; empty: any that fit.
  absl::Span<const int64_t> expected = {};
};

// Tells every rank how much comes, compares that with the room, and moves the
// pieces where they lie. `received` (R; empty: not wanted) gets the elements of
// each. `fault`: what is wrong with the arguments, which are then not used.
absl::StatusOr<Work> exchange_pieces(const Exchange& exchange,
                                     const Pieces& pieces, Fault fault,
                                     absl::Span<int64_t> received, bool async);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_PIECES_H_
