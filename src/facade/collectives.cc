// Calls without a root, and the items of a batch that record them.
#include "base/error.h"
#include "comm/rows.h"
#include "distwrap/batch.h"
#include "facade/dispatch.h"

namespace distwrap {

// The device of a list. An empty list, which the communicator refuses, counts
// as host memory.
static Device device_of(Tensors list) {
  return list.empty() ? kCpu : list.front().device();
}

DISTWRAP_CALL(barrier, (const OpOptions& options), facade::NoTensor(),
              communicator.barrier(how))

DISTWRAP_CALL(all_reduce,
              (TensorView tensor, ReduceOp op, const OpOptions& options),
              tensor.device(), communicator.all_reduce(tensor, tensor, op, how))
DISTWRAP_CALL(all_reduce,
              (TensorView out, TensorView in, ReduceOp op,
               const OpOptions& options),
              out.device(), communicator.all_reduce(out, in, op, how))

DISTWRAP_CALL(scan,
              (TensorView out, TensorView in, ReduceOp op,
               const OpOptions& options),
              out.device(), communicator.scan(out, in, op, how))
DISTWRAP_CALL(exscan,
              (TensorView out, TensorView in, ReduceOp op,
               const OpOptions& options),
              out.device(), communicator.exscan(out, in, op, how))

DISTWRAP_CALL(all_gather,
              (Tensors outs, TensorView in, const OpOptions& options),
              in.device(), communicator.all_gather(outs, in, how))
DISTWRAP_CALL(all_gather_into_tensor,
              (TensorView out, TensorView in, const OpOptions& options),
              in.device(), communicator.all_gather(out, in, how))
DISTWRAP_CALL(all_gather_v,
              (TensorView out, TensorView in, absl::Span<const int64_t> counts,
               const OpOptions& options),
              in.device(),
              communicator.all_gather_v(out, in,
                                        comm::ElementCounts(counts, out), how))

DISTWRAP_CALL(reduce_scatter,
              (TensorView out, Tensors ins, ReduceOp op,
               const OpOptions& options),
              out.device(), communicator.reduce_scatter(out, ins, op, how))
DISTWRAP_CALL(reduce_scatter_tensor,
              (TensorView out, TensorView in, ReduceOp op,
               const OpOptions& options),
              out.device(), communicator.reduce_scatter(out, in, op, how))
DISTWRAP_CALL(reduce_scatter_v,
              (TensorView out, TensorView in, absl::Span<const int64_t> counts,
               ReduceOp op, const OpOptions& options),
              out.device(),
              communicator.reduce_scatter_v(out, in,
                                            comm::ElementCounts(counts, in), op,
                                            how))

DISTWRAP_CALL(all_to_all, (Tensors outs, Tensors ins, const OpOptions& options),
              device_of(ins), communicator.all_to_all(outs, ins, how))
DISTWRAP_CALL(
    all_to_all_single,
    (TensorView out, TensorView in, Splits out_splits, Splits in_splits,
     const OpOptions& options),
    in.device(),
    !out_splits.is_set() && !in_splits.is_set() &&
            comm::splits_equally(out, communicator.size()) &&
            comm::splits_equally(in, communicator.size())
        ? communicator.all_to_all(out, in, how)
        : communicator.all_to_all_v(
              out, in,
              comm::ElementCounts(out_splits, out, communicator.size()),
              comm::ElementCounts(in_splits, in, communicator.size()), how))

}  // namespace distwrap
