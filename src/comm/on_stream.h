// A communicator whose calls are put on a stream.
//
// Threads: as the communicator's. Ownership: of neither.
#ifndef DISTWRAP_SRC_COMM_ON_STREAM_H_
#define DISTWRAP_SRC_COMM_ON_STREAM_H_

#include "comm/communicator.h"

namespace distwrap::comm {

class OnStream final : public CallForms<OnStream> {
 public:
  OnStream(BackendCommunicator& communicator, const Stream& stream)
      : communicator_(communicator), stream_(stream) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  absl::string_view backend() const override { return communicator_.backend(); }

  template <uint16_t kKind>
  absl::StatusOr<Work> run(const Call& call, const CallOptions& options) {
    return run_any(kKind, any_call(call), options);
  }
  template <uint16_t kKind>
  absl::StatusOr<Work> run_divided(const DividedCall& call,
                                   const CallOptions& options) {
    return run_any(kKind, any_call(call), options);
  }
  absl::StatusOr<Work> run_any(uint16_t kind, const AnyCall& call,
                               const CallOptions& options) {
    return communicator_.run_on_stream(kind, call, options, stream_);
  }

 private:
  BackendCommunicator& communicator_;
  const Stream& stream_;
};

// Made in on_stream.cc.
extern template class CallForms<OnStream>;

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_ON_STREAM_H_
