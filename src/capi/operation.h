// One operation of the C API, which runs at once, is only started, or is
// recorded in a batch, depending on its options and `work`.
// DISTWRAP_C_OPERATION states the operation once for all three.
//
// Threads: any.
#ifndef DISTWRAP_SRC_CAPI_OPERATION_H_
#define DISTWRAP_SRC_CAPI_OPERATION_H_

#include "capi/arguments.h"
#include "capi/entry.h"

#include <absl/functional/function_ref.h>

#include <tuple>
#include <utility>

namespace distwrap::capi {

absl::Status record(BatchBox& box, absl::FunctionRef<void(Batch&)> add);

// `run(arguments..., options)` is the facade's function; `add(batch, ...)` is
// the batch's method.
template <class Run, class Add, class... Described>
inline int32_t operation(const char* call, const distwrap_op_options* options,
                         distwrap_work* work, distwrap_error* error,
                         const Run& run, const Add& add,
                         const Described&... described) {
  if (work != nullptr) *work = nullptr;
  return entry(call, error, [&]() -> absl::Status {
    Arguments arguments(call);
    arguments.read(options, work != nullptr);
    const std::tuple values{arguments.of(described)...};
    if (!arguments.status().ok()) [[unlikely]]
      return arguments.status();
    if (BatchBox* const box = arguments.batch()) [[unlikely]]
      return record(*box, [&](Batch& batch) {
        std::apply(
            [&](const auto&... value) {
              add(batch, value..., arguments.options());
            },
            values);
      });
    const auto start = [&] {
      return std::apply(
          [&](const auto&... value) {
            return run(value..., arguments.options());
          },
          values);
    };
    if (work != nullptr) [[unlikely]]
      return hand_out_started(call, work, start);
    absl::StatusOr<Work> ended = start();
    if (!ended.ok()) [[unlikely]]
      return std::move(ended).status();
    return absl::OkStatus();
  });
}

}  // namespace distwrap::capi

// Defines the function of c.h for the facade's `name`. `...` describes the
// arguments (arguments.h) in the order of the facade's function.
#define DISTWRAP_C_OPERATION(name, parameters, ...)                            \
  int32_t distwrap_##name parameters {                                         \
    using namespace distwrap::capi; /* NOLINT(google-build-using-namespace) */ \
    return operation(                                                          \
        #name, options, work, error,                                           \
        [](const auto&... a) { return distwrap::name(a...); },                 \
        [](distwrap::Batch& batch, const auto&... a) { batch.name(a...); },    \
        __VA_ARGS__);                                                          \
  }

#endif  // DISTWRAP_SRC_CAPI_OPERATION_H_
