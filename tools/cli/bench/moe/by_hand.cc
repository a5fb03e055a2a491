#include "bench/moe/by_hand.h"

#include "bench/element.h"
#include "distwrap/distwrap.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace distwrap::bench {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

template <class T>
void add(float* to, const T* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += static_cast<float>(from[i]);
}

}  // namespace

absl::Status MoeByHand::lay_out(const std::vector<int64_t>& ids) {
  const auto counts = [&](size_t i) {
    const auto slot = ids.begin() + static_cast<ptrdiff_t>(i);
    const auto first = slot - static_cast<ptrdiff_t>(i) % topk_;
    return ids[i] >= 0 && std::find(first, slot, ids[i]) == slot;
  };
  // A counting sort.
  std::vector<int64_t> begin(at(experts_) + 1);
  for (size_t i = 0; i < ids.size(); ++i)
    if (counts(i)) ++begin[at(ids[i]) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  sends_.assign(at(ranks_), 0);
  const int64_t each = experts_ / ranks_;
  for (int64_t rank = 0; rank < ranks_; ++rank)
    sends_[at(rank)] =
        (begin[at((rank + 1) * each)] - begin[at(rank * each)]) * hidden_;
  order_.resize(at(begin.back()));
  for (size_t i = 0; i < ids.size(); ++i)
    if (counts(i)) order_[at(begin[at(ids[i])]++)] = static_cast<int64_t>(i);
  receives_.resize(at(ranks_));
  absl::Status status =
      all_to_all_single(TensorView(receives_), TensorView(sends_)).status();
  got_ =
      std::accumulate(receives_.begin(), receives_.end(), int64_t{0}) / hidden_;
  packed_.resize(at(pairs() * row_bytes()));
  received_.resize(at(got_ * row_bytes()));
  return status;
}

absl::Status MoeByHand::move(std::vector<uint8_t>* to,
                             std::vector<uint8_t>* from,
                             const std::vector<int64_t>& receives,
                             const std::vector<int64_t>& sends) const {
  const auto view = [&](std::vector<uint8_t>& bytes) {
    return TensorView(bytes.data(),
                      static_cast<int64_t>(bytes.size()) / dtype_size(dtype_),
                      dtype_);
  };
  return all_to_all_single(view(*to), view(*from), receives, sends).status();
}

absl::Status MoeByHand::dispatch(const std::vector<uint8_t>& x) {
  uint8_t* to = packed_.data();
  for (const int64_t pair : order_) {
    memcpy(to, x.data() + pair / topk_ * row_bytes(), at(row_bytes()));
    to += row_bytes();
  }
  return move(&received_, &packed_, receives_, sends_);
}

absl::Status MoeByHand::combine(std::vector<uint8_t>* out) {
  absl::Status status = move(&packed_, &received_, sends_, receives_);
  const bool wide = dtype_ == DType::kF32;
  if (!wide) sums_.resize(out->size() / sizeof(uint16_t));
  auto* const sums =
      wide ? reinterpret_cast<float*>(out->data()) : sums_.data();
  const size_t elements = out->size() / at(dtype_size(dtype_));
  std::fill(sums, sums + elements, 0.0f);
  const uint8_t* from = packed_.data();
  for (const int64_t pair : order_) {
    float* const to = sums + pair / topk_ * hidden_;
    if (wide)
      add(to, reinterpret_cast<const float*>(from), hidden_);
    else
      add(to, reinterpret_cast<const BF16*>(from), hidden_);
    from += row_bytes();
  }
  if (!wide) {
    auto* const rounded = reinterpret_cast<BF16*>(out->data());
    for (size_t i = 0; i < elements; ++i) rounded[i] = BF16(sums[i]);
  }
  return status;
}

}  // namespace distwrap::bench
