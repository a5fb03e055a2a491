// The raw form with sizes that only the sender knows.
#include "distwrap/moe_dynamic.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "facade/moe_place.h"
#include "moe/chunks.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap {
namespace {

using moe::CallPlace;

// Collects the first fault of a call's arguments.
class Arguments {
 public:
  explicit Arguments(const CallPlace& place) : place_(place) {}

  // A list of i64.
  absl::Span<const int64_t> numbers(const char* name, const TensorView& view,
                                    int64_t count = -1) {
    if (status_.ok() && (view.dtype() != DType::kI64 || !view.possible() ||
                         !view.contiguous() || view.device() != kCpu))
      refuse(Reason::kMetadataType,
             absl::StrCat(name, " has the wrong type or has gaps"),
             "contiguous i64 in host memory", view.text());
    if (status_.ok() && count >= 0 && view.count() != count)
      refuse(Reason::kInvalidArgument,
             absl::StrCat(name, " has the wrong size"), absl::StrCat(count),
             absl::StrCat(view.count()));
    if (status_.ok() && view.data() == nullptr && view.count() > 0)
      refuse(Reason::kInvalidArgument, absl::StrCat(name, " has no memory"),
             absl::StrCat(view.count(), " numbers"), "null");
    if (!status_.ok()) return {};
    return {static_cast<const int64_t*>(view.data()),
            static_cast<size_t>(view.count())};
  }
  void data(const char* name, const TensorView& view, DType dtype,
            bool output) {
    if (!status_.ok()) return;
    if (!view.possible() || !view.contiguous() || view.device() != kCpu ||
        static_cast<size_t>(view.dtype()) >= sizeof internal::kDTypeBytes ||
        view.dtype() != dtype)
      refuse(Reason::kInvalidArgument,
             absl::StrCat(name, " has another type, or gaps"),
             absl::StrCat("contiguous ", dtype_name(dtype), " in host memory"),
             view.text());
    else if (view.data() == nullptr && view.count() > 0)
      refuse(Reason::kInvalidArgument, absl::StrCat(name, " has no memory"),
             view.text(), "null");
    else if (output && view.read_only())
      refuse(Reason::kInvalidArgument, absl::StrCat(name, " is read-only"),
             "memory to write to", view.text());
  }
  void require(bool good, const char* what, std::string expected,
               std::string actual) {
    if (status_.ok() && !good)
      refuse(Reason::kInvalidArgument, what, std::move(expected),
             std::move(actual));
  }
  const absl::Status& status() const { return status_; }

 private:
  void refuse(Reason reason, std::string what, std::string expected,
              std::string actual) {
    status_ = facade::refuse(place_, {.reason = reason,
                                      .what = std::move(what),
                                      .expected = std::move(expected),
                                      .actual = std::move(actual),
                                      .next_step = "correct the argument"});
  }

  const CallPlace& place_;
  absl::Status status_;
};

absl::StatusOr<CallPlace> place_of(const char* name, const OpOptions& options) {
  std::shared_ptr<group::GroupState> group =
      facade::kept_group_of(options.group);
  if (group == nullptr) return facade::not_initialized(name);
  absl::StatusOr<CallPlace> place =
      facade::moe_place(name, std::move(group), options);
  if (place.ok() && options.async)
    return facade::refuse(*place,
                          {.reason = Reason::kInvalidArgument,
                           .what = "this call does not take `async`",
                           .next_step = "leave it out, or call in a thread"});
  return place;
}

}  // namespace

absl::StatusOr<Work> alltoallv_dynamic_dispatch(
    absl::Span<const TensorView> outs, TensorView output_split_sizes,
    TensorView input, TensorView input_split_sizes,
    TensorView input_split_indices, TensorView input_split_indices_per_rank,
    int64_t row_elements, const OpOptions& options) try {
  absl::StatusOr<CallPlace> place =
      place_of("alltoallv_dynamic_dispatch", options);
  if (!place.ok()) return place.status();
  const int64_t ranks = place->group->size();
  Arguments check(*place);
  check.require(static_cast<int64_t>(outs.size()) == ranks,
                "there is not one output for each rank", absl::StrCat(ranks),
                absl::StrCat(outs.size()));
  check.require(row_elements > 0, "a row has no elements", "1 or more",
                absl::StrCat(row_elements));
  moe::Chunks chunks{.row = row_elements, .dtype = input.dtype()};
  chunks.sizes = check.numbers("input_split_sizes", input_split_sizes);
  chunks.ids = check.numbers("input_split_indices", input_split_indices);
  chunks.per_rank = check.numbers("input_split_indices_per_rank",
                                  input_split_indices_per_rank, ranks);
  check.numbers("output_split_sizes", output_split_sizes,
                ranks * static_cast<int64_t>(chunks.sizes.size()));
  check.require(!output_split_sizes.read_only(),
                "output_split_sizes is read-only", "memory to write to",
                output_split_sizes.text());
  check.data("input", input, input.dtype(), false);
  for (const TensorView& out : outs)
    check.data("output", out, input.dtype(), true);
  if (!check.status().ok()) return check.status();
  return facade::shown_moe(
      *place, {&input, 1}, outs, options, [&]() -> absl::StatusOr<Work> {
        absl::Status status = moe::dispatch_chunks(
            moe::Exchange(*place), chunks, outs, input,
            {static_cast<int64_t*>(output_split_sizes.data()),
             static_cast<size_t>(output_split_sizes.count())});
        if (!status.ok()) return status;
        return Work();
      });
} catch (...) {
  return base::error_of_exception("alltoallv_dynamic_dispatch");
}

absl::StatusOr<Work> alltoallv_dynamic_combine(
    TensorView output, TensorView input, TensorView input_split_sizes,
    TensorView input_split_indices, TensorView input_split_indices_per_rank,
    int64_t row_elements, const OpOptions& options) try {
  absl::StatusOr<CallPlace> place =
      place_of("alltoallv_dynamic_combine", options);
  if (!place.ok()) return place.status();
  const int64_t ranks = place->group->size();
  Arguments check(*place);
  check.require(row_elements > 0, "a row has no elements", "1 or more",
                absl::StrCat(row_elements));
  moe::Chunks chunks{.row = row_elements, .dtype = input.dtype()};
  chunks.sizes = check.numbers("input_split_sizes", input_split_sizes);
  check.require(static_cast<int64_t>(chunks.sizes.size()) % ranks == 0,
                "input_split_sizes does not have one row for each rank",
                absl::StrCat("a multiple of ", ranks),
                absl::StrCat(chunks.sizes.size()));
  chunks.ids = check.numbers("input_split_indices", input_split_indices);
  chunks.per_rank = check.numbers("input_split_indices_per_rank",
                                  input_split_indices_per_rank, ranks);
  check.data("input", input, input.dtype(), false);
  check.data("output", output, input.dtype(), true);
  check.require(!check.status().ok() || input.count() % ranks == 0,
                "the input does not have one slab for each rank",
                absl::StrCat("a multiple of ", ranks),
                absl::StrCat(input.count()));
  if (!check.status().ok()) return check.status();
  return facade::shown_moe(*place, {&input, 1}, {&output, 1}, options,
                           [&]() -> absl::StatusOr<Work> {
                             absl::Status status = moe::combine_chunks(
                                 moe::Exchange(*place), chunks, output, input);
                             if (!status.ok()) return status;
                             return Work();
                           });
} catch (...) {
  return base::error_of_exception("alltoallv_dynamic_combine");
}

}  // namespace distwrap
