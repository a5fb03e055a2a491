// Indices as numbers, checked before anything is written.
#ifndef DISTWRAP_OPS_CPU_INDEX_H_
#define DISTWRAP_OPS_CPU_INDEX_H_

#include "distwrap/tensor.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace distwrap::cpu {

// The elements of an i64 or i32 tensor in row-major order. kArgument, with
// value and position, for one that is not from 0 to extent - 1, except
// `allowed`.
absl::StatusOr<std::vector<int64_t>> indices_of(
    absl::string_view op, absl::string_view name, const Tensor& tensor,
    int64_t extent, std::optional<int64_t> allowed = {});

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_INDEX_H_
