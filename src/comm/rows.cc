#include "comm/rows.h"

namespace distwrap::comm {

int64_t row_elements(const TensorView& view) {
  if (view.dims() <= 1 || view.rows() == 0) return 1;
  return view.count() / view.rows();
}

ElementCounts::ElementCounts(absl::Span<const int64_t> rows,
                             const TensorView& divided)
    : counts_(rows) {
  if (const int64_t elements = row_elements(divided); elements != 1)
    scale(rows, elements);
}

ElementCounts::ElementCounts(Splits rows, const TensorView& divided, int size)
    : ElementCounts(rows.rows(), divided) {
  if (rows.is_set()) return;
  const int64_t row = row_elements(divided);
  own_.assign(static_cast<size_t>(size),
              row == 0 ? 0 : divided.count() / row / size * row);
  counts_ = own_;
  whole_ = true;
}

// A product that overflows fits into no view, so the communicator refuses it.
void ElementCounts::scale(absl::Span<const int64_t> rows, int64_t elements) {
  own_.assign(rows.begin(), rows.end());
  for (int64_t& count : own_)
    if (__builtin_mul_overflow(count, elements, &count)) count = INT64_MAX;
  counts_ = own_;
}

bool splits_equally(const TensorView& view, int size) {
  const int64_t row = row_elements(view);
  return row == 0 || view.count() / row % size == 0;
}

}  // namespace distwrap::comm
