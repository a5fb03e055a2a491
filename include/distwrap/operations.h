// Collective and point-to-point operations, shaped as in torch.distributed.
//
// Threads: any, several at a time on one group. Ranks match collectives by the
// order of the calls and messages by their tags, so threads that share a group
// have to agree on an order themselves.
// Ownership: buffers stay the caller's and must live until the operation has
// ended; lists, splits and options are borrowed for the call.
//
//   distwrap::all_reduce(x);
//   auto work = distwrap::all_gather(outs, in, {.async = true});
//   absl::Status status = work->wait();
//
// R is the size of the group, `me` is this rank in it, and a row is one index
// of dimension 0 (one element of a flat view). A call without `async` returns
// an ended Work or an error. Inputs are never written; output and input share
// memory only as "in place" says. Every call may fail with kNotInitialized,
// kNoCommunicator, kInvalidArgument and kUnsupported, which start nothing, and
// with kTimedOut, kPeerLost, kAborted and kGroupBroken. Each comment names the
// further errors of its call. The names behind "=" are those of MPI, NCCL and,
// where it differs, torch; "-" means that there is none.
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

// Returns, without async, after all ranks have entered. = MPI_Barrier, -
DISTWRAP_EXPORT absl::StatusOr<Work> barrier(
    const OpOptions& options = kDefaultOptions);

// A barrier over the group's store. Every waiting rank learns which ranks did
// not come (kTimedOut), and the group stays intact. Always waits.
DISTWRAP_EXPORT absl::StatusOr<Work> monitored_barrier(
    const OpOptions& options = kDefaultOptions);

// Copies src's `in` to all ranks; `in` is read on src only. In place: out ==
// in. kRootMissing without src. = MPI_Bcast, ncclBroadcast
DISTWRAP_EXPORT absl::StatusOr<Work> broadcast(
    TensorView tensor, Peer src, const OpOptions& options = kDefaultOptions);
DISTWRAP_EXPORT absl::StatusOr<Work> broadcast(
    TensorView out, TensorView in, Peer src,
    const OpOptions& options = kDefaultOptions);

// Reduces over all ranks to all ranks; shapes are equal. In place: out == in.
// kReduceOp.
// = MPI_Allreduce, ncclAllReduce
DISTWRAP_EXPORT absl::StatusOr<Work> all_reduce(
    TensorView tensor, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);
DISTWRAP_EXPORT absl::StatusOr<Work> all_reduce(
    TensorView out, TensorView in, ReduceOp op,
    const OpOptions& options = kDefaultOptions);

// Reduces over all ranks to dst; other ranks' outputs keep their contents. In
// place: out == in. kRootMissing without dst, kReduceOp.
// = MPI_Reduce, ncclReduce
DISTWRAP_EXPORT absl::StatusOr<Work> reduce(
    TensorView tensor, Peer dst, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);
DISTWRAP_EXPORT absl::StatusOr<Work> reduce(
    TensorView out, TensorView in, Peer dst, ReduceOp op,
    const OpOptions& options = kDefaultOptions);

// Reduces over the ranks up to and including `me`. exscan leaves `me` out, and
// rank 0's output keeps its contents. The average is refused. In place: out ==
// in. kReduceOp.
// = MPI_Scan, MPI_Exscan; -
DISTWRAP_EXPORT absl::StatusOr<Work> scan(
    TensorView out, TensorView in, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);
DISTWRAP_EXPORT absl::StatusOr<Work> exscan(
    TensorView out, TensorView in, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);

// ---- gathering ----

// Copies rank i's `in` to every rank's outs[i] of the same size; sizes may
// differ by rank. In place: in == outs[me]. = MPI_Allgatherv, -
DISTWRAP_EXPORT absl::StatusOr<Work> all_gather(
    Tensors outs, TensorView in, const OpOptions& options = kDefaultOptions);
// Gives all ranks the inputs, n elements each, in the order of the ranks. In
// place: in == out + me*n. = MPI_Allgather, ncclAllGather
DISTWRAP_EXPORT absl::StatusOr<Work> all_gather_into_tensor(
    TensorView out, TensorView in, const OpOptions& options = kDefaultOptions);
// Gives all ranks the inputs packed, counts[i] rows from rank i; counts are
// equal on all ranks. In place: in == its slice of out. kSplitMismatch.
// = MPI_Allgatherv, -, -
DISTWRAP_EXPORT absl::StatusOr<Work> all_gather_v(
    TensorView out, TensorView in, absl::Span<const int64_t> counts,
    const OpOptions& options = kDefaultOptions);

// Copies rank i's `in` to dst's outs[i]; `outs` is ignored on other ranks.
// Unset dst: rank 0 of the group. In place: in == outs[me].
// = MPI_Gatherv, ncclGather
DISTWRAP_EXPORT absl::StatusOr<Work> gather(
    Tensors outs, TensorView in, Peer dst = {},
    const OpOptions& options = kDefaultOptions);
// Gathers into one tensor on dst: n elements from each rank or, with counts,
// packed rows. All ranks give counts or none does. In place: in == its slice of
// out. kSplitMismatch.
// = MPI_Gather, MPI_Gatherv; ncclGather; -
DISTWRAP_EXPORT absl::StatusOr<Work> gather_into_tensor(
    TensorView out, TensorView in, Peer dst = {}, Splits counts = {},
    const OpOptions& options = kDefaultOptions);

// ---- scattering ----

// Copies src's ins[i] to rank i's `out` of the same size; `ins` is ignored on
// other ranks. Unset src: rank 0 of the group. In place: out == ins[me].
// = MPI_Scatterv, ncclScatter
DISTWRAP_EXPORT absl::StatusOr<Work> scatter(
    TensorView out, Tensors ins, Peer src = {},
    const OpOptions& options = kDefaultOptions);
// Scatters one tensor of src: n elements to each rank or, with counts, packed
// rows. All ranks give counts or none does. In place: out == its slice of in.
// kSplitMismatch.
// = MPI_Scatter, MPI_Scatterv; ncclScatter; -
DISTWRAP_EXPORT absl::StatusOr<Work> scatter_tensor(
    TensorView out, TensorView in, Peer src = {}, Splits counts = {},
    const OpOptions& options = kDefaultOptions);

// Reduces all ranks' ins[i] to rank i's `out` of the same size; sizes may
// differ by rank. In place: out == ins[me]. kReduceOp. = MPI_Reduce_scatter, -
DISTWRAP_EXPORT absl::StatusOr<Work> reduce_scatter(
    TensorView out, Tensors ins, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);
// Reduces R*n elements over all ranks; rank i gets the i-th n elements. In
// place: out == in + me*n. kReduceOp.
// = MPI_Reduce_scatter_block, ncclReduceScatter
DISTWRAP_EXPORT absl::StatusOr<Work> reduce_scatter_tensor(
    TensorView out, TensorView in, ReduceOp op = ReduceOp::kSum,
    const OpOptions& options = kDefaultOptions);
// Reduces packed rows over all ranks; rank i gets its counts[i] rows. Counts
// are equal on all ranks. In place: out == its slice of in. kReduceOp,
// kSplitMismatch.
// = MPI_Reduce_scatter, -, -
DISTWRAP_EXPORT absl::StatusOr<Work> reduce_scatter_v(
    TensorView out, TensorView in, absl::Span<const int64_t> counts,
    ReduceOp op = ReduceOp::kSum, const OpOptions& options = kDefaultOptions);

// ---- exchanging ----

// Copies rank i's ins[me] to outs[i], of any size. Not in place.
// = MPI_Alltoallw, -
DISTWRAP_EXPORT absl::StatusOr<Work> all_to_all(
    Tensors outs, Tensors ins, const OpOptions& options = kDefaultOptions);
// Sends rows of `in` to each rank and receives rows of `out` from each.
// in_splits and out_splits count packed rows; a side without splits is divided
// equally. Rows of `out` beyond the sum keep their contents. All ranks give
// splits or none does. Not in place. kSplitMismatch.
// = MPI_Alltoall, MPI_Alltoallv; ncclAlltoAll
DISTWRAP_EXPORT absl::StatusOr<Work> all_to_all_single(
    TensorView out, TensorView in, Splits out_splits = {},
    Splits in_splits = {}, const OpOptions& options = kDefaultOptions);

// ---- point to point ----
//
// A receive takes the oldest message with its group, source and tag (0 to
// 2^31-1). Count and element type are equal on both sides, else kCallMismatch
// on all ranks: a sender that has returned gets it from its next call, or from
// the group's end.

// Blocks until the buffer may be reused, which may be only after the peer has
// posted its receive. A rank may send to itself only when it has posted the
// receive before; otherwise kInvalidArgument. kRootMissing, kRankNotMember.
// = MPI_Send, ncclSend
DISTWRAP_EXPORT absl::Status send(TensorView tensor, Peer dst, int64_t tag = 0,
                                  const OpOptions& options = kDefaultOptions);
// Blocks, and returns the source's rank in the world. kWildcard without src,
// kRankNotMember. = MPI_Recv, ncclRecv
DISTWRAP_EXPORT absl::StatusOr<int> recv(
    TensorView tensor, Peer src, int64_t tag = 0,
    const OpOptions& options = kDefaultOptions);
// Start a send or a receive without waiting.
// = MPI_Isend, MPI_Irecv; ncclSend, ncclRecv
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
  Group group = {};  // empty: the group of the call's options
  int64_t tag = 0;
};

// Starts all messages; none of them waits for another one. Returns one Work for
// each, in order. The messages match plain sends and receives as well. An error
// names the item, and then nothing was started. kP2PUnknown.
// = -; ncclGroupStart, ncclGroupEnd
DISTWRAP_EXPORT absl::StatusOr<std::vector<Work>> batch_isend_irecv(
    absl::Span<const P2POp> ops, const OpOptions& options = kDefaultOptions);

}  // namespace distwrap

#endif  // DISTWRAP_OPERATIONS_H_
