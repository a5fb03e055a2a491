// The exchange as a program writes it on all_to_all_single, without a plan: one
// row for each pair of token and expert, sorted by expert.
//
// Threads: one.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MOE_BY_HAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MOE_BY_HAND_H_

#include "distwrap/types.h"

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

namespace distwrap::bench {

class MoeByHand {
 public:
  // Elements of `dtype`: f32 or bf16.
  MoeByHand(int64_t ranks, int64_t experts, int64_t topk, int64_t hidden,
            DType dtype)
      : ranks_(ranks),
        experts_(experts),
        topk_(topk),
        hidden_(hidden),
        dtype_(dtype) {}

  // Sorts the pairs and tells the other ranks how many come. An id of -1 is
  // none, and an expert that a token names twice counts once.
  absl::Status lay_out(const std::vector<int64_t>& ids);
  // The tokens' rows to the experts' ranks, by source rank and expert.
  absl::Status dispatch(const std::vector<uint8_t>& x);
  // Rows back, added by token in f32.
  absl::Status combine(std::vector<uint8_t>* out);
  // The pairs of this rank's tokens.
  int64_t pairs() const { return static_cast<int64_t>(order_.size()); }

 private:
  int64_t row_bytes() const { return hidden_ * dtype_size(dtype_); }
  absl::Status move(std::vector<uint8_t>* to, std::vector<uint8_t>* from,
                    const std::vector<int64_t>& receives,
                    const std::vector<int64_t>& sends) const;

  const int64_t ranks_, experts_, topk_, hidden_;
  const DType dtype_;
  std::vector<int64_t> order_;             // pairs, sorted by expert
  std::vector<int64_t> sends_, receives_;  // elements, by rank
  int64_t got_ = 0;
  std::vector<uint8_t> packed_, received_;
  std::vector<float> sums_;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MOE_BY_HAND_H_
