// Giving tensors their history.
#ifndef DISTWRAP_SRC_DISPATCH_AUTOGRAD_HISTORY_H_
#define DISTWRAP_SRC_DISPATCH_AUTOGRAD_HISTORY_H_

#include "distwrap/autograd.h"

namespace distwrap::autograd {

// Output `output` of `node` is the tensor's history from now on. `written` says
// that the tensor was there before: the history of a view's base changes, then.
void set_history(const Tensor& tensor, NodePtr node, uint32_t output,
                 bool written);

}  // namespace distwrap::autograd

#endif  // DISTWRAP_SRC_DISPATCH_AUTOGRAD_HISTORY_H_
