// The common part of the mixture-of-experts calls: their place, and the hooks
// around them.
#ifndef DISTWRAP_SRC_FACADE_MOE_PLACE_H_
#define DISTWRAP_SRC_FACADE_MOE_PLACE_H_

#include "base/exceptions.h"
#include "distwrap/op_options.h"
#include "facade/binding.h"
#include "facade/shown_call.h"
#include "moe/call.h"

#include <memory>
#include <string>
#include <utility>

namespace distwrap::facade {

inline absl::Status refuse(const moe::CallPlace& place, ErrorInfo info) {
  return moe::Exchange(place).error(std::move(info));
}

// kUnsupported: the sizes of these calls are read by the host, which an
// operation on a stream does not wait for.
inline ErrorInfo no_stream() {
  return {.reason = Reason::kUnsupported,
          .what = "calls on host memory take no stream",
          .next_step = "wait for the stream, and leave `stream` out"};
}

// A stream is refused on the rank that gave it, or is a fault that the call
// tells to all ranks.
enum class StreamFault { kRefused, kTold };

// The place of a call on host memory in its group. kPlanMismatch if the options
// name another one.
absl::StatusOr<moe::CallPlace> moe_place(
    const char* name, std::shared_ptr<group::GroupState> group,
    const OpOptions& options, StreamFault stream = StreamFault::kRefused);

// Shows the call to hooks, and breaks the group if it throws in the middle.
template <class Body>
auto shown_moe(const moe::CallPlace& place, absl::Span<const TensorView> inputs,
               absl::Span<const TensorView> outputs, const OpOptions& options,
               const Body& body) -> decltype(body()) {
  const auto guarded = [&]() -> decltype(body()) {
    try {
      return body();
    } catch (...) {
      const absl::Status failed = base::error_of_exception(place.name);
      place.communicator->break_by(failed);
      return failed;
    }
  };
  return shown(
      *place.group,
      [&](HookedCall& call) {
        call.op = place.name;
        call.inputs = inputs;
        call.outputs = outputs;
        call.async = options.async;
        call.timeout = options.timeout.value_or(place.group->timeout());
        call.label = options.label;
      },
      [&](const ErrorInfo& why) { break_group(*place.group, why); }, guarded);
}

// The two ways of running a call whose arguments are good.
absl::StatusOr<Work> wait_for_moe(moe::MoeCall& call);
absl::StatusOr<Work> start_moe(std::unique_ptr<moe::MoeCall> call);

// Makes and runs a call. One that waits lives on the stack.
template <class Kind, class... Arguments>
absl::StatusOr<Work> run_moe(bool async, const Arguments&... arguments) {
  if (async) return start_moe(std::make_unique<Kind>(arguments...));
  Kind call(arguments...);
  return wait_for_moe(call);
}

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_MOE_PLACE_H_
