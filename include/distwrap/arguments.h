// The C++ types of operator arguments that have no header of their own.
#ifndef DISTWRAP_ARGUMENTS_H_
#define DISTWRAP_ARGUMENTS_H_

#include "distwrap/tensor.h"

#include <absl/types/span.h>

#include <cstdint>
#include <tuple>

namespace distwrap {

using Ints = absl::Span<const int64_t>;
using TensorList = absl::Span<const Tensor>;
// A list with entries that may be None: those are undefined tensors.
class OptTensorSpan : public TensorList {
 public:
  using TensorList::TensorList;
  OptTensorSpan(TensorList list)  // NOLINT(google-explicit-constructor)
      : TensorList(list) {}
};
using TwoTensors = std::tuple<Tensor, Tensor>;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;

}  // namespace distwrap

#endif  // DISTWRAP_ARGUMENTS_H_
