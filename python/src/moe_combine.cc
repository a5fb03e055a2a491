#include "moe_combine.h"

namespace nb = nanobind;

namespace distwrap_python {

using H = nb::handle;

MoeCombine::MoeCombine(const char* name, OperationCall& call,
                       const std::string& weighting, H weights, H bias,
                       const std::string& order, bool reproducible, H returns) {
  options_.struct_size = sizeof options_;
  options_.weighting =
      choice(name, "weighting", weighting, {"none", "at_expert", "at_source"});
  options_.order = choice(name, "order", order, {"tree", "top_k"});
  options_.reproducible = reproducible ? 1 : 0;
  options_.weights = call.tensor_or_none(weights, "weights", Use::kRead, false);
  for (H one : nb::borrow<nb::iterable>(bias))
    bias_.push_back(call.tensor(one, "bias", Use::kRead));
  options_.bias = bias_.data();
  options_.bias_count = bias_.size();
  for (H pair : nb::borrow<nb::iterable>(returns))
    returns_.push_back(
        {call.tensor(nb::borrow<nb::tuple>(pair)[0], "returns", Use::kRead),
         call.tensor(nb::borrow<nb::tuple>(pair)[1], "returns",
                     Use::kWritten)});
  options_.returns = returns_.data();
  options_.returns_count = returns_.size();
}

}  // namespace distwrap_python
