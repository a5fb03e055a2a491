#include "dispatch/output_checks.h"

#include "dispatch/fail.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::dispatch {

absl::Status check_defined(absl::string_view op, absl::string_view name,
                           const Tensor& tensor) {
  if (tensor.defined()) [[likely]]
    return absl::OkStatus();
  return bad_argument(op, absl::StrCat("argument '", name, "' is undefined"),
                      "a tensor", "a default Tensor");
}

absl::Status bad_type(absl::string_view op, absl::string_view name,
                      const Tensor& tensor, std::string allowed) {
  return make_error(
      {.reason = Reason::kDtypeUnsupported,
       .what = absl::StrCat("argument '", name, "' has element type ",
                            dtype_name(tensor.dtype())),
       .op = std::string(op),
       .expected = std::move(allowed),
       .actual = tensor.text(),
       .next_step = "convert the tensor with dw::to"});
}

absl::Status check_device(absl::string_view op, const Tensor& self,
                          absl::string_view name, const Tensor& other) {
  if (self.device() == other.device()) [[likely]]
    return absl::OkStatus();
  return bad_argument(
      op, absl::StrCat("argument '", name, "' is on another device"),
      device_text(self.device()), device_text(other.device()));
}

absl::Status check_alike(absl::string_view op, const Tensor& self,
                         absl::string_view name, const Tensor& other) {
  DW_CHECK_OK(check_defined(op, "self", self));
  DW_CHECK_OK(check_defined(op, name, other));
  if (self.dtype() != other.dtype()) {
    return bad_type(op, name, other,
                    absl::StrCat(dtype_name(self.dtype()),
                                 ", the type of the first tensor: element "
                                 "types are never converted silently"));
  }
  return check_device(op, self, name, other);
}

absl::Status check_index(absl::string_view op, const Tensor& self,
                         absl::string_view name, const Tensor& index) {
  DW_CHECK_OK(check_defined(op, "self", self));
  DW_CHECK_OK(check_defined(op, name, index));
  if (index.dtype() != DType::kI64 && index.dtype() != DType::kI32) {
    return bad_type(op, name, index, "i64 or i32");
  }
  return check_device(op, self, name, index);
}

absl::Status check_dims(absl::string_view op, absl::string_view name,
                        const Tensor& tensor, int dims) {
  if (tensor.dims() == dims) return absl::OkStatus();
  return bad_argument(
      op,
      absl::StrCat("argument '", name, "' has ", tensor.dims(), " dimensions"),
      absl::StrCat(dims, " dimensions"), tensor.text());
}

absl::Status check_sizes(absl::string_view op, absl::string_view name,
                         const Tensor& tensor,
                         absl::Span<const int64_t> sizes) {
  if (tensor.sizes() == sizes) return absl::OkStatus();
  return bad_argument(op, absl::StrCat("argument '", name, "' has wrong sizes"),
                      dims_text(sizes), dims_text(tensor.sizes()));
}

}  // namespace distwrap::dispatch
