// The translation of rows, which callers count, into elements, which
// communicators count.
#ifndef DISTWRAP_SRC_COMM_ROWS_H_
#define DISTWRAP_SRC_COMM_ROWS_H_

#include "distwrap/communicator.h"
#include "distwrap/splits.h"

#include <absl/container/inlined_vector.h>

namespace distwrap::comm {

// The elements of one row; 1 for a flat view.
int64_t row_elements(const TensorView& view);

// Counts in elements for a list of rows of `divided`. Borrows the list when a
// row has one element.
class ElementCounts {
 public:
  ElementCounts(absl::Span<const int64_t> rows, const TensorView& divided);
  // Without `rows`, equal parts of the view for `size` ranks.
  ElementCounts(Splits rows, const TensorView& divided, int size);
  ElementCounts(const ElementCounts&) = delete;
  ElementCounts& operator=(const ElementCounts&) = delete;

  operator Counts() const { return {counts_, {}, whole_}; }

 private:
  void scale(absl::Span<const int64_t> rows, int64_t elements);

  absl::Span<const int64_t> counts_;
  bool whole_ = false;
  absl::InlinedVector<int64_t, 16> own_;
};

// Whether the view's rows can be divided equally.
bool splits_equally(const TensorView& view, int size);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_ROWS_H_
