#include "distwrap/distwrap.h"
#include "facade/dispatch.h"

namespace distwrap {
namespace {

using comm::BackendCommunicator;

absl::StatusOr<Work> start_send(const char* name, TensorView tensor, int peer,
                                int64_t tag, const OpOptions& options,
                                bool async) {
  return facade::dispatch(name, options, tensor.device(),
                          [&](BackendCommunicator& c, CallOptions o) {
                            o.async = async;
                            return c.send(tensor, peer, tag, o);
                          });
}

absl::StatusOr<Work> start_recv(const char* name, TensorView tensor, int peer,
                                int64_t tag, const OpOptions& options,
                                bool async) {
  return facade::dispatch(name, options, tensor.device(),
                          [&](BackendCommunicator& c, CallOptions o) {
                            o.async = async;
                            return c.recv(tensor, peer, tag, o);
                          });
}

}  // namespace

absl::Status send(TensorView tensor, int peer, int64_t tag,
                  const OpOptions& options) {
  return start_send("send", tensor, peer, tag, options, false).status();
}

absl::Status recv(TensorView tensor, int peer, int64_t tag,
                  const OpOptions& options) {
  return start_recv("recv", tensor, peer, tag, options, false).status();
}

absl::StatusOr<Work> isend(TensorView tensor, int peer, int64_t tag,
                           const OpOptions& options) {
  return start_send("isend", tensor, peer, tag, options, true);
}

absl::StatusOr<Work> irecv(TensorView tensor, int peer, int64_t tag,
                           const OpOptions& options) {
  return start_recv("irecv", tensor, peer, tag, options, true);
}

}  // namespace distwrap
