// Exchange of chunks whose sizes only the sender knows: alltoallv_dynamic.
//
// Threads and ownership: as in operations.h. The calls wait; `async` is
// refused. Sizes and ids are i64 in host memory, are read in the call and never
// changed.
//
// R ranks; C chunks of each rank, back to back and numbered; D elements of a
// row. Chunk c of rank p begins at off_p[c] = D * (the sizes of the chunks
// before it). Data lands at the sender's own offset, and elements that no chunk
// covers keep their values.
//
//   distwrap::alltoallv_dynamic_dispatch(outs, gathered, in, sizes, ids,
//   counts,
//                                        D);
//   distwrap::alltoallv_dynamic_combine(out, back, gathered, ids, counts, D);
//
// A fault is one error on all ranks before any output is written: kIndexMap for
// ids that are not ascending, are repeated or do not exist, and for negative
// sizes; kCapacity with the needed size for a buffer that is too small;
// kCallMismatch for another C or D. On this rank alone: kMetadataType,
// kInvalidArgument.
#ifndef DISTWRAP_MOE_DYNAMIC_H_
#define DISTWRAP_MOE_DYNAMIC_H_

#include "distwrap/export.h"
#include "distwrap/op_options.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>

namespace distwrap {

// Sends chunks of `input`. outs[p] gets those of rank p that list this rank;
// each one's size is its capacity. `input_split_sizes` (C): rows of each chunk.
// `input_split_indices`: ids of the chunks for each rank, grouped by rank and
// ascending inside; `input_split_indices_per_rank` (R): how many. A chunk may
// go to several ranks. `output_split_sizes` (R*C) gets the sizes of all ranks.
DISTWRAP_EXPORT absl::StatusOr<Work> alltoallv_dynamic_dispatch(
    absl::Span<const TensorView> outs, TensorView output_split_sizes,
    TensorView input, TensorView input_split_sizes,
    TensorView input_split_indices, TensorView input_split_indices_per_rank,
    int64_t row_elements, const OpOptions& options = kDefaultOptions);

// Brings chunks back. `input` has R equal slabs, slab q what came from rank q;
// `input_split_sizes` (R*C): the gathered sizes. Ids are q*C + c, for rank q
// only those of row q. If several ranks return a chunk, the highest rank's
// stays.
DISTWRAP_EXPORT absl::StatusOr<Work> alltoallv_dynamic_combine(
    TensorView output, TensorView input, TensorView input_split_sizes,
    TensorView input_split_indices, TensorView input_split_indices_per_rank,
    int64_t row_elements, const OpOptions& options = kDefaultOptions);

}  // namespace distwrap

#endif  // DISTWRAP_MOE_DYNAMIC_H_
