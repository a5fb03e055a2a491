#include "bench/report.h"

#include <algorithm>

namespace distwrap::bench {

int64_t Report::wrong() const {
  int64_t total = 0;
  for (const Row& row : rows) total += row.wrong;
  return total;
}

std::vector<Row> Report::of(Operation op) const {
  std::vector<Row> some;
  for (const Row& row : rows) {
    if (row.spec.op == op) some.push_back(row);
  }
  return some;
}

std::vector<Operation> Report::ops() const {
  std::vector<Operation> some;
  for (const Row& row : rows) {
    if (std::find(some.begin(), some.end(), row.spec.op) == some.end()) {
      some.push_back(row.spec.op);
    }
  }
  return some;
}

}  // namespace distwrap::bench
