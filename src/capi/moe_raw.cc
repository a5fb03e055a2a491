// Mixtures of experts by index maps and by chunks, for C.
#include "distwrap/moe_raw.h"

#include "capi/arguments.h"
#include "capi/entry.h"
#include "capi/moe_combine.h"
#include "distwrap/c.h"
#include "distwrap/moe_dynamic.h"
#include "moe/dedup.h"

#include <absl/strings/str_cat.h>

#include <cstring>
#include <vector>

namespace distwrap::capi {
namespace {

// The three maps of a call.
struct Maps {
  TensorView send, forward, recv;
};

Maps maps_of(Arguments& arguments, const distwrap_tensor* send,
             const distwrap_tensor* forward, const distwrap_tensor* recv) {
  return {arguments.of(Tensor{send, "send_indices"}),
          arguments.of(Tensor{forward, "forward_indices"}),
          arguments.of(Tensor{recv, "recv_indices"})};
}

// A call by chunks gets the size of each chunk from every rank, the ids of the
// chunks that the rank sends, and how many of these go to each rank.
struct Chunks {
  TensorView sizes, ids, counts;
};

Chunks chunks_of(Arguments& arguments, const distwrap_tensor* sizes,
                 const distwrap_tensor* ids, const distwrap_tensor* counts) {
  return {arguments.of(Tensor{sizes, "input_split_sizes"}),
          arguments.of(Tensor{ids, "input_split_indices"}),
          arguments.of(Tensor{counts, "input_split_indices_per_rank"})};
}

// Rows that may be NULL where this rank receives none: then they are an empty
// tensor.
TensorView rows_of(Arguments& arguments, const distwrap_tensor* rows,
                   DType dtype) {
  return rows == nullptr ? TensorView(nullptr, 0, dtype)
                         : arguments.of(MaybeTensor{rows});
}

absl::Status write_map(const char* call, const char* name,
                       const std::vector<int32_t>& map, const TensorView& to) {
  const bool fits = to.dtype() == DType::kI32 && to.possible() &&
                    to.contiguous() && to.device() == kCpu && !to.read_only() &&
                    to.count() == static_cast<int64_t>(map.size());
  if (!fits)
    return refuse(
        call, absl::StrCat(name, " is ", to.text()),
        absl::StrCat("give ", map.size(), " contiguous i32 in host memory"));
  if (!map.empty()) memcpy(to.data(), map.data(), map.size() * sizeof map[0]);
  return absl::OkStatus();
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::DType;
using distwrap::TensorView;

int32_t distwrap_alltoallv_dedup_init(int64_t num_tokens, int64_t token_size,
                                      int32_t topk_k, int32_t experts_per_rank,
                                      int32_t dtype, int32_t ranks_per_node,
                                      const distwrap_op_options* options,
                                      distwrap_dedup_request* request,
                                      distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_dedup_init";
  return entry(kCall, error, [&]() -> absl::Status {
    if (request == nullptr) return refuse_null(kCall, "request");
    *request = nullptr;
    if (distwrap_dtype(dtype).bits == 0)
      return refuse(kCall, absl::StrCat("dtype = ", dtype, " is unknown"),
                    "use the DW_DTYPE_* constants");
    Arguments arguments(kCall);
    arguments.read(options, false);
    arguments.refuse_batch();
    if (!arguments.status().ok()) return arguments.status();
    return hand_out_started(kCall, request, [&] {
      return distwrap::alltoallv_dedup_init(
          num_tokens, token_size, topk_k, experts_per_rank,
          static_cast<DType>(dtype), ranks_per_node, arguments.options());
    });
  });
}

int32_t distwrap_dedup_request_free(distwrap_dedup_request request) {
  return free_handle(request);
}

int32_t distwrap_alltoallv_dedup_exec(
    const distwrap_tensor* output, const distwrap_tensor* recv_block_ids,
    const distwrap_tensor* input, const distwrap_tensor* send_indices,
    const distwrap_tensor* forward_indices, const distwrap_tensor* recv_indices,
    distwrap_dedup_request request, const distwrap_op_options* options,
    distwrap_work* work, distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_dedup_exec";
  if (work != nullptr) *work = nullptr;
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, request);
    if (!found.ok()) return found.status();
    Arguments arguments(kCall);
    arguments.read(options, work != nullptr);
    arguments.refuse_batch();
    const TensorView in = arguments.of(Tensor{input, "input"});
    const TensorView out = rows_of(arguments, output, (**found).state()->dtype);
    const TensorView ids = rows_of(arguments, recv_block_ids, DType::kI32);
    const Maps maps =
        maps_of(arguments, send_indices, forward_indices, recv_indices);
    if (!arguments.status().ok()) return arguments.status();
    return hand_out_work(kCall, work, [&] {
      return distwrap::alltoallv_dedup_exec(out, ids, in, maps.send,
                                            maps.forward, maps.recv, **found,
                                            arguments.options());
    });
  });
}

int32_t distwrap_alltoallv_dedup_combine(
    const distwrap_tensor* output, const distwrap_tensor* input,
    const distwrap_tensor* send_indices, const distwrap_tensor* forward_indices,
    const distwrap_tensor* recv_indices, distwrap_dedup_request request,
    const distwrap_moe_combine_options* combine,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_dedup_combine";
  if (work != nullptr) *work = nullptr;
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, request);
    if (!found.ok()) return found.status();
    Arguments arguments(kCall);
    arguments.read(options, work != nullptr);
    arguments.refuse_batch();
    const TensorView out = arguments.of(Tensor{output, "output"});
    const TensorView in = rows_of(arguments, input, (**found).state()->dtype);
    const Maps maps =
        maps_of(arguments, send_indices, forward_indices, recv_indices);
    Combine how;
    absl::Status read = read_combine(kCall, arguments, combine, &how);
    if (!read.ok()) return read;
    if (!arguments.status().ok()) return arguments.status();
    return hand_out_work(kCall, work, [&] {
      return distwrap::alltoallv_dedup_combine(out, in, maps.send, maps.forward,
                                               maps.recv, **found, how.options,
                                               arguments.options());
    });
  });
}

int32_t distwrap_dedup_maps(const distwrap_tensor* topk_all,
                            int32_t experts_per_rank, int32_t ranks_per_node,
                            int32_t rank, const distwrap_tensor* send_indices,
                            const distwrap_tensor* forward_indices,
                            const distwrap_tensor* recv_indices,
                            distwrap_error* error) {
  constexpr const char* kCall = "dedup_maps";
  return entry(kCall, error, [&]() -> absl::Status {
    Arguments arguments(kCall);
    const TensorView ids = arguments.of(Tensor{topk_all, "topk_all"});
    const Maps to =
        maps_of(arguments, send_indices, forward_indices, recv_indices);
    if (!arguments.status().ok()) return arguments.status();
    const auto maps =
        distwrap::dedup_maps(ids, experts_per_rank, ranks_per_node, rank);
    if (!maps.ok()) return maps.status();
    absl::Status status = write_map(kCall, "send_indices", maps->send, to.send);
    if (status.ok())
      status = write_map(kCall, "forward_indices", maps->forward, to.forward);
    if (status.ok())
      status = write_map(kCall, "recv_indices", maps->recv, to.recv);
    return status;
  });
}

int32_t distwrap_alltoallv_dynamic_dispatch_async(
    const distwrap_tensor* const* outs, uint64_t outs_count,
    const distwrap_tensor* output_split_sizes, const distwrap_tensor* input,
    const distwrap_tensor* input_split_sizes,
    const distwrap_tensor* input_split_indices,
    const distwrap_tensor* input_split_indices_per_rank, int64_t row_elements,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_dynamic_dispatch";
  if (work != nullptr) *work = nullptr;
  return entry(kCall, error, [&]() -> absl::Status {
    Arguments arguments(kCall);
    arguments.read(options, work != nullptr);
    arguments.refuse_batch();
    const Views to = arguments.of(TensorList{outs, outs_count, "outs"});
    const TensorView gathered =
        arguments.of(Tensor{output_split_sizes, "output_split_sizes"});
    const TensorView from = arguments.of(Tensor{input, "input"});
    const Chunks chunks =
        chunks_of(arguments, input_split_sizes, input_split_indices,
                  input_split_indices_per_rank);
    if (!arguments.status().ok()) return arguments.status();
    return hand_out_work(kCall, work, [&] {
      return distwrap::alltoallv_dynamic_dispatch(
          to, gathered, from, chunks.sizes, chunks.ids, chunks.counts,
          row_elements, arguments.options());
    });
  });
}

int32_t distwrap_alltoallv_dynamic_combine_async(
    const distwrap_tensor* output, const distwrap_tensor* input,
    const distwrap_tensor* input_split_sizes,
    const distwrap_tensor* input_split_indices,
    const distwrap_tensor* input_split_indices_per_rank, int64_t row_elements,
    const distwrap_op_options* options, distwrap_work* work,
    distwrap_error* error) {
  constexpr const char* kCall = "alltoallv_dynamic_combine";
  if (work != nullptr) *work = nullptr;
  return entry(kCall, error, [&]() -> absl::Status {
    Arguments arguments(kCall);
    arguments.read(options, work != nullptr);
    arguments.refuse_batch();
    const TensorView to = arguments.of(Tensor{output, "output"});
    const TensorView from = arguments.of(Tensor{input, "input"});
    const Chunks chunks =
        chunks_of(arguments, input_split_sizes, input_split_indices,
                  input_split_indices_per_rank);
    if (!arguments.status().ok()) return arguments.status();
    return hand_out_work(kCall, work, [&] {
      return distwrap::alltoallv_dynamic_combine(
          to, from, chunks.sizes, chunks.ids, chunks.counts, row_elements,
          arguments.options());
    });
  });
}

int32_t distwrap_alltoallv_dynamic_dispatch(
    const distwrap_tensor* const* outs, uint64_t outs_count,
    const distwrap_tensor* output_split_sizes, const distwrap_tensor* input,
    const distwrap_tensor* input_split_sizes,
    const distwrap_tensor* input_split_indices,
    const distwrap_tensor* input_split_indices_per_rank, int64_t row_elements,
    const distwrap_op_options* options, distwrap_error* error) {
  return distwrap_alltoallv_dynamic_dispatch_async(
      outs, outs_count, output_split_sizes, input, input_split_sizes,
      input_split_indices, input_split_indices_per_rank, row_elements, options,
      nullptr, error);
}

int32_t distwrap_alltoallv_dynamic_combine(
    const distwrap_tensor* output, const distwrap_tensor* input,
    const distwrap_tensor* input_split_sizes,
    const distwrap_tensor* input_split_indices,
    const distwrap_tensor* input_split_indices_per_rank, int64_t row_elements,
    const distwrap_op_options* options, distwrap_error* error) {
  return distwrap_alltoallv_dynamic_combine_async(
      output, input, input_split_sizes, input_split_indices,
      input_split_indices_per_rank, row_elements, options, nullptr, error);
}
