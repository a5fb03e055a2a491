// Runs the programs of sums.h over rows of numbers.
//
// Sums are f32 for f16, bf16 and f32, f64 for f64, and wrap for integers; they
// are rounded once, into the result. A product with a weight is rounded before
// it is added.
// Threads: any; one object is used by one thread at a time. Ownership: keeps
// scratch memory.
#ifndef DISTWRAP_SRC_MOE_ROW_SUM_H_
#define DISTWRAP_SRC_MOE_ROW_SUM_H_

#include "distwrap/types.h"
#include "moe/sums.h"

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap::moe {

// Rows of numbers: row i begins at data + i * stride bytes.
struct NumberRows {
  const uint8_t* data = nullptr;
  int64_t stride = 0;
  DType dtype = DType::kF32;
};

struct SumRows {
  NumberRows own, staged;  // rows that ~m and m refer to
  int64_t width = 0;       // numbers of a row
  uint8_t* out = nullptr;  // result row i begins at out + i * out_stride
  int64_t out_stride = 0;
  DType out_dtype = DType::kF32;
  // Added first, rows like the result's.
  absl::Span<const NumberRows> biases = {};
  // By term of the program; empty: no weights.
  absl::Span<const float> weights = {};
};

// Whether sums of `in` may be written as `out`.
bool sums_from(DType in);
bool sums_into(DType in, DType out);

class RowSum {
 public:
  // Result rows first to last - 1.
  void run(const Program& program, const SumRows& rows, int64_t first,
           int64_t last);

 private:
  std::vector<uint8_t> scratch_;
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_ROW_SUM_H_
