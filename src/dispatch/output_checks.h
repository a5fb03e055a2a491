// Checks that the shape rules share (distwrap/outputs.h).
#ifndef DISTWRAP_SRC_DISPATCH_OUTPUT_CHECKS_H_
#define DISTWRAP_SRC_DISPATCH_OUTPUT_CHECKS_H_

#include "distwrap/tensor.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

namespace distwrap::dispatch {

// Whether sizes are equal.
inline bool same_sizes(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes();
}

// kArgument for an undefined tensor.
absl::Status check_defined(absl::string_view op, absl::string_view name,
                           const Tensor& tensor);
// The tensors are defined, of one element type and on one device; `name` is
// that of `other`.
absl::Status check_alike(absl::string_view op, const Tensor& self,
                         absl::string_view name, const Tensor& other);
absl::Status check_device(absl::string_view op, const Tensor& self,
                          absl::string_view name, const Tensor& other);
// i64 or i32, on the device of `self`.
absl::Status check_index(absl::string_view op, const Tensor& self,
                         absl::string_view name, const Tensor& index);
absl::Status check_dims(absl::string_view op, absl::string_view name,
                        const Tensor& tensor, int dims);
// The sizes of `name` are these.
absl::Status check_sizes(absl::string_view op, absl::string_view name,
                         const Tensor& tensor, absl::Span<const int64_t> sizes);
// An error of an element type: what was found and what is allowed.
absl::Status bad_type(absl::string_view op, absl::string_view name,
                      const Tensor& tensor, std::string allowed);

}  // namespace distwrap::dispatch

// Returns the status of a check that fails.
#define DW_CHECK_OK(check)                                        \
  if (absl::Status checked = (check); !checked.ok()) [[unlikely]] \
  return checked

#endif  // DISTWRAP_SRC_DISPATCH_OUTPUT_CHECKS_H_
