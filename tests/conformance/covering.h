// A small number of rows in which every pair of values of two dimensions
// occurs.
//
//   // 2 x 3 x 4, where dimension 1 may be 2 only when dimension 0 is 0
//   covering_rows({{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}}, {4}, 1)
#ifndef DISTWRAP_TESTS_CONFORMANCE_COVERING_H_
#define DISTWRAP_TESTS_CONFORMANCE_COVERING_H_

#include <cstdint>
#include <vector>

namespace distwrap::conformance {

using Row = std::vector<int>;

// `bound` lists the allowed combinations of the dependent dimensions. `free`
// has the number of values of each independent dimension, whose columns follow.
// Pairs that no combination allows are left out. Equal seeds give equal rows.
std::vector<Row> covering_rows(const std::vector<Row>& bound,
                               const std::vector<int>& free, uint64_t seed);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_COVERING_H_
