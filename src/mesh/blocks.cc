#include "mesh/blocks.h"

#include <absl/container/inlined_vector.h>

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

template <class F>
void Block::each_run(const F& f) const {
  if (count_ == 0) return;
  absl::InlinedVector<size_t, 4> at(outer_.size(), 0);
  for (;;) {
    int64_t offset = begin_;
    for (size_t d = 0; d < at.size(); ++d) offset += outer_[d][at[d]];
    f(offset);
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == outer_[d - 1].size()) at[--d] = 0;
    if (d == 0) return;
  }
}

void Block::pack(std::byte* packed, const std::byte* region,
                 size_t size) const {
  const size_t bytes = static_cast<size_t>(run_) * size;
  each_run([&](int64_t offset) {
    std::memcpy(packed, region + static_cast<size_t>(offset) * size, bytes);
    packed += bytes;
  });
}

void Block::unpack(const std::byte* packed, std::byte* region,
                   size_t size) const {
  const size_t bytes = static_cast<size_t>(run_) * size;
  each_run([&](int64_t offset) {
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
  placed_.push_back({std::move(block), tensor});
}

void Blocks::pack(std::byte* packed, const std::byte* const* regions,
                  size_t size) const {
  for (const Placed& one : placed_) {
    one.block.pack(packed, regions[one.tensor], size);
    packed += static_cast<size_t>(one.block.count()) * size;
  }
}

void Blocks::unpack(const std::byte* packed, std::byte* const* regions,
                    size_t size) const {
  for (const Placed& one : placed_) {
    one.block.unpack(packed, regions[one.tensor], size);
    packed += static_cast<size_t>(one.block.count()) * size;
  }
}

}  // namespace distwrap::mesh
