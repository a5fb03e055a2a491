// The exchange as a program writes it on all_to_all_single, without a plan: one
// row for each pair of token and expert, sorted by expert.
//
// Threads: one.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MOE_BY_HAND_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MOE_BY_HAND_H_

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

namespace distwrap::bench {

class MoeByHand {
 public:
  MoeByHand(int64_t ranks, int64_t experts, int64_t topk, int64_t hidden)
      : ranks_(ranks), experts_(experts), topk_(topk), hidden_(hidden) {}

  // Sorts the pairs and tells the other ranks how many come.
  absl::Status lay_out(const std::vector<int64_t>& ids);
  // Rows to the experts' ranks, by source rank and expert.
  absl::Status dispatch(const std::vector<float>& x);
  // Rows back, added by token.
  absl::Status combine(std::vector<float>* out);
  int64_t rows() const { return got_; }

 private:
  const int64_t ranks_, experts_, topk_, hidden_;
  std::vector<int64_t> order_;             // pairs, sorted by expert
  std::vector<int64_t> sends_, receives_;  // elements, by rank
  int64_t got_ = 0;
  std::vector<float> packed_, received_;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MOE_BY_HAND_H_
