// Errors of operators: which operator, which argument, what was found, what is
// allowed, what to do next.
#ifndef DISTWRAP_SRC_DISPATCH_FAIL_H_
#define DISTWRAP_SRC_DISPATCH_FAIL_H_

#include "distwrap/status.h"
#include "distwrap/types.h"

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <string>

namespace distwrap::dispatch {

// "cpu", "cuda:1".
std::string device_text(Device device);

// Whether the type has gradients: f16, bf16, f32, f64.
constexpr bool is_float(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF32 || dtype == DType::kF64;
}

// "[2, 3]".
std::string dims_text(absl::Span<const int64_t> dims);

// kArgument of an operator: what is wrong, and what would be right.
absl::Status bad_argument(absl::string_view op, std::string what,
                          std::string expected = "", std::string actual = "");

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_SRC_DISPATCH_FAIL_H_
