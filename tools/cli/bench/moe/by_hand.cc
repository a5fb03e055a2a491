#include "bench/moe/by_hand.h"

#include "distwrap/distwrap.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace distwrap::bench {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

absl::Status MoeByHand::lay_out(const std::vector<int64_t>& ids) {
  // A counting sort.
  std::vector<int64_t> begin(at(experts_) + 1);
  for (const int64_t id : ids) ++begin[at(id) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  sends_.assign(at(ranks_), 0);
  const int64_t each = experts_ / ranks_;
  for (int64_t rank = 0; rank < ranks_; ++rank)
    sends_[at(rank)] =
        (begin[at((rank + 1) * each)] - begin[at(rank * each)]) * hidden_;
  order_.resize(ids.size());
  for (size_t i = 0; i < ids.size(); ++i)
    order_[at(begin[at(ids[i])]++)] = static_cast<int64_t>(i);
  receives_.resize(at(ranks_));
  absl::Status status =
      all_to_all_single(TensorView(receives_), TensorView(sends_)).status();
  got_ =
      std::accumulate(receives_.begin(), receives_.end(), int64_t{0}) / hidden_;
  packed_.resize(at(static_cast<int64_t>(ids.size()) * hidden_));
  received_.resize(at(got_ * hidden_));
  return status;
}

absl::Status MoeByHand::dispatch(const std::vector<float>& x) {
  float* to = packed_.data();
  for (const int64_t pair : order_) {
    memcpy(to, x.data() + pair / topk_ * hidden_, at(hidden_) * sizeof(float));
    to += hidden_;
  }
  return all_to_all_single(TensorView(received_), TensorView(packed_),
                           receives_, sends_)
      .status();
}

absl::Status MoeByHand::combine(std::vector<float>* out) {
  absl::Status status =
      all_to_all_single(TensorView(packed_), TensorView(received_), sends_,
                        receives_)
          .status();
  std::fill(out->begin(), out->end(), 0.0f);
  const float* from = packed_.data();
  for (const int64_t pair : order_) {
    float* const to = out->data() + pair / topk_ * hidden_;
    for (int64_t h = 0; h < hidden_; ++h) to[h] += from[h];
    from += hidden_;
  }
  return status;
}

}  // namespace distwrap::bench
