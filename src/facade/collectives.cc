// Calls without a root, and the items of a batch that mean them.
#include "base/error.h"
#include "distwrap/batch.h"
#include "facade/dispatch.h"
#include "facade/rows.h"

#include <absl/strings/str_cat.h>

namespace distwrap {

// Which device serves a list; of an empty one, which the communicator refuses,
// the host.
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
                                        facade::ElementCounts(counts, out),
                                        how))

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
                                            facade::ElementCounts(counts, in),
                                            op, how))
// No backend has it yet.
static absl::StatusOr<Work> quantized(const Communicator& communicator,
                                      const TensorView&, const TensorView&,
                                      ReduceOp, int64_t, const CallOptions&,
                                      const OpOptions& options) {
  return facade::refusal(
      "reduce_scatter_quantized", *facade::group_of(options.group), options,
      {.reason = Reason::kQuantizedMissing,
       .what = absl::StrCat("the group's backend, ", communicator.backend(),
                            ", has no quantized reduce_scatter"),
       .next_step = "use reduce_scatter_tensor"});
}

DISTWRAP_CALL(reduce_scatter_quantized,
              (TensorView out, TensorView in, ReduceOp op, int64_t seed,
               const OpOptions& options),
              out.device(),
              quantized(communicator, out, in, op, seed, how, options))

DISTWRAP_CALL(all_to_all, (Tensors outs, Tensors ins, const OpOptions& options),
              device_of(ins), communicator.all_to_all(outs, ins, how))
DISTWRAP_CALL(
    all_to_all_single,
    (TensorView out, TensorView in, Splits out_splits, Splits in_splits,
     const OpOptions& options),
    in.device(),
    !out_splits.is_set() && !in_splits.is_set() &&
            facade::splits_equally(out, communicator.size()) &&
            facade::splits_equally(in, communicator.size())
        ? communicator.all_to_all(out, in, how)
        : communicator.all_to_all_v(
              out, in,
              facade::ElementCounts(out_splits, out, communicator.size()),
              facade::ElementCounts(in_splits, in, communicator.size()), how))

}  // namespace distwrap
