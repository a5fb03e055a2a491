#include "cpu/index.h"

#include "cpu/strided_copy.h"
#include "distwrap/status.h"

#include <absl/strings/str_cat.h>

#include <string>
#include <utility>

namespace distwrap::cpu {

absl::StatusOr<std::vector<int64_t>> indices_of(
    absl::string_view op, absl::string_view name, const Tensor& tensor,
    int64_t extent, std::optional<int64_t> allowed) {
  absl::StatusOr<Tensor> wide = Tensor::empty(tensor.sizes(), DType::kI64);
  if (!wide.ok()) return std::move(wide).status();
  copy_converted(*wide, tensor);
  const auto* const first = wide->data<int64_t>();
  std::vector<int64_t> indices(first, first + wide->count());
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t index = indices[i];
    if (index >= 0 && index < extent) continue;
    if (allowed.has_value() && index == *allowed) continue;
    std::string place;
    auto rest = static_cast<int64_t>(i);
    for (int d = tensor.dims(); d-- > 0;) {
      place =
          absl::StrCat(rest % tensor.size(d), place.empty() ? "" : ", ", place);
      rest /= tensor.size(d);
    }
    return make_error(
        {.reason = Reason::kArgument,
         .what = absl::StrCat("argument '", name, "' has the value ", index,
                              " at position [", place, "]"),
         .op = std::string(op),
         .expected = extent == 0 ? std::string("no index: the extent is 0")
                                 : absl::StrCat("0 to ", extent - 1),
         .actual = absl::StrCat(index),
         .next_step = "check the indices before the call"});
  }
  return indices;
}

}  // namespace distwrap::cpu
