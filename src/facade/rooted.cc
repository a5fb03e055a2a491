// Calls with a root, and the items of a batch that record them.
#include "comm/rows.h"
#include "distwrap/batch.h"
#include "facade/dispatch.h"

namespace distwrap {

DISTWRAP_ROOTED_CALL(broadcast,
                     (TensorView tensor, Peer src, const OpOptions& options),
                     tensor.device(), src, kSource,
                     communicator.broadcast(tensor, tensor, root, how))
DISTWRAP_ROOTED_CALL(broadcast,
                     (TensorView out, TensorView in, Peer src,
                      const OpOptions& options),
                     out.device(), src, kSource,
                     communicator.broadcast(out, in, root, how))

DISTWRAP_ROOTED_CALL(reduce,
                     (TensorView tensor, Peer dst, ReduceOp op,
                      const OpOptions& options),
                     tensor.device(), dst, kDestination,
                     communicator.reduce(tensor, tensor, root, op, how))
DISTWRAP_ROOTED_CALL(reduce,
                     (TensorView out, TensorView in, Peer dst, ReduceOp op,
                      const OpOptions& options),
                     in.device(), dst, kDestination,
                     communicator.reduce(out, in, root, op, how))

DISTWRAP_ROOTED_CALL(
    gather, (Tensors outs, TensorView in, Peer dst, const OpOptions& options),
    in.device(), dst, kFirstRank, communicator.gather(outs, in, root, how))
DISTWRAP_ROOTED_CALL(
    gather_into_tensor,
    (TensorView out, TensorView in, Peer dst, Splits counts,
     const OpOptions& options),
    in.device(), dst, kFirstRank,
    counts.is_set()
        ? communicator.gather_v(out, in, root,
                                comm::ElementCounts(counts.rows(), out), how)
        : communicator.gather(out, in, root, how))

DISTWRAP_ROOTED_CALL(
    scatter, (TensorView out, Tensors ins, Peer src, const OpOptions& options),
    out.device(), src, kFirstRank, communicator.scatter(out, ins, root, how))
DISTWRAP_ROOTED_CALL(
    scatter_tensor,
    (TensorView out, TensorView in, Peer src, Splits counts,
     const OpOptions& options),
    out.device(), src, kFirstRank,
    counts.is_set()
        ? communicator.scatter_v(out, in, root,
                                 comm::ElementCounts(counts.rows(), in), how)
        : communicator.scatter(out, in, root, how))

}  // namespace distwrap
