// Prepared operations, for C.
#include "capi/arguments.h"
#include "capi/entry.h"
#include "distwrap/c.h"

#include <utility>

namespace distwrap::capi {
namespace {

// The options of a start, which belongs to the group of its operation.
absl::StatusOr<CallOptions> start_options(const char* call,
                                          const OpOptions& given) {
  if (given.group)
    return refuse(call, "a start names a group",
                  "leave the group unset: the operation has its own");
  if (given.stream.native != nullptr)
    return refuse(call, "a start names a stream", "leave the stream unset");
  return CallOptions{given.async, given.timeout, given.label};
}

absl::StatusOr<Work> start(const PreparedOperation& prepared,
                           Arguments& arguments, const distwrap_tensor* out,
                           const distwrap_tensor* in, const CallOptions& how) {
  if (out == nullptr && in == nullptr) return prepared.start(how);
  const TensorView written = arguments.of(MaybeTensor{out});
  const TensorView read = arguments.of(MaybeTensor{in});
  if (!arguments.status().ok()) return arguments.status();
  return prepared.start(written, read, how);
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)

int32_t distwrap_batch_prepare(distwrap_batch batch,
                               distwrap_prepared* prepared,
                               distwrap_error* error) {
  constexpr const char* kCall = "batch_prepare";
  return entry(kCall, error, [&]() -> absl::Status {
    if (prepared == nullptr) return refuse_null(kCall, "prepared");
    *prepared = nullptr;
    const auto found = held(kCall, batch);
    if (!found.ok()) return found.status();
    BatchBox& box = ***found;
    return hand_out_started(kCall, prepared, [&] {
      distwrap::base::MutexLock lock(box.mutex);
      return box.batch.prepare();
    });
  });
}

int32_t distwrap_prepared_start(distwrap_prepared prepared,
                                const distwrap_tensor* out,
                                const distwrap_tensor* in,
                                const distwrap_op_options* options,
                                distwrap_work* work, distwrap_error* error) {
  constexpr const char* kCall = "prepared_start";
  if (work != nullptr) *work = nullptr;
  return entry(kCall, error, [&]() -> absl::Status {
    const auto found = held(kCall, prepared);
    if (!found.ok()) return found.status();
    Arguments arguments(kCall);
    arguments.read(options, work != nullptr);
    arguments.refuse_batch();
    if (!arguments.status().ok()) return arguments.status();
    const auto how = start_options(kCall, arguments.options());
    if (!how.ok()) return how.status();
    const auto begin = [&] { return start(**found, arguments, out, in, *how); };
    return work == nullptr ? begin().status()
                           : hand_out_started(kCall, work, begin);
  });
}

int32_t distwrap_prepared_free(distwrap_prepared prepared) {
  return free_handle(prepared);
}
