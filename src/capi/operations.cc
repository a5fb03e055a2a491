// The operations: a description of each argument, and nothing else.
#include "capi/operation.h"
#include "distwrap/c.h"

// The last arguments of every operation.
#define HOW \
  const distwrap_op_options *options, distwrap_work *work, distwrap_error *error

DISTWRAP_C_OPERATION(broadcast,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      distwrap_peer src, HOW),
                     Tensor{out, "out"}, MaybeTensor{in}, src)
DISTWRAP_C_OPERATION(all_reduce,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      int32_t reduction, HOW),
                     Tensor{out, "out"}, Tensor{in, "in"}, Reduction{reduction})
DISTWRAP_C_OPERATION(reduce,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      distwrap_peer dst, int32_t reduction, HOW),
                     MaybeTensor{out}, Tensor{in, "in"}, dst,
                     Reduction{reduction})
DISTWRAP_C_OPERATION(scan,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      int32_t reduction, HOW),
                     Tensor{out, "out"}, Tensor{in, "in"}, Reduction{reduction})
DISTWRAP_C_OPERATION(exscan,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      int32_t reduction, HOW),
                     Tensor{out, "out"}, Tensor{in, "in"}, Reduction{reduction})

DISTWRAP_C_OPERATION(all_gather,
                     (const distwrap_tensor* const* outs, uint64_t outs_count,
                      const distwrap_tensor* in, HOW),
                     TensorList{outs, outs_count, "outs"}, Tensor{in, "in"})
DISTWRAP_C_OPERATION(all_gather_into_tensor,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      HOW),
                     Tensor{out, "out"}, Tensor{in, "in"})
DISTWRAP_C_OPERATION(all_gather_v,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      const int64_t* counts, uint64_t counts_count, HOW),
                     Tensor{out, "out"}, Tensor{in, "in"},
                     Rows{counts, counts_count, "counts"})
DISTWRAP_C_OPERATION(gather,
                     (const distwrap_tensor* const* outs, uint64_t outs_count,
                      const distwrap_tensor* in, distwrap_peer dst, HOW),
                     TensorList{outs, outs_count, "outs"}, Tensor{in, "in"},
                     dst)
DISTWRAP_C_OPERATION(gather_into_tensor,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      distwrap_peer dst, const int64_t* counts,
                      uint64_t counts_count, HOW),
                     MaybeTensor{out}, Tensor{in, "in"}, dst,
                     MaybeRows{counts, counts_count})

DISTWRAP_C_OPERATION(scatter,
                     (const distwrap_tensor* out,
                      const distwrap_tensor* const* ins, uint64_t ins_count,
                      distwrap_peer src, HOW),
                     Tensor{out, "out"}, TensorList{ins, ins_count, "ins"}, src)
DISTWRAP_C_OPERATION(scatter_tensor,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      distwrap_peer src, const int64_t* counts,
                      uint64_t counts_count, HOW),
                     Tensor{out, "out"}, MaybeTensor{in}, src,
                     MaybeRows{counts, counts_count})
DISTWRAP_C_OPERATION(reduce_scatter,
                     (const distwrap_tensor* out,
                      const distwrap_tensor* const* ins, uint64_t ins_count,
                      int32_t reduction, HOW),
                     Tensor{out, "out"}, TensorList{ins, ins_count, "ins"},
                     Reduction{reduction})
DISTWRAP_C_OPERATION(reduce_scatter_tensor,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      int32_t reduction, HOW),
                     Tensor{out, "out"}, Tensor{in, "in"}, Reduction{reduction})
DISTWRAP_C_OPERATION(reduce_scatter_v,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      const int64_t* counts, uint64_t counts_count,
                      int32_t reduction, HOW),
                     Tensor{out, "out"}, Tensor{in, "in"},
                     Rows{counts, counts_count, "counts"}, Reduction{reduction})

DISTWRAP_C_OPERATION(all_to_all,
                     (const distwrap_tensor* const* outs, uint64_t outs_count,
                      const distwrap_tensor* const* ins, uint64_t ins_count,
                      HOW),
                     TensorList{outs, outs_count, "outs"},
                     TensorList{ins, ins_count, "ins"})
DISTWRAP_C_OPERATION(all_to_all_single,
                     (const distwrap_tensor* out, const distwrap_tensor* in,
                      const int64_t* out_splits, uint64_t out_splits_count,
                      const int64_t* in_splits, uint64_t in_splits_count, HOW),
                     Tensor{out, "out"}, Tensor{in, "in"},
                     MaybeRows{out_splits, out_splits_count},
                     MaybeRows{in_splits, in_splits_count})

// A barrier has no arguments to describe.
int32_t distwrap_barrier(HOW) {
  return distwrap::capi::operation(
      "barrier", options, work, error,
      [](const auto& how) { return distwrap::barrier(how); },
      [](distwrap::Batch& batch, const auto& how) { batch.barrier(how); });
}

int32_t distwrap_monitored_barrier(const distwrap_op_options* options,
                                   distwrap_error* error) {
  using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
  return entry("monitored_barrier", error, [&]() -> absl::Status {
    Arguments arguments("monitored_barrier");
    arguments.read(options, false);
    arguments.refuse_batch();
    if (!arguments.status().ok()) return arguments.status();
    return distwrap::monitored_barrier(arguments.options()).status();
  });
}
