// An operation with copies of the arrays that a caller lends for one call.
//
// Threads: none shared. Ownership: buffers, factor and window stay borrowed.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_KEPT_OP_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_KEPT_OP_H_

#include "distwrap/abi/types.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace distwrap::algo::compose {

class KeptOp {
 public:
  // `size`: ranks of the group. Extensions are not kept; those that are not
  // required may be skipped.
  KeptOp(const dw_op& op, int size);
  KeptOp(const KeptOp&) = delete;  // the operation points into it
  KeptOp& operator=(const KeptOp&) = delete;

  const dw_op& get() const { return op_; }

 protected:
  dw_op op_;

 private:
  void keep(dw_buf* buf, size_t size);

  std::vector<std::unique_ptr<int64_t[]>> numbers_;
  std::vector<std::unique_ptr<void*[]>> addresses_;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_KEPT_OP_H_
