// Test data, and memory that detects stray writes.
//
// Every rank's data repeat with a prime period. One period therefore gives the
// expected result of a reduction of any length, and shifted or swapped data are
// still noticed.
#ifndef DISTWRAP_TESTS_CONFORMANCE_DATA_H_
#define DISTWRAP_TESTS_CONFORMANCE_DATA_H_

#include "reference.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::conformance {

inline constexpr size_t kPeriod = 1021;

using Period = std::shared_ptr<const std::string>;

// One period of a rank's data. Integers, and all types where data are only
// moved (DW_REDUCE_NONE), have arbitrary bits. Floats are chosen so that every
// way of computing that rounds 16-bit results once is exact, with a NaN (min,
// max) or an infinity (others) now and then.
Period values(int dtype, uint16_t reduce, int rank);

// One period of the reduction over ranks [0, ranks).
Period reduced_values(int dtype, uint16_t reduce, int ranks);

// One period of what a backend with floats of its own rules may give for them;
// NULL for other types, and where data are only moved.
using Ranges = std::shared_ptr<const std::vector<Range>>;
Ranges ranges(int dtype, uint16_t reduce, int ranks);

// A rank's own factor for premul_sum, in the storage of the dtype.
std::string factor(int dtype, int rank);

// `count` elements of a period from element `phase` on.
void tile(const std::string& period, size_t element, size_t phase, size_t count,
          char* to);

// Bytes with guards before and behind, and the expected content of all of them.
// With `odd`, the address has only one element's alignment.
class GuardedBytes {
 public:
  GuardedBytes(size_t size, size_t element, bool odd);
  explicit GuardedBytes(size_t size) : GuardedBytes(size, 1, false) {}

  char* data() { return memory_.data() + begin_; }
  const char* data() const { return memory_.data() + begin_; }
  size_t size() const { return size_; }

  // Stores a period's elements, which must not change.
  void put(size_t offset, const std::string& period, size_t element,
           size_t phase, size_t count);
  // Sets the elements that are expected later; with `allowed`, all of those in
  // the ranges are right.
  void want(size_t offset, const std::string& period, size_t element,
            size_t phase, size_t count, const Ranges& allowed = nullptr);

  // "" or the first difference from the expected content. An expected NaN of
  // `nan_dtype` (-1: none) may be any NaN.
  std::string wrong(const std::string& name, int nan_dtype) const;

 private:
  struct Place {
    size_t begin, end, phase;
    Ranges allowed;
  };

  const size_t size_;
  size_t begin_ = 0;
  std::vector<char> memory_, want_;
  std::vector<Place> places_;
};

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_DATA_H_
