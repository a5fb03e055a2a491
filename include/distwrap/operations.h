// Collective and point-to-point operations, shaped as in torch.distributed.
//
// Threads: any, several on one group as well; collectives meet in the order of
// the calls, which is theirs to keep, messages by their tags.
// Ownership: buffers are the caller's and live until the operation is done;
// lists, splits and options are borrowed for the call.
//
//   distwrap::all_reduce(x);
//   auto work = distwrap::all_gather(outs, in, {.async = true});
//   absl::Status status = work->wait();
//
// R is the size of the group, `me` this rank in it, a row what one index of
// dimension 0 spans (an element of a flat view). A call without `async` returns
// a finished Work or an error. Inputs are never written; output and input share
// memory only as "in place" says. Every call may fail with kNotInitialized,
// kNoCommunicator, kInvalidArgument and kUnsupported, which start nothing, and
// with kTimedOut, kPeerLost, kAborted and kGroupBroken; more is said at the
// call. Names behind "=" are those of MPI, NCCL and, where it differs, torch;
// "-" is none.
#ifndef DISTWRAP_OPERATIONS_H_
#define DISTWRAP_OPERATIONS_H_

#include "distwrap/export.h"
#include "distwrap/op_options.h"
#include "distwrap/peer.h"
#include "distwrap/reduce_op.h"
#include "distwrap/splits.h"
#include "distwrap/tensor_view.h"
#include "distwrap/work.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap {

using Tensors = absl::Span<const TensorView>;

// ---- one to all, all to one, all to all ----

// Returns, without async, when all ranks have entered. = MPI_Barrier, -
DISTWRAP_EXPORT absl::StatusOr<Work> barrier(
    const OpOptions& options = kDefaultOptions);

// A barrier over the group's store, which says on every rank that waits which
// ranks did not come (kTimedOut), and leaves the group whole. Always waits.
DISTWRAP_EXPORT absl::StatusOr<Work> monitored_barrier(
    const OpOptions& options = kDefaultOptions);

// src's elements to all ranks; `in` is looked at there only. In place: out ==
// in. kRootMissing without src. = MPI_Bcast, ncclBroadcast
DISTWRAP_EXPORT absl::StatusOr<Work> broadcast(
    TensorView tensor, Peer src, const OpOptions& options = kDefaultOptions);
DISTWRAP_EXPORT absl::StatusOr<Work> broadcast(
    TensorView out, TensorView in, Peer src,
    const OpOptions& options = kDefaultOptions);

// Equal shapes, result on all ranks. In place: out == in. kReduceOp.
// = MPI_Allreduce, ncclAllReduce
DISTWRAP_EXPORT absl::StatusOr<Work> all_reduce(
    TensorView tensor, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);
DISTWRAP_EXPORT absl::StatusOr<Work> all_reduce(
    TensorView out, TensorView in, ReduceOp op,
    const OpOptions& options = kDefaultOptions);

// Result at dst; the others keep their bytes. In place: out == in.
// kRootMissing without dst, kReduceOp. = MPI_Reduce, ncclReduce
DISTWRAP_EXPORT absl::StatusOr<Work> reduce(
    TensorView tensor, Peer dst, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);
DISTWRAP_EXPORT absl::StatusOr<Work> reduce(
    TensorView out, TensorView in, Peer dst, ReduceOp op,
    const OpOptions& options = kDefaultOptions);

// Prefix reduction over the ranks up to `me`; exscan leaves `me` out, and rank
// 0's output as it is. No average. In place: out == in. kReduceOp.
// = MPI_Scan, MPI_Exscan; -
DISTWRAP_EXPORT absl::StatusOr<Work> scan(
    TensorView out, TensorView in, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);
DISTWRAP_EXPORT absl::StatusOr<Work> exscan(
    TensorView out, TensorView in, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);

// ---- gathering ----

// Rank i's `in` to outs[i] of its size; sizes may differ. In place: in ==
// outs[me]. = MPI_Allgatherv, -
DISTWRAP_EXPORT absl::StatusOr<Work> all_gather(
    Tensors outs, TensorView in, const OpOptions& options = kDefaultOptions);
// The inputs, of n elements each, one behind the other by rank. In place: in ==
// out + me*n. = MPI_Allgather, ncclAllGather
DISTWRAP_EXPORT absl::StatusOr<Work> all_gather_into_tensor(
    TensorView out, TensorView in, const OpOptions& options = kDefaultOptions);
// Packed, counts[i] rows of rank i; equal counts on all ranks. In place: in ==
// its slice. kSplitMismatch. = MPI_Allgatherv, -, -
DISTWRAP_EXPORT absl::StatusOr<Work> all_gather_v(
    TensorView out, TensorView in, absl::Span<const int64_t> counts,
    const OpOptions& options = kDefaultOptions);

// Rank i's `in` to dst's outs[i], which is looked at there only; dst unset is
// rank 0 of the group. In place: in == outs[me]. = MPI_Gatherv, ncclGather
DISTWRAP_EXPORT absl::StatusOr<Work> gather(
    Tensors outs, TensorView in, Peer dst = {},
    const OpOptions& options = kDefaultOptions);
// The same into one tensor: n elements of each rank, or with counts, given on
// all ranks or none, packed rows. In place: in == its slice. kSplitMismatch.
// = MPI_Gather, MPI_Gatherv; ncclGather; -
DISTWRAP_EXPORT absl::StatusOr<Work> gather_into_tensor(
    TensorView out, TensorView in, Peer dst = {}, Splits counts = {},
    const OpOptions& options = kDefaultOptions);

// ---- scattering ----

// src's ins[i], which is looked at there only, to rank i's `out` of its size;
// src unset is rank 0 of the group. In place: out == ins[me].
// = MPI_Scatterv, ncclScatter
DISTWRAP_EXPORT absl::StatusOr<Work> scatter(
    TensorView out, Tensors ins, Peer src = {},
    const OpOptions& options = kDefaultOptions);
// The same out of one tensor: n elements for each rank, or with counts, given
// on all ranks or none, packed rows. In place: out == its slice.
// kSplitMismatch. = MPI_Scatter, MPI_Scatterv; ncclScatter; -
DISTWRAP_EXPORT absl::StatusOr<Work> scatter_tensor(
    TensorView out, TensorView in, Peer src = {}, Splits counts = {},
    const OpOptions& options = kDefaultOptions);

// Reduction of everybody's ins[i] to rank i's `out` of its size; sizes may
// differ. In place: out == ins[me]. kReduceOp. = MPI_Reduce_scatter, -
DISTWRAP_EXPORT absl::StatusOr<Work> reduce_scatter(
    TensorView out, Tensors ins, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);
// Of R*n elements, n to each rank. In place: out == in + me*n. kReduceOp.
// = MPI_Reduce_scatter_block, ncclReduceScatter
DISTWRAP_EXPORT absl::StatusOr<Work> reduce_scatter_tensor(
    TensorView out, TensorView in, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);
// Packed, counts[i] rows to rank i; equal counts on all ranks. In place: out ==
// its slice. kReduceOp, kSplitMismatch. = MPI_Reduce_scatter, -, -
DISTWRAP_EXPORT absl::StatusOr<Work> reduce_scatter_v(
    TensorView out, TensorView in, absl::Span<const int64_t> counts,
    ReduceOp op = ReduceOp::kSum, const OpOptions& options = kDefaultOptions);
// f32 with sums in f32 and a transport of bf16, stochastically rounded from
// `seed`; sum and average. kQuantizedMissing: no backend has it yet. = -, -
DISTWRAP_EXPORT absl::StatusOr<Work> reduce_scatter_quantized(
    TensorView out, TensorView in, ReduceOp op, int64_t seed,
    const OpOptions& options = kDefaultOptions);

// ---- exchanging ----

// outs[i] is rank i's ins[me], of any size. Not in place. = MPI_Alltoallw, -
DISTWRAP_EXPORT absl::StatusOr<Work> all_to_all(
    Tensors outs, Tensors ins, const OpOptions& options = kDefaultOptions);
// Rows of `in` to each rank, rows of `out` from each: out_splits and in_splits
// in rows, packed; an unset side is split equally. Rows beyond the sum stay as
// they are. All ranks give splits or none does. Not in place. kSplitMismatch.
// = MPI_Alltoall, MPI_Alltoallv; ncclAlltoAll
DISTWRAP_EXPORT absl::StatusOr<Work> all_to_all_single(
    TensorView out, TensorView in, Splits out_splits = {},
    Splits in_splits = {}, const OpOptions& options = kDefaultOptions);

// ---- point to point ----
//
// A receive takes the oldest message of its group, source and tag, 0..2^31-1.
// Count and type equal on both sides.

// Blocks until the buffer may be reused, which may await the receive. To
// oneself: kInvalidArgument unless the receive was posted. kRootMissing,
// kRankNotMember. = MPI_Send, ncclSend
DISTWRAP_EXPORT absl::Status send(TensorView tensor, Peer dst, int64_t tag = 0,
                                  const OpOptions& options = kDefaultOptions);
// Blocks; the source's rank in the world. kWildcard without src,
// kRankNotMember. = MPI_Recv, ncclRecv
DISTWRAP_EXPORT absl::StatusOr<int> recv(
    TensorView tensor, Peer src, int64_t tag = 0,
    const OpOptions& options = kDefaultOptions);
// The same, begun only. = MPI_Isend, MPI_Irecv; ncclSend, ncclRecv
DISTWRAP_EXPORT absl::StatusOr<Work> isend(
    TensorView tensor, Peer dst, int64_t tag = 0,
    const OpOptions& options = kDefaultOptions);
DISTWRAP_EXPORT absl::StatusOr<Work> irecv(
    TensorView tensor, Peer src, int64_t tag = 0,
    const OpOptions& options = kDefaultOptions);

struct P2POp {
  enum class Kind : uint8_t { kIsend, kIrecv };
  Kind kind = Kind::kIsend;
  TensorView tensor = {};
  Peer peer = {};
  Group group = {};  // none: that of the call's options
  int64_t tag = 0;
};

// Begins all, none waiting for another; one Work for each, in order. The
// messages meet plain sends and receives too. An error names the item, and then
// none was begun. kP2PUnknown. = -; ncclGroupStart, ncclGroupEnd
DISTWRAP_EXPORT absl::StatusOr<std::vector<Work>> batch_isend_irecv(
    absl::Span<const P2POp> ops, const OpOptions& options = kDefaultOptions);

}  // namespace distwrap

#endif  // DISTWRAP_OPERATIONS_H_
