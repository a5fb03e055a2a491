#include "covering.h"

#include <algorithm>
#include <random>

namespace distwrap::conformance {
namespace {

// The rows that are tried for each chosen one; more tries give fewer rows.
constexpr int kTries = 40;

class Pairs {
 public:
  Pairs(const std::vector<Row>& bound, const std::vector<int>& free)
      : bound_(bound), columns_(bound[0].size() + free.size()) {
    Row values(bound[0].size(), 0);
    for (const Row& row : bound)
      for (size_t c = 0; c < row.size(); ++c)
        values[c] = std::max(values[c], row[c] + 1);
    values.insert(values.end(), free.begin(), free.end());
    width_ = *std::max_element(values.begin(), values.end());
    open_.resize(columns_ * columns_ * slot(width_, 0), false);
    const auto size = [&values](size_t c) { return values[c]; };
    for (size_t a = 0; a < columns_; ++a)
      for (size_t b = a + 1; b < columns_; ++b) {
        if (b < bound[0].size()) {
          for (const Row& row : bound) want(a, row[a], b, row[b]);
        } else if (a < bound[0].size()) {
          for (const Row& row : bound)
            for (int v = 0; v < size(b); ++v) want(a, row[a], b, v);
        } else {
          for (int u = 0; u < size(a); ++u)
            for (int v = 0; v < size(b); ++v) want(a, u, b, v);
        }
      }
  }

  size_t left() const { return left_; }

  size_t new_in(const Row& row) const {
    size_t n = 0;
    for (size_t a = 0; a < columns_; ++a)
      for (size_t b = a + 1; b < columns_; ++b)
        if (open_[at(a, row[a], b, row[b])]) ++n;
    return n;
  }

  void take(const Row& row) {
    for (size_t a = 0; a < columns_; ++a)
      for (size_t b = a + 1; b < columns_; ++b) {
        const size_t i = at(a, row[a], b, row[b]);
        if (open_[i]) --left_;
        open_[i] = false;
      }
  }

  // An uncovered pair, and the combinations that allow it.
  struct Pair {
    size_t a, b;
    int u, v;
    std::vector<const Row*> fitting;
  };
  Pair next() {
    while (!open_[next_]) next_ = (next_ + 1) % open_.size();
    const size_t width = static_cast<size_t>(width_);
    Pair pair = {next_ / width / width / columns_,
                 next_ / width / width % columns_,
                 static_cast<int>(next_ / width % width),
                 static_cast<int>(next_ % width),
                 {}};
    const size_t fixed = bound_[0].size();
    for (const Row& row : bound_)
      if ((pair.a >= fixed || row[pair.a] == pair.u) &&
          (pair.b >= fixed || row[pair.b] == pair.v))
        pair.fitting.push_back(&row);
    return pair;
  }

 private:
  size_t slot(int u, int v) const {
    return static_cast<size_t>(u) * static_cast<size_t>(width_) +
           static_cast<size_t>(v);
  }
  size_t at(size_t a, int u, size_t b, int v) const {
    return (a * columns_ + b) * slot(width_, 0) + slot(u, v);
  }
  void want(size_t a, int u, size_t b, int v) {
    const size_t i = at(a, u, b, v);
    if (!open_[i]) ++left_;
    open_[i] = true;
  }

  const std::vector<Row>& bound_;
  const size_t columns_;
  int width_ = 0;
  std::vector<bool> open_;
  size_t left_ = 0, next_ = 0;
};

}  // namespace

std::vector<Row> covering_rows(const std::vector<Row>& bound,
                               const std::vector<int>& free, uint64_t seed) {
  std::vector<Row> rows;
  if (bound.empty()) return rows;
  std::mt19937_64 random(seed);
  Pairs pairs(bound, free);
  const size_t fixed = bound[0].size();
  const auto below = [&random](size_t n) {
    return static_cast<size_t>(random() % n);
  };
  while (pairs.left() > 0) {
    const Pairs::Pair pair = pairs.next();
    Row best;
    size_t most = 0;
    for (int i = 0; i < kTries; ++i) {
      Row row = *pair.fitting[below(pair.fitting.size())];
      for (const int values : free)
        row.push_back(static_cast<int>(below(static_cast<size_t>(values))));
      if (pair.a >= fixed) row[pair.a] = pair.u;
      if (pair.b >= fixed) row[pair.b] = pair.v;
      const size_t n = pairs.new_in(row);
      if (n > most) {
        most = n;
        best = row;
      }
    }
    pairs.take(best);
    rows.push_back(best);
  }
  return rows;
}

}  // namespace distwrap::conformance
