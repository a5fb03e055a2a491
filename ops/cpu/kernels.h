// The kernels of this library as plain functions: all that ops.def lists, of
// which views and operators that are made of others are not defined here.
// Dispatch finds kernels by their registrations; tests call them by this
// header.
//
// Threads: any; the caller orders threads that write to one tensor.
#ifndef DISTWRAP_OPS_CPU_KERNELS_H_
#define DISTWRAP_OPS_CPU_KERNELS_H_

#include "distwrap/arguments.h"
#include "distwrap/random.h"
#include "distwrap/scalar.h"
#include "distwrap/tensor.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

namespace distwrap::cpu {

template <class T>
using Result = std::conditional_t<
    std::is_void_v<T>, absl::Status,
    absl::StatusOr<std::conditional_t<std::is_void_v<T>, int, T>>>;

#define DW_OP(name, overload, schema, result, parameters, arguments) \
  Result<result> name parameters;
#include "distwrap/ops.def"

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_KERNELS_H_
