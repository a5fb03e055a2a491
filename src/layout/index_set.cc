#include "layout/index_set.h"

#include <algorithm>

namespace distwrap::layout {
namespace {

int64_t chunk(int64_t length, int64_t n) {
  return length / n + (length % n != 0 ? 1 : 0);
}

// Calls `f` with each interval that both sets have.
template <class F>
void each_common(const IndexSet& a, const IndexSet& b, const F& f) {
  auto x = a.intervals().begin();
  auto y = b.intervals().begin();
  while (x != a.intervals().end() && y != b.intervals().end()) {
    const Interval both{std::max(x->begin, y->begin), std::min(x->end, y->end)};
    if (both.begin < both.end) f(both);
    if (x->end < y->end)
      ++x;
    else
      ++y;
  }
}

}  // namespace

IndexSet IndexSet::all(int64_t size) {
  IndexSet set;
  set.append({0, size});
  return set;
}

void IndexSet::append(Interval interval) {
  if (interval.size() <= 0) return;
  count_ += interval.size();
  if (!intervals_.empty() && intervals_.back().end == interval.begin)
    intervals_.back().end = interval.end;
  else
    intervals_.push_back(interval);
}

void IndexSet::append_positions(const IndexSet& from, int64_t begin,
                                int64_t end) {
  int64_t at = 0;  // the position of the interval's first index
  for (const Interval& one : from.intervals_) {
    if (at >= end) return;
    const int64_t first = std::max(begin - at, int64_t{0});
    const int64_t last = std::min(end - at, one.size());
    append({one.begin + first, one.begin + last});
    at += one.size();
  }
}

IndexSet IndexSet::cut(int64_t parts, int64_t n, int64_t i) const {
  IndexSet kept;
  const int64_t part = chunk(count_, parts);
  if (part == 0) return kept;
  // Parts beyond the last index are empty.
  for (int64_t begin = 0; begin < count_; begin += part) {
    const int64_t length = std::min(part, count_ - begin);
    const int64_t piece = chunk(length, n);
    // No product overflows: a chunk that begins beyond the part is empty.
    if (piece != 0 && i > length / piece) continue;
    const int64_t first = std::min(length, piece * i);
    kept.append_positions(*this, begin + first,
                          begin + std::min(length, first + piece));
  }
  return kept;
}

IndexSet intersection(const IndexSet& a, const IndexSet& b) {
  IndexSet both;
  each_common(a, b, [&](Interval one) { both.append(one); });
  return both;
}

int64_t common(const IndexSet& a, const IndexSet& b) {
  int64_t count = 0;
  each_common(a, b, [&](Interval one) { count += one.size(); });
  return count;
}

}  // namespace distwrap::layout
