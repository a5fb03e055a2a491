#include "mesh/blocks.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace distwrap::mesh {
namespace {

struct Run {
  int64_t begin, length;
};

// Where the indices of `part` lie in the list of the indices of `whole`, which
// has them all.
std::vector<Run> runs_in(const layout::IndexSet& whole,
                         const layout::IndexSet& part) {
  std::vector<Run> runs;
  int64_t at = 0;
  auto one = whole.intervals().begin();
  for (const layout::Interval& wanted : part.intervals()) {
    while (one->end <= wanted.begin) at += (one++)->size();
    // An interval of the part may lie in one of the whole only.
    runs.push_back({at + wanted.begin - one->begin, wanted.size()});
  }
  return runs;
}

}  // namespace

Block Block::common(const layout::Regions& held, int64_t a,
                    const layout::Regions& wanted, int64_t b) {
  Block block;
  std::vector<std::vector<Run>> runs;
  block.count_ = 1;
  for (int d = 0; d < held.dims(); ++d) {
    const layout::IndexSet part =
        layout::intersection(held.set(a, d), wanted.set(b, d));
    block.count_ *= part.count();
    if (block.count_ == 0) return block;
    runs.push_back(runs_in(held.set(a, d), part));
  }
  // From the innermost dimension on, runs grow as long as dimensions are whole.
  int64_t stride = 1;
  block.run_ = 1;
  bool grows = true;
  for (int d = held.dims(); d-- > 0;) {
    const std::vector<Run>& here = runs[static_cast<size_t>(d)];
    const int64_t extent = held.set(a, d).count();
    // Indices that one run takes: all of a run where runs still grow and are of
    // one length, else one.
    bool equal = grows;
    for (const Run& run : here) equal &= run.length == here[0].length;
    const int64_t step = equal ? here[0].length : 1;
    std::vector<int64_t> begins;
    for (const Run& run : here)
      for (int64_t i = 0; i < run.length; i += step)
        begins.push_back((run.begin + i) * stride);
    if (grows) block.run_ = step * stride;
    grows = grows && step == extent;
    if (begins.size() == 1)
      block.begin_ += begins[0];
    else
      block.outer_.insert(block.outer_.begin(), std::move(begins));
    stride *= extent;
  }
  return block;
}

bool Block::regular(size_t size, dw_block* block) const {
  constexpr size_t kDims = 3;
  if (outer_.size() > kDims) return false;
  *block = {static_cast<uint64_t>(begin_) * size,
            static_cast<uint64_t>(run_) * size,
            {1, 1, 1},
            {0, 0, 0}};
  for (size_t d = 0; d < outer_.size(); ++d) {
    const std::vector<int64_t>& begins = outer_[d];
    const int64_t stride = begins[1] - begins[0];
    for (size_t i = 1; i < begins.size(); ++i)
      if (begins[i] - begins[i - 1] != stride) return false;
    const size_t at = kDims - outer_.size() + d;
    block->begin += static_cast<uint64_t>(begins[0]) * size;
    block->extents[at] = begins.size();
    block->strides[at] = static_cast<uint64_t>(stride) * size;
  }
  return true;
}

template <class F>
void Block::each_run(int64_t begin, int64_t end, const F& f) const {
  if (begin >= end) return;
  // The run with the first element, as a number along each outer dimension.
  absl::InlinedVector<size_t, 4> at(outer_.size(), 0);
  auto rest = static_cast<size_t>(begin / run_);
  for (size_t d = at.size(); rest != 0 && d-- > 0; rest /= outer_[d].size())
    at[d] = rest % outer_[d].size();
  int64_t skipped = begin % run_, left = end - begin;
  for (;;) {
    int64_t offset = begin_ + skipped;
    for (size_t d = 0; d < at.size(); ++d) offset += outer_[d][at[d]];
    const int64_t count = std::min(run_ - skipped, left);
    f(offset, count);
    left -= count;
    if (left == 0) return;
    skipped = 0;
    for (size_t d = at.size(); ++at[d - 1] == outer_[d - 1].size();)
      at[--d] = 0;
  }
}

void Block::pack(std::byte* packed, const std::byte* region, size_t size,
                 int64_t begin, int64_t end) const {
  each_run(begin, end, [&](int64_t offset, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * size;
    std::memcpy(packed, region + static_cast<size_t>(offset) * size, bytes);
    packed += bytes;
  });
}

void Block::unpack(const std::byte* packed, std::byte* region, size_t size,
                   int64_t begin, int64_t end) const {
  each_run(begin, end, [&](int64_t offset, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * size;
    std::memcpy(region + static_cast<size_t>(offset) * size, packed, bytes);
    packed += bytes;
  });
}

void Blocks::add(Block block, size_t tensor) {
  const bool follows =
      tensor == 0 && block.is_one_run() && block.begin() == total_;
  is_packed_ = is_packed_ && (block.count() == 0 || follows);
  counts_.back() += block.count();
  total_ += block.count();
  placed_.push_back({std::move(block), tensor, counts_.size() - 1});
}

std::vector<int64_t> Blocks::counts(Share share) const {
  std::vector<int64_t> counts = counts_;
  for (int64_t& count : counts) count = share.end(count) - share.begin(count);
  return counts;
}

int64_t Blocks::total(Share share) const {
  if (share.parts == 1) return total_;
  int64_t total = 0;
  for (const int64_t count : counts_)
    total += share.end(count) - share.begin(count);
  return total;
}

std::vector<int64_t> Blocks::counts(absl::Span<const Share> shares) const {
  std::vector<int64_t> counts = counts_;
  for (size_t i = 0; i < counts.size(); ++i)
    counts[i] = shares[i].end(counts[i]) - shares[i].begin(counts[i]);
  return counts;
}

template <class S, class F>
void Blocks::each_part(const S& share_of, const F& f) const {
  size_t member = 0;
  int64_t before = 0;  // elements of the member's blocks before this one
  for (const Placed& one : placed_) {
    if (one.member != member) before = 0;
    member = one.member;
    const Share share = share_of(member);
    const int64_t count = counts_[member];
    const int64_t begin = std::max(share.begin(count) - before, int64_t{0});
    const int64_t end = std::min(share.end(count) - before, one.block.count());
    if (begin < end) f(one, begin, end);
    before += one.block.count();
  }
}

void Blocks::pack(std::byte* packed, const std::byte* const* regions,
                  size_t size, Share share) const {
  each_part([&](size_t) { return share; },
            [&](const Placed& one, int64_t begin, int64_t end) {
              one.block.pack(packed, regions[one.tensor], size, begin, end);
              packed += static_cast<size_t>(end - begin) * size;
            });
}

void Blocks::pack(std::byte* packed, const std::byte* const* regions,
                  size_t size, absl::Span<const Share> shares) const {
  each_part([&](size_t member) { return shares[member]; },
            [&](const Placed& one, int64_t begin, int64_t end) {
              one.block.pack(packed, regions[one.tensor], size, begin, end);
              packed += static_cast<size_t>(end - begin) * size;
            });
}

void Blocks::unpack(const std::byte* packed, std::byte* const* regions,
                    size_t size, Share share) const {
  each_part([&](size_t) { return share; },
            [&](const Placed& one, int64_t begin, int64_t end) {
              one.block.unpack(packed, regions[one.tensor], size, begin, end);
              packed += static_cast<size_t>(end - begin) * size;
            });
}

}  // namespace distwrap::mesh
