#include "distwrap/distwrap.h"
#include "facade/dispatch.h"

namespace distwrap {

using comm::BackendCommunicator;

absl::StatusOr<Work> barrier(const OpOptions& options) {
  return facade::dispatch("barrier", options, kCpu,
                          [](BackendCommunicator& c, const CallOptions& o) {
                            return c.barrier(o);
                          });
}

absl::StatusOr<Work> broadcast(TensorView tensor, int root,
                               const OpOptions& options) {
  return broadcast(tensor, tensor, root, options);
}

absl::StatusOr<Work> broadcast(TensorView out, TensorView in, int root,
                               const OpOptions& options) {
  return facade::dispatch("broadcast", options, out.device(),
                          [&](BackendCommunicator& c, const CallOptions& o) {
                            return c.broadcast(out, in, root, o);
                          });
}

absl::StatusOr<Work> all_reduce(TensorView tensor, ReduceOp op,
                                const OpOptions& options) {
  return all_reduce(tensor, tensor, op, options);
}

absl::StatusOr<Work> all_reduce(TensorView out, TensorView in, ReduceOp op,
                                const OpOptions& options) {
  return facade::dispatch("all_reduce", options, out.device(),
                          [&](BackendCommunicator& c, const CallOptions& o) {
                            return c.all_reduce(out, in, op, o);
                          });
}

absl::StatusOr<Work> all_gather_into_tensor(TensorView out, TensorView in,
                                            const OpOptions& options) {
  return facade::dispatch("all_gather_into_tensor", options, in.device(),
                          [&](BackendCommunicator& c, const CallOptions& o) {
                            return c.all_gather(out, in, o);
                          });
}

absl::StatusOr<Work> reduce_scatter_tensor(TensorView out, TensorView in,
                                           ReduceOp op,
                                           const OpOptions& options) {
  return facade::dispatch("reduce_scatter_tensor", options, out.device(),
                          [&](BackendCommunicator& c, const CallOptions& o) {
                            return c.reduce_scatter(out, in, op, o);
                          });
}

absl::StatusOr<Work> all_to_all_single(TensorView out, TensorView in,
                                       const OpOptions& options) {
  return facade::dispatch("all_to_all_single", options, in.device(),
                          [&](BackendCommunicator& c, const CallOptions& o) {
                            return c.all_to_all(out, in, o);
                          });
}

}  // namespace distwrap
