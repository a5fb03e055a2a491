#include "moe/rows.h"

#include <absl/strings/str_cat.h>

namespace distwrap::moe {

int64_t row_elements(const TensorView& view) {
  int64_t elements = 1;
  for (int d = 1; d < view.dims(); ++d)
    if (__builtin_mul_overflow(elements, view.extent(d), &elements)) return -1;
  return elements;
}

ByteRows rows_of(const TensorView& view) {
  return {static_cast<uint8_t*>(view.data()), view.rows(),
          row_elements(view) * dtype_size(view.dtype())};
}

void ViewCheck::require(bool good, Reason reason, absl::string_view what,
                        absl::string_view expected, absl::string_view actual,
                        absl::string_view next_step) {
  if (good || fault_.has_value()) return;
  fault_ = ErrorInfo{.reason = reason,
                     .what = std::string(what),
                     .expected = std::string(expected),
                     .actual = std::string(actual),
                     .next_step = std::string(next_step)};
}

// The texts are made for a fault alone: a good call allocates nothing.
void ViewCheck::view(absl::string_view name, const TensorView& view,
                     int64_t rows, bool exact, bool output) {
  if (fault_.has_value()) return;
  const auto fail = [&](Reason reason, std::string what, std::string expected,
                        std::string actual, std::string next_step) {
    require(false, reason, what, expected, actual, next_step);
  };
  if (static_cast<size_t>(view.dtype()) >= sizeof internal::kDTypeBytes)
    return fail(Reason::kInvalidArgument,
                absl::StrCat(name, " has an unknown element type"), "a DType",
                absl::StrCat(static_cast<int>(view.dtype())),
                "give a type of the list");
  if (!view.possible() || !view.contiguous() || view.dims() < 1)
    return fail(Reason::kInvalidArgument,
                absl::StrCat(name, " is not contiguous, or has no rows"),
                "a row-major view with a dimension of rows", view.text(),
                "copy it into contiguous memory");
  if (!(view.device() == kCpu))
    return fail(Reason::kUnsupported,
                absl::StrCat(name, " is not in host memory"), "cpu",
                absl::StrCat("device type ", view.device().type),
                "copy it to the host");
  const int64_t elements = row_elements(view);
  int64_t bytes;
  if (elements <= 0 ||
      __builtin_mul_overflow(elements, dtype_size(view.dtype()), &bytes))
    return fail(Reason::kInvalidArgument,
                absl::StrCat("a row of ", name, " is empty"),
                "1 element or more", view.text(), "give rows of a size");
  if (exact ? view.rows() != rows : view.rows() < rows)
    return fail(
        exact || !output ? Reason::kPlanMismatch : Reason::kInvalidArgument,
        absl::StrCat(name, exact ? " has another number of rows than the plan"
                                 : " has fewer rows than the plan needs"),
        absl::StrCat(rows, exact ? " rows" : " rows or more"),
        absl::StrCat(view.rows()),
        exact ? "give the tokens that the plan was made of"
              : "give at least MoePlan::output_rows() rows");
  if (view.data() == nullptr && view.count() > 0)
    return fail(Reason::kInvalidArgument, absl::StrCat(name, " has no memory"),
                "memory of all rows", "null", "give memory for all rows");
  if (output && view.read_only())
    fail(Reason::kInvalidArgument, absl::StrCat(name, " is read-only"),
         "memory to write to", view.text(), "give memory that may be written");
}

void ViewCheck::same_row(absl::string_view a_name, const TensorView& a,
                         absl::string_view b_name, const TensorView& b) {
  if (fault_.has_value() || row_elements(a) == row_elements(b)) return;
  require(false, Reason::kInvalidArgument,
          absl::StrCat("rows of ", a_name, " and ", b_name, " differ in size"),
          absl::StrCat(row_elements(a), " elements, as ", a_name),
          absl::StrCat(row_elements(b)), "give rows of one shape");
}

void ViewCheck::same_type(absl::string_view a_name, const TensorView& a,
                          absl::string_view b_name, const TensorView& b) {
  if (fault_.has_value() || a.dtype() == b.dtype()) return;
  require(false, Reason::kInvalidArgument,
          absl::StrCat(a_name, " and ", b_name, " differ in element type"),
          dtype_name(a.dtype()), dtype_name(b.dtype()), "give one type");
}

void ViewCheck::elements(absl::string_view name, const TensorView& view,
                         int64_t of_a_row) {
  if (fault_.has_value() || row_elements(view) == of_a_row) return;
  require(false, Reason::kInvalidArgument,
          absl::StrCat("rows of ", name, " have the wrong size"),
          absl::StrCat(of_a_row), absl::StrCat(row_elements(view)),
          "give one element for each slot, or one for each row");
}

void ViewCheck::apart(absl::string_view a_name, const TensorView& a,
                      absl::string_view b_name, const TensorView& b) {
  if (fault_.has_value() || a.count() == 0 || b.count() == 0) return;
  const auto begin = [](const TensorView& view) {
    return reinterpret_cast<uintptr_t>(view.data());
  };
  const auto end = [&](const TensorView& view) {
    return begin(view) +
           static_cast<uintptr_t>(view.count() * dtype_size(view.dtype()));
  };
  if (begin(a) >= end(b) || begin(b) >= end(a)) return;
  require(false, Reason::kInvalidArgument,
          absl::StrCat(a_name, " and ", b_name, " share memory"),
          "memory of their own", "memory that overlaps",
          "these calls do not work in place");
}

}  // namespace distwrap::moe
