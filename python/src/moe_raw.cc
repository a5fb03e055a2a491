// Mixtures of experts by index maps and by chunks.
#include "arrays.h"
#include "moe_combine.h"

#include <cstdlib>
#include <nanobind/stl/string.h>
#include <new>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

using H = nb::handle;

// A request, and the argument `group` with which it was made.
class DedupRequest {
 public:
  DedupRequest(distwrap_dedup_request taken, nb::handle group)
      : handle_(taken), group_(nb::borrow(group)) {}
  DedupRequest(const DedupRequest&) = delete;
  DedupRequest& operator=(const DedupRequest&) = delete;
  ~DedupRequest() {
    const Unlocked released;
    distwrap_dedup_request_free(handle_);
  }
  distwrap_dedup_request handle() const { return handle_; }
  const nb::object& group() const { return group_; }

 private:
  distwrap_dedup_request handle_;
  const nb::object group_;
};

nb::object dedup_init(int64_t num_tokens, int64_t token_size, int32_t topk_k,
                      int32_t experts_per_rank, H dtype, int32_t ranks_per_node,
                      H group, H timeout, H label) {
  constexpr const char* kCall = "alltoallv_dedup_init";
  OperationCall call(kCall, group, false, timeout, label);
  const int32_t type = dtype_of(kCall, dtype);
  distwrap_dedup_request made = nullptr;
  wait_in(call.options().group(), [&](distwrap_error* error) {
    return distwrap_alltoallv_dedup_init(num_tokens, token_size, topk_k,
                                         experts_per_rank, type, ranks_per_node,
                                         call.options().get(), &made, error);
  });
  return nb::cast(new DedupRequest(made, group), nb::rv_policy::take_ownership);
}

// The three maps of a call.
struct Maps {
  Maps(OperationCall& call, H send_indices, H forward_indices, H recv_indices)
      : send(call.tensor(send_indices, "send_indices", Use::kRead)),
        forward(call.tensor(forward_indices, "forward_indices", Use::kRead)),
        recv(call.tensor(recv_indices, "recv_indices", Use::kRead)) {}
  const distwrap_tensor* const send;
  const distwrap_tensor* const forward;
  const distwrap_tensor* const recv;
};

// A call by chunks gets the size of each chunk from every rank, the ids of the
// chunks that the rank sends, and how many of these go to each rank.
struct Chunks {
  Chunks(OperationCall& call, H split_sizes, H split_indices,
         H split_indices_per_rank)
      : sizes(call.tensor(split_sizes, "input_split_sizes", Use::kRead)),
        ids(call.tensor(split_indices, "input_split_indices", Use::kRead)),
        counts(call.tensor(split_indices_per_rank,
                           "input_split_indices_per_rank", Use::kRead)) {}
  const distwrap_tensor* const sizes;
  const distwrap_tensor* const ids;
  const distwrap_tensor* const counts;
};

// The options of these calls name no group, which the request has.
template <class F>
nb::object run_on(OperationCall& call, const DedupRequest& request,
                  const F& f) {
  if (recording != nullptr) return call.run(f);
  return call.run_on(group_of("wait", request.group()), request.group(), f);
}

nb::object dedup_exec(H output, H recv_block_ids, H input, H send_indices,
                      H forward_indices, H recv_indices,
                      const DedupRequest& request, bool async_op, H timeout,
                      H label) {
  OperationCall call("alltoallv_dedup_exec", nb::none(), async_op, timeout,
                     label);
  const auto* const out =
      call.tensor_or_none(output, "output", Use::kWritten, false);
  const auto* const ids = call.tensor_or_none(recv_block_ids, "recv_block_ids",
                                              Use::kWritten, false);
  const auto* const in = call.tensor(input, "input", Use::kRead);
  const Maps maps(call, send_indices, forward_indices, recv_indices);
  return run_on(call, request, [&](auto* o, auto* w, auto* e) {
    return distwrap_alltoallv_dedup_exec(out, ids, in, maps.send, maps.forward,
                                         maps.recv, request.handle(), o, w, e);
  });
}

nb::object dedup_combine(H output, H input, H send_indices, H forward_indices,
                         H recv_indices, const DedupRequest& request,
                         const std::string& weighting, H weights, H bias,
                         const std::string& order, bool reproducible, H returns,
                         bool async_op, H timeout, H label) {
  constexpr const char* kCall = "alltoallv_dedup_combine";
  OperationCall call(kCall, nb::none(), async_op, timeout, label);
  const auto* const out = call.tensor(output, "output", Use::kWritten);
  const auto* const in = call.tensor_or_none(input, "input", Use::kRead, false);
  const Maps maps(call, send_indices, forward_indices, recv_indices);
  const MoeCombine how(kCall, call, weighting, weights, bias, order,
                       reproducible, returns);
  return run_on(call, request, [&](auto* o, auto* w, auto* e) {
    return distwrap_alltoallv_dedup_combine(out, in, maps.send, maps.forward,
                                            maps.recv, request.handle(),
                                            how.get(), o, w, e);
  });
}

// An array of i32 for a map, in the program's memory. `tensor` describes it.
nb::object make_map(const std::vector<int64_t>& shape,
                    distwrap_tensor* tensor) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  void* const data = calloc(static_cast<size_t>(count) + 1, sizeof(int32_t));
  if (data == nullptr) throw std::bad_alloc();
  *tensor = {};
  tensor->data = data;
  tensor->device = {DW_DEVICE_CPU, 0};
  tensor->ndim = static_cast<int32_t>(shape.size());
  tensor->dtype = distwrap_dtype(DW_DTYPE_I32);
  tensor->shape = const_cast<int64_t*>(shape.data());
  return array_of("dedup_maps", data, tensor->dtype, shape.data(), tensor->ndim,
                  [data] { free(data); });
}

nb::tuple make_maps(H topk_all, int32_t experts_per_rank,
                    int32_t ranks_per_node, int32_t rank) {
  constexpr const char* kCall = "dedup_maps";
  Tensor ids;
  ids.read(topk_all, kCall, "topk_all", Use::kRead, Elements::kMoved);
  // The C API refuses what these shapes do not cover.
  const distwrap_tensor& all = *ids.get();
  const bool whole = all.ndim == 3 && experts_per_rank > 0 &&
                     ranks_per_node > 0 && rank >= 0 && rank < all.shape[0];
  const int64_t ranks = whole ? all.shape[0] : 0;
  const int64_t tokens = whole ? all.shape[1] : 0;
  const int64_t lanes = whole ? ranks_per_node : 1;
  const std::vector<int64_t> shapes[] = {
      {ranks / lanes, tokens},
      {lanes, ranks / lanes, tokens},
      {whole ? experts_per_rank : 0, ranks, tokens}};
  distwrap_tensor to[3];
  nb::object maps[3];
  for (size_t i = 0; i < 3; ++i) maps[i] = make_map(shapes[i], &to[i]);
  Error error;
  check(distwrap_dedup_maps(&all, experts_per_rank, ranks_per_node, rank,
                            &to[0], &to[1], &to[2], &error.handle),
        error);
  return nb::make_tuple(maps[0], maps[1], maps[2]);
}

nb::object dynamic_dispatch(H outs, H output_split_sizes, H input,
                            H input_split_sizes, H input_split_indices,
                            H input_split_indices_per_rank,
                            int64_t row_elements, H group, bool async_op,
                            H timeout, H label) {
  constexpr const char* kCall = "alltoallv_dynamic_dispatch";
  OperationCall call(kCall, group, async_op, timeout, label);
  const Tensors& to = call.list(outs, "outs", Use::kWritten);
  const auto* const gathered =
      call.tensor(output_split_sizes, "output_split_sizes", Use::kWritten);
  const auto* const from = call.tensor(input, "input", Use::kRead);
  const Chunks chunks(call, input_split_sizes, input_split_indices,
                      input_split_indices_per_rank);
  return call.run([&](auto* o, auto* w, auto* e) {
    return distwrap_alltoallv_dynamic_dispatch_async(
        to.data(), to.size(), gathered, from, chunks.sizes, chunks.ids,
        chunks.counts, row_elements, o, w, e);
  });
}

nb::object dynamic_combine(H output, H input, H input_split_sizes,
                           H input_split_indices,
                           H input_split_indices_per_rank, int64_t row_elements,
                           H group, bool async_op, H timeout, H label) {
  constexpr const char* kCall = "alltoallv_dynamic_combine";
  OperationCall call(kCall, group, async_op, timeout, label);
  const auto* const to = call.tensor(output, "output", Use::kWritten);
  const auto* const from = call.tensor(input, "input", Use::kRead);
  const Chunks chunks(call, input_split_sizes, input_split_indices,
                      input_split_indices_per_rank);
  return call.run([&](auto* o, auto* w, auto* e) {
    return distwrap_alltoallv_dynamic_combine_async(to, from, chunks.sizes,
                                                    chunks.ids, chunks.counts,
                                                    row_elements, o, w, e);
  });
}

}  // namespace

void add_moe_raw(nb::module_& m) {
  nb::class_<DedupRequest>(m, "_DedupRequest");
  m.def("_dedup_init", &dedup_init, "num_tokens"_a, "token_size"_a, "topk_k"_a,
        "experts_per_rank"_a, "dtype"_a, "ranks_per_node"_a, "group"_a.none(),
        "timeout"_a.none(), "label"_a.none());
  m.def("_dedup_exec", &dedup_exec, "output"_a.none(),
        "recv_block_ids"_a.none(), "input"_a, "send_indices"_a,
        "forward_indices"_a, "recv_indices"_a, "request"_a, "async_op"_a,
        "timeout"_a.none(), "label"_a.none());
  m.def("_dedup_combine", &dedup_combine, "output"_a, "input"_a.none(),
        "send_indices"_a, "forward_indices"_a, "recv_indices"_a, "request"_a,
        "weighting"_a, "weights"_a.none(), "bias"_a, "order"_a,
        "reproducible"_a, "returns"_a, "async_op"_a, "timeout"_a.none(),
        "label"_a.none());
  m.def("_dedup_maps", &make_maps, "topk_all"_a, "experts_per_rank"_a,
        "ranks_per_node"_a, "rank"_a);
  m.def("_dynamic_dispatch", &dynamic_dispatch, "outs"_a,
        "output_split_sizes"_a, "input"_a, "input_split_sizes"_a,
        "input_split_indices"_a, "input_split_indices_per_rank"_a,
        "row_elements"_a, "group"_a.none(), "async_op"_a, "timeout"_a.none(),
        "label"_a.none());
  m.def("_dynamic_combine", &dynamic_combine, "output"_a, "input"_a,
        "input_split_sizes"_a, "input_split_indices"_a,
        "input_split_indices_per_rank"_a, "row_elements"_a, "group"_a.none(),
        "async_op"_a, "timeout"_a.none(), "label"_a.none());
}

}  // namespace distwrap_python
