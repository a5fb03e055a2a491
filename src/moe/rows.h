// Views as rows of bytes, and the checks of a call's views.
#ifndef DISTWRAP_SRC_MOE_ROWS_H_
#define DISTWRAP_SRC_MOE_ROWS_H_

#include "distwrap/status.h"
#include "distwrap/tensor_view.h"

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace distwrap::moe {

// Row i begins at data + i * bytes.
struct ByteRows {
  uint8_t* data = nullptr;
  int64_t rows = 0;
  int64_t bytes = 0;  // bytes of a row

  uint8_t* at(int64_t row) const { return data + row * bytes; }
};

// The elements of a row: the extents behind the first, multiplied. -1 if the
// product is impossible.
int64_t row_elements(const TensorView& view);
// A checked view.
ByteRows rows_of(const TensorView& view);

// Collects the fault of a call's views: the first one counts.
class ViewCheck {
 public:
  // `name`: the argument, for the error. The view is contiguous, in host memory
  // and not null, has at least `rows` rows (exactly, with `exact`), and a row
  // has a byte at least. An output is not read-only. Rows that are not those of
  // the plan are kPlanMismatch, an output that is too small kInvalidArgument.
  void view(absl::string_view name, const TensorView& view, int64_t rows,
            bool exact, bool output);
  void same_row(absl::string_view a_name, const TensorView& a,
                absl::string_view b_name, const TensorView& b);
  void same_type(absl::string_view a_name, const TensorView& a,
                 absl::string_view b_name, const TensorView& b);
  void elements(absl::string_view name, const TensorView& view,
                int64_t of_a_row);
  void apart(absl::string_view a_name, const TensorView& a,
             absl::string_view b_name, const TensorView& b);
  void require(bool good, Reason reason, absl::string_view what,
               absl::string_view expected, absl::string_view actual,
               absl::string_view next_step);

  const std::optional<ErrorInfo>& fault() const { return fault_; }

 private:
  std::optional<ErrorInfo> fault_;
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_ROWS_H_
