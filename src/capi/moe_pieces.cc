// Exchanges of one piece for each rank, for C.
#include "capi/arguments.h"
#include "capi/entry.h"
#include "capi/moe_combine.h"
#include "distwrap/c.h"
#include "distwrap/moe_dynamic.h"

#include <absl/strings/str_cat.h>

#include <memory>

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::DType;
using distwrap::TensorView;

int32_t distwrap_alltoallv_dynamic(const distwrap_tensor* const* outs,
                                   uint64_t outs_count,
                                   const distwrap_tensor* output_counts,
                                   const distwrap_tensor* const* ins,
                                   uint64_t ins_count,
                                   const distwrap_tensor* input_counts,
                                   const distwrap_op_options* options,
                                   distwrap_work* work, distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_dynamic";
  if (work != nullptr) *work = nullptr;
  return entry(kCall, error, [&]() -> absl::Status {
    Arguments arguments(kCall);
    arguments.read(options, work != nullptr);
    arguments.refuse_batch();
    const Views to = arguments.of(TensorList{outs, outs_count, "outs"});
    const TensorView received =
        arguments.of(Tensor{output_counts, "output_counts"});
    const Views from = arguments.of(TensorList{ins, ins_count, "ins"});
    const TensorView counts =
        arguments.of(Tensor{input_counts, "input_counts"});
    if (!arguments.status().ok()) return arguments.status();
    return hand_out_work(kCall, work, [&] {
      return distwrap::alltoallv_dynamic(to, received, from, counts,
                                         arguments.options());
    });
  });
}

int32_t distwrap_alltoallv_dynamic_split(
    const distwrap_tensor* const* outs, uint64_t outs_count,
    const distwrap_tensor* output_counts, const distwrap_tensor* input,
    const distwrap_tensor* input_split_lengths,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_dynamic_split";
  if (work != nullptr) *work = nullptr;
  return entry(kCall, error, [&]() -> absl::Status {
    Arguments arguments(kCall);
    arguments.read(options, work != nullptr);
    arguments.refuse_batch();
    const Views to = arguments.of(TensorList{outs, outs_count, "outs"});
    const TensorView received =
        arguments.of(Tensor{output_counts, "output_counts"});
    const TensorView from = arguments.of(Tensor{input, "input"});
    const TensorView lengths =
        arguments.of(Tensor{input_split_lengths, "input_split_lengths"});
    if (!arguments.status().ok()) return arguments.status();
    return hand_out_work(kCall, work, [&] {
      return distwrap::alltoallv_dynamic_split(to, received, from, lengths,
                                               arguments.options());
    });
  });
}

int32_t distwrap_device_alltoallv_single(
    const distwrap_tensor* output, const distwrap_tensor* input,
    const distwrap_tensor* output_split_sizes,
    const distwrap_tensor* input_split_sizes, const distwrap_pair* hints,
    uint64_t hints_count, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error) {
  constexpr const char* kCall = "device_alltoallv_single";
  if (work != nullptr) *work = nullptr;
  return entry(kCall, error, [&]() -> absl::Status {
    Arguments arguments(kCall);
    arguments.read(options, work != nullptr);
    arguments.refuse_batch();
    const TensorView to = arguments.of(Tensor{output, "output"});
    const TensorView from = arguments.of(Tensor{input, "input"});
    const TensorView receives =
        arguments.of(Tensor{output_split_sizes, "output_split_sizes"});
    const TensorView sends =
        arguments.of(Tensor{input_split_sizes, "input_split_sizes"});
    if (!arguments.status().ok()) return arguments.status();
    const auto given = pairs_of(kCall, hints, hints_count);
    if (!given.ok()) return given.status();
    return hand_out_work(kCall, work, [&] {
      return distwrap::device_alltoallv_single(to, from, receives, sends,
                                               *given, arguments.options());
    });
  });
}

int32_t distwrap_alltoallv_op_create(distwrap_group group,
                                     int64_t capacity_bytes,
                                     int64_t max_bytes_per_peer,
                                     distwrap_alltoallv_op* op,
                                     distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_op_create";
  return entry(kCall, error, [&]() -> absl::Status {
    if (op == nullptr) return refuse_null(kCall, "op");
    *op = nullptr;
    const auto members = group_of(kCall, group);
    if (!members.ok()) return members.status();
    return hand_out(kCall,
                    std::make_unique<PreparedBox>(distwrap::AllToAllVOp(
                        *members, capacity_bytes, max_bytes_per_peer)),
                    op);
  });
}

int32_t distwrap_alltoallv_op_setup(distwrap_alltoallv_op op,
                                    distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_op_setup";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, op);
    if (!found.ok()) return found.status();
    PreparedBox& box = ***found;
    const distwrap::base::MutexLock lock(box.mutex);
    return box.op.setup();
  });
}

int32_t distwrap_alltoallv_op_run(distwrap_alltoallv_op op,
                                  const distwrap_tensor* x,
                                  const int64_t* out_splits,
                                  const int64_t* in_splits, uint64_t ranks,
                                  const distwrap_op_options* options,
                                  distwrap_output* rows,
                                  distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_op_run";
  return entry(kCall, error, [&]() -> absl::Status {
    if (rows == nullptr) return refuse_null(kCall, "rows");
    *rows = {};
    const auto found = held(kCall, op);
    if (!found.ok()) return found.status();
    Arguments arguments(kCall);
    arguments.read(options, false);
    arguments.refuse_batch();
    const auto outs = arguments.of(Rows{out_splits, ranks, "out_splits"});
    const auto ins = arguments.of(Rows{in_splits, ranks, "in_splits"});
    const TensorView from = arguments.of(MaybeTensor{x});
    if (!arguments.status().ok()) return arguments.status();
    PreparedBox& box = ***found;
    const distwrap::base::MutexLock lock(box.mutex);
    const auto got =
        x == nullptr
            ? box.op.alltoallv_from_buffer(outs, ins, arguments.options())
            : box.op.alltoallv(from, outs, ins, arguments.options());
    if (!got.ok()) return got.status();
    *rows = output_of(*got);
    return absl::OkStatus();
  });
}

int32_t distwrap_alltoallv_op_send_buffer(distwrap_alltoallv_op op,
                                          int64_t count, int32_t dtype,
                                          distwrap_output* buffer,
                                          distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_op_send_buffer";
  return entry(kCall, error, [&]() -> absl::Status {
    if (buffer == nullptr) return refuse_null(kCall, "buffer");
    *buffer = {};
    if (distwrap_dtype(dtype).bits == 0)
      return refuse(kCall, absl::StrCat("dtype = ", dtype, " is unknown"),
                    "use the DW_DTYPE_* constants");
    const auto found = held(kCall, op);
    if (!found.ok()) return found.status();
    PreparedBox& box = ***found;
    const distwrap::base::MutexLock lock(box.mutex);
    const auto got = box.op.send_buffer(count, static_cast<DType>(dtype));
    if (!got.ok()) return got.status();
    *buffer = output_of(*got);
    return absl::OkStatus();
  });
}

int32_t distwrap_alltoallv_op_close(distwrap_alltoallv_op op,
                                    distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_op_close";
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, op);
    if (!found.ok()) return found.status();
    PreparedBox& box = ***found;
    const distwrap::base::MutexLock lock(box.mutex);
    return box.op.close();
  });
}

int32_t distwrap_alltoallv_op_free(distwrap_alltoallv_op op) {
  return free_handle(op);
}
