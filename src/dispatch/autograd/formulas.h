// Declarations that all files with formulas share.
#ifndef DISTWRAP_SRC_DISPATCH_AUTOGRAD_FORMULAS_H_
#define DISTWRAP_SRC_DISPATCH_AUTOGRAD_FORMULAS_H_

#include "distwrap/autograd.h"
#include "distwrap/function.h"
#include "distwrap/registration.h"
#include "distwrap/throwing.h"

#include <string>

namespace distwrap::autograd {

using GradSpan = absl::Span<const Tensor>;

// Registers the formula of an operator of ops.def: its name, an underscore and
// its overload.
#define DW_FORMULA(type, operation)          \
  lib.impl(type::kName, dispatch::kAutograd, \
           formula<type, decltype(ops::signatures::operation::function)>())

// The sum of a gradient over the dimensions that a tensor of these sizes was
// repeated along.
Tensor sum_to(const Tensor& grad, Ints sizes);

}  // namespace distwrap::autograd

#endif  // DISTWRAP_SRC_DISPATCH_AUTOGRAD_FORMULAS_H_
