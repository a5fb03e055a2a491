// The staging memory of one call. It is kept by the plan and lent to one call
// after another, so that calls allocate nothing once it is large enough.
#ifndef DISTWRAP_SRC_MOE_WORKSPACE_H_
#define DISTWRAP_SRC_MOE_WORKSPACE_H_

#include "moe/bytes.h"
#include "moe/row_exchange.h"

#include <cstdint>
#include <vector>

namespace distwrap::moe {

struct Workspace {
  int64_t bytes() const {
    return staged.size() + scratch.size() + weights.size() +
           scratch_back.size();
  }

  // Rows of a first hop by channel; rows on their way.
  Bytes staged, scratch;
  Bytes weights;
  RowExchange rows;
  std::vector<float> slot_weights, given_weights, result_weights;
  // The values that a combine returns.
  RowExchange back;
  Bytes scratch_back;
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_WORKSPACE_H_
