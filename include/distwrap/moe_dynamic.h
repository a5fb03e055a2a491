// Exchanges whose sizes only the sender knows: alltoallv_dynamic and its forms.
//
// Threads and ownership: as in operations.h; lists of tensors are copied. Sizes
// and ids are i64 in host memory. The call reads them when it executes, which
// is before it returns, and never changes them; with `async` only the data may
// still move afterwards. On a stream the host would have to read them later, so
// a stream is kUnsupported, on all ranks.
//
//   distwrap::alltoallv_dynamic(outs, received, ins, counts);
//   distwrap::alltoallv_dynamic_dispatch(outs, gathered, in, sizes, ids,
//                                        per_rank, D);
//   distwrap::alltoallv_dynamic_combine(out, back, gathered, ids, per_rank, D);
//
// R ranks. Elements of an output that nothing covers keep their values. A fault
// of one rank is one error on all ranks, before any output is written:
// kIndexMap for ids that are not ascending, are repeated or do not exist, and
// for negative sizes; kCapacity with the needed size for a buffer that is too
// small; kCallMismatch for other types, numbers of chunks or rows;
// kMetadataType, kInvalidArgument.
#ifndef DISTWRAP_MOE_DYNAMIC_H_
#define DISTWRAP_MOE_DYNAMIC_H_

#include "distwrap/export.h"
#include "distwrap/op_options.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <map>
#include <string>

namespace distwrap {

// ---- one piece for each rank ----

// Sends the first input_counts[r] elements of ins[r] to rank r. outs[p] gets
// what rank p sends, from its beginning on; its size is its capacity.
// `output_counts` (R) gets the numbers of elements.
// = -; ncclAllToAllv of counts that were exchanged before
DISTWRAP_EXPORT absl::StatusOr<Work> alltoallv_dynamic(
    absl::Span<const TensorView> outs, TensorView output_counts,
    absl::Span<const TensorView> ins, TensorView input_counts,
    const OpOptions& options = kDefaultOptions);

// Sends pieces of one input that follow each other: input_split_lengths[r]
// elements go to rank r.
DISTWRAP_EXPORT absl::StatusOr<Work> alltoallv_dynamic_split(
    absl::Span<const TensorView> outs, TensorView output_counts,
    TensorView input, TensorView input_split_lengths,
    const OpOptions& options = kDefaultOptions);

// Sends rows of dimension 0, packed by rank, with sizes (R) that both sides
// state: kCallMismatch on all ranks where they differ. `hints`, which host
// memory does not need: num_blocks, num_threads (1 or more), block_scheduling
// (warp, block). = MPI_Alltoallv; -
DISTWRAP_EXPORT absl::StatusOr<Work> device_alltoallv_single(
    TensorView output, TensorView input, TensorView output_split_sizes,
    TensorView input_split_sizes,
    const std::map<std::string, std::string>& hints = {},
    const OpOptions& options = kDefaultOptions);

// ---- chunks ----
//
// C chunks of each rank, back to back and numbered; D elements of a row. Chunk
// c of rank p begins at off_p[c] = D * (the sizes of the chunks before it).
// Data lands at the sender's own offset.

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
