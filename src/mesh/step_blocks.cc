#include "mesh/step_blocks.h"

#include <cstdint>

namespace distwrap::mesh {
namespace {

// The blocks of each member; false: one of them is not regular, or a member has
// several.
bool lay_out(const Blocks& blocks, size_t size, std::vector<dw_block>* made) {
  made->assign(blocks.counts().size(), {});
  return blocks.each_block([&](size_t member, const Block& block) {
    dw_block& here = (*made)[member];
    return here.run == 0 && block.regular(size, &here);
  });
}

std::vector<int64_t> in_bytes(const Blocks& blocks, size_t size) {
  std::vector<int64_t> counts = blocks.counts();
  for (int64_t& count : counts) count *= static_cast<int64_t>(size);
  return counts;
}

}  // namespace

bool StepBlocks::fit(const Blocks& blocks, size_t size) {
  std::vector<dw_block> made;
  return lay_out(blocks, size, &made);
}

StepBlocks::StepBlocks(const Blocks& send, const Blocks& receive, size_t size)
    : in_counts_(in_bytes(send, size)), out_counts_(in_bytes(receive, size)) {
  lay_out(send, size, &in_);
  lay_out(receive, size, &out_);
  extension_ = blocks_of(in_.data(), out_.data());
}

dw_ext_blocks blocks_of(const dw_block* in, const dw_block* out) {
  static constexpr char kId[] = DW_EXT_BLOCKS;
  return {
      {sizeof(dw_ext_blocks), DW_EXT_REQUIRED, {kId, sizeof kId - 1}, nullptr},
      in,
      out};
}

}  // namespace distwrap::mesh
