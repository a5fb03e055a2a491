// The blocks of a step as strided pieces for backends that move them from where
// they lie to where they belong (distwrap/abi/blocks.h).
//
// Threads: constant. Ownership: a value; the descriptor points into it.
#ifndef DISTWRAP_SRC_MESH_STEP_BLOCKS_H_
#define DISTWRAP_SRC_MESH_STEP_BLOCKS_H_

#include "distwrap/abi/blocks.h"
#include "mesh/blocks.h"

#include <cstddef>
#include <vector>

namespace distwrap::mesh {

// The extension with these lists.
dw_ext_blocks blocks_of(const dw_block* in, const dw_block* out);

class StepBlocks {
 public:
  // Whether a rank's blocks can be described: each lies at regular distances,
  // and none of the members has several. `size`: bytes of an element.
  static bool fit(const Blocks& blocks, size_t size);
  // Blocks that fit.
  StepBlocks(const Blocks& send, const Blocks& receive, size_t size);
  StepBlocks(const StepBlocks&) = delete;
  StepBlocks& operator=(const StepBlocks&) = delete;

  // By rank, in bytes; the input of a gather is one block for all.
  const std::vector<int64_t>& in_counts() const { return in_counts_; }
  const std::vector<int64_t>& out_counts() const { return out_counts_; }
  const dw_ext* extension() const { return &extension_.head; }

 private:
  std::vector<dw_block> in_, out_;
  std::vector<int64_t> in_counts_, out_counts_;
  dw_ext_blocks extension_ = {};
};

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_STEP_BLOCKS_H_
