// The staging memory of one call. It is kept by the plan and lent to one call
// after another, so that calls allocate nothing once it is large enough.
#ifndef DISTWRAP_SRC_MOE_WORKSPACE_H_
#define DISTWRAP_SRC_MOE_WORKSPACE_H_

#include "moe/bytes.h"
#include "moe/row_exchange.h"
#include "moe/row_sum.h"

#include <cstdint>
#include <vector>

namespace distwrap::moe {

struct Workspace {
  int64_t bytes() const {
    return send.size() + staged.size() + scratch.size() + send_on.size() +
           weights.size() + returns_out.size() + returns_in.size();
  }

  Bytes send, staged, scratch, send_on, weights, returns_out, returns_in;
  RowExchange rows;
  PartSizes sizes[6];
  std::vector<float> slot_weights, term_weights;
  RowSum sum;
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_WORKSPACE_H_
