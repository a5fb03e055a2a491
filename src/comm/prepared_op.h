// An operation that was checked and waits to be submitted with others, with
// copies of all arrays that the ABI borrows from the caller. Its extensions are
// not copied: they live until it has ended (`CallRest::next`).
#ifndef DISTWRAP_SRC_COMM_PREPARED_OP_H_
#define DISTWRAP_SRC_COMM_PREPARED_OP_H_

#include "distwrap/abi/types.h"
#include "distwrap/reduce_op.h"

#include <cstddef>
#include <cstdint>
#include <memory>
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

// Copies the arrays of counts and displacements that `prepared->op` borrows
// from its caller. `size` is the group's.
void keep_counts(int size, PreparedOp* prepared);
// An operation with all its arrays, the addresses of lists among them.
std::unique_ptr<PreparedOp> keep_op(const dw_op& op, int size);
// A copy that shares nothing with `given` but buffers, and a factor that lies
// in the caller's memory.
std::unique_ptr<PreparedOp> copy_op(const PreparedOp& given, int size);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_PREPARED_OP_H_
