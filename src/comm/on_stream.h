// Puts the calls of a communicator on a stream.
//
// Threads: as the communicator's. Ownership: borrows both.
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

  template <uint16_t kKind, class Form>
  absl::StatusOr<Work> run(const Form& call, const CallOptions& options) {
    return communicator_.run<kKind>(call, options, &stream_);
  }
  absl::StatusOr<Work> run_any(uint16_t kind, const AnyCall& call,
                               const CallOptions& options) {
    return communicator_.run_any(kind, call, options, &stream_);
  }

 private:
  BackendCommunicator& communicator_;
  const Stream& stream_;
};

// Instantiated in communicator_call.cc, as the communicator's own calls.
extern template class CallForms<OnStream>;

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_ON_STREAM_H_
