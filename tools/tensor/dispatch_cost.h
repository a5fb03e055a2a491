// The cost of calling an operator.
#ifndef DISTWRAP_TOOLS_TENSOR_DISPATCH_COST_H_
#define DISTWRAP_TOOLS_TENSOR_DISPATCH_COST_H_

#include "tensor/operator_pages.h"

#include <string>

namespace distwrap::tools {

// Measures, and gives a table with the goal of each row. `python`, if there is
// one and it has PyTorch, adds what the same costs there.
std::string dispatch_cost(Form form, const std::string& python);

}  // namespace distwrap::tools

#endif  // DISTWRAP_TOOLS_TENSOR_DISPATCH_COST_H_
