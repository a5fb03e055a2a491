// An operation that was checked and waits to be submitted with others: what the
// ABI borrows from its caller, kept.
#ifndef DISTWRAP_SRC_COMM_PREPARED_OP_H_
#define DISTWRAP_SRC_COMM_PREPARED_OP_H_

#include "distwrap/abi/types.h"
#include "distwrap/reduce_op.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::comm {

// The factor of premul_sum in its element type.
struct ScaleBytes {
  alignas(8) std::byte bytes[8] = {};
};

// A list form's addresses and sizes, by rank.
struct ListArrays {
  std::vector<void*> in_parts, out_parts;
  std::vector<int64_t> in_counts, out_counts;
};

struct PreparedOp {
  PreparedOp() = default;
  PreparedOp(const PreparedOp&) = delete;  // `op` points into it
  PreparedOp& operator=(const PreparedOp&) = delete;

  dw_op op = {};
  ScaleBytes scale;
  bool own_scale = false;  // op.scale is `scale`
  std::vector<int64_t> in_counts, in_displs, out_counts, out_displs;
  ListArrays lists;
  std::string label;
  ReduceOp reduction = ReduceOp::kSum;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_PREPARED_OP_H_
