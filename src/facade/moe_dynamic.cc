// The raw forms with sizes that only the sender knows.
#include "distwrap/moe_dynamic.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "facade/moe_place.h"
#include "moe/chunks.h"
#include "moe/pieces.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <utility>
#include <vector>

namespace distwrap {
namespace {

using moe::CallPlace;
using moe::Fault;

constexpr char kCorrect[] = "correct the argument";

// Collects the first fault of a call's arguments. All ranks are told of it, so
// a call is not refused on one rank alone.
class Arguments {
 public:
  explicit Arguments(const OpOptions& options) {
    if (options.stream.native != nullptr) fault_.set(facade::no_stream());
  }
  // A list of i64, which is read here and not later.
  std::vector<int64_t> numbers(const char* name, const TensorView& view,
                               int64_t count = -1) {
    check_numbers(name, view, count);
    if (fault_.found()) return {};
    const auto* const data = static_cast<const int64_t*>(view.data());
    return {data, data + view.count()};
  }
  // A list of `count` i64 that is written.
  absl::Span<int64_t> output_numbers(const char* name, const TensorView& view,
                                     int64_t count) {
    check_numbers(name, view, count);
    require(!view.read_only(), absl::StrCat(name, " is read-only"),
            "memory to write to", view.text());
    if (fault_.found()) return {};
    return {static_cast<int64_t*>(view.data()),
            static_cast<size_t>(view.count())};
  }
  void data(const char* name, const TensorView& view, DType dtype,
            bool output) {
    require(
        view.possible() && view.contiguous() && view.device() == kCpu &&
            static_cast<size_t>(view.dtype()) < sizeof internal::kDTypeBytes &&
            view.dtype() == dtype,
        absl::StrCat(name, " has another type, or gaps"),
        absl::StrCat("contiguous ", dtype_name(dtype), " in host memory"),
        view.text());
    require(view.data() != nullptr || view.count() == 0,
            absl::StrCat(name, " has no memory"), view.text(), "null");
    require(!output || !view.read_only(), absl::StrCat(name, " is read-only"),
            "memory to write to", view.text());
  }
  // One tensor for each rank.
  void list(const char* name, absl::Span<const TensorView> views, int64_t ranks,
            DType dtype, bool output) {
    require(static_cast<int64_t>(views.size()) == ranks,
            absl::StrCat("there is not one ", name, " for each rank"),
            absl::StrCat(ranks), absl::StrCat(views.size()));
    for (const TensorView& view : views) data(name, view, dtype, output);
  }
  void require(bool good, std::string what, std::string expected,
               std::string actual) {
    refuse_unless(good, Reason::kInvalidArgument, std::move(what),
                  std::move(expected), std::move(actual));
  }
  // A count of elements at `position` is not negative and at most `room`.
  void piece(const char* name, size_t position, int64_t count, int64_t room) {
    refuse_unless(count >= 0, Reason::kIndexMap,
                  absl::StrCat(name, " has ", count, " at position ", position),
                  "0 or more", absl::StrCat(count));
    refuse_unless(
        count <= room, Reason::kCapacity,
        absl::StrCat(name, " needs more than there is, at position ", position),
        absl::StrCat(count, " elements or more"), absl::StrCat(room));
  }
  Fault& fault() { return fault_; }

 private:
  void check_numbers(const char* name, const TensorView& view, int64_t count) {
    refuse_unless(view.dtype() == DType::kI64 && view.possible() &&
                      view.contiguous() && view.device() == kCpu,
                  Reason::kMetadataType,
                  absl::StrCat(name, " has the wrong type or has gaps"),
                  "contiguous i64 in host memory", view.text());
    require(count < 0 || view.count() == count,
            absl::StrCat(name, " has the wrong size"), absl::StrCat(count),
            absl::StrCat(view.count()));
    require(view.data() != nullptr || view.count() == 0,
            absl::StrCat(name, " has no memory"),
            absl::StrCat(view.count(), " numbers"), "null");
  }
  void refuse_unless(bool good, Reason reason, std::string what,
                     std::string expected, std::string actual) {
    if (good || fault_.found()) return;
    fault_.set({.reason = reason,
                .what = std::move(what),
                .expected = std::move(expected),
                .actual = std::move(actual),
                .next_step = kCorrect});
  }

  Fault fault_;
};

absl::StatusOr<CallPlace> place_of(const char* name, const OpOptions& options) {
  std::shared_ptr<group::GroupState> group =
      facade::kept_group_of(options.group);
  if (group == nullptr) return facade::not_initialized(name);
  return facade::moe_place(name, std::move(group), options,
                           facade::StreamFault::kTold);
}

// Element type of a list of tensors; that of an empty one does not matter.
DType dtype_of_list(absl::Span<const TensorView> views) {
  return views.empty() ? DType::kU8 : views[0].dtype();
}

// Pieces of a buffer, back to back.
std::vector<TensorView> cut(const TensorView& view,
                            absl::Span<const int64_t> counts) {
  std::vector<TensorView> pieces;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    pieces.emplace_back(
        static_cast<uint8_t*>(view.data()) + begin * dtype_size(view.dtype()),
        count, view.dtype());
    begin += count;
  }
  return pieces;
}

// Rows of a tensor for each rank, as elements.
std::vector<int64_t> elements_of(Arguments& check, const char* name,
                                 std::vector<int64_t> rows,
                                 const TensorView& tensor) {
  if (check.fault().found()) return {};
  const int64_t extent = tensor.dims() > 0 ? tensor.extent(0) : tensor.count();
  const int64_t each = extent > 0 ? tensor.count() / extent : 0;
  int64_t left = extent;
  for (size_t r = 0; r < rows.size(); ++r) {
    check.piece(name, r, rows[r], left);
    if (check.fault().found()) return {};
    left -= rows[r];
    rows[r] *= each;
  }
  return rows;
}

void check_hints(Arguments& check,
                 const std::map<std::string, std::string>& hints) {
  for (const auto& [key, value] : hints) {
    int64_t number = 0;
    const bool counted = key == "num_blocks" || key == "num_threads";
    check.require(counted || key == "block_scheduling",
                  absl::StrCat("the hint ", key, " is unknown"),
                  "num_blocks, num_threads or block_scheduling", key);
    check.require(!counted || (absl::SimpleAtoi(value, &number) && number > 0),
                  absl::StrCat("the hint ", key, " is no number"), "1 or more",
                  value);
    check.require(counted || value == "warp" || value == "block",
                  absl::StrCat("the hint ", key, " has no such value"),
                  "warp or block", value);
  }
}

// Shows a call to hooks and runs it.
template <class Body>
absl::StatusOr<Work> run(const CallPlace& place,
                         absl::Span<const TensorView> ins,
                         absl::Span<const TensorView> outs,
                         const OpOptions& options, const Body& body) {
  return facade::shown_moe(place, ins, outs, options,
                           [&] { return body(moe::Exchange(place)); });
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
  Arguments check(options);
  check.list("output", outs, ranks, input.dtype(), true);
  check.require(row_elements > 0, "a row has no elements", "1 or more",
                absl::StrCat(row_elements));
  const std::vector<int64_t> sizes =
      check.numbers("input_split_sizes", input_split_sizes);
  const std::vector<int64_t> ids =
      check.numbers("input_split_indices", input_split_indices);
  const std::vector<int64_t> per_rank = check.numbers(
      "input_split_indices_per_rank", input_split_indices_per_rank, ranks);
  const absl::Span<int64_t> gathered =
      check.output_numbers("output_split_sizes", output_split_sizes,
                           ranks * static_cast<int64_t>(sizes.size()));
  check.data("input", input, input.dtype(), false);
  return run(
      *place, {&input, 1}, outs, options, [&](const moe::Exchange& exchange) {
        return moe::dispatch_chunks(
            exchange, {sizes, ids, per_rank, row_elements, input.dtype()},
            std::move(check.fault()), outs, input, gathered, options.async);
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
  Arguments check(options);
  check.require(row_elements > 0, "a row has no elements", "1 or more",
                absl::StrCat(row_elements));
  const std::vector<int64_t> sizes =
      check.numbers("input_split_sizes", input_split_sizes);
  check.require(static_cast<int64_t>(sizes.size()) % ranks == 0,
                "input_split_sizes does not have one row for each rank",
                absl::StrCat("a multiple of ", ranks),
                absl::StrCat(sizes.size()));
  const std::vector<int64_t> ids =
      check.numbers("input_split_indices", input_split_indices);
  const std::vector<int64_t> per_rank = check.numbers(
      "input_split_indices_per_rank", input_split_indices_per_rank, ranks);
  check.data("input", input, input.dtype(), false);
  check.data("output", output, input.dtype(), true);
  if (!check.fault().found())
    check.require(input.count() % ranks == 0,
                  "the input does not have one slab for each rank",
                  absl::StrCat("a multiple of ", ranks),
                  absl::StrCat(input.count()));
  return run(*place, {&input, 1}, {&output, 1}, options,
             [&](const moe::Exchange& exchange) {
               return moe::combine_chunks(
                   exchange,
                   {sizes, ids, per_rank, row_elements, input.dtype()},
                   std::move(check.fault()), output, input, options.async);
             });
} catch (...) {
  return base::error_of_exception("alltoallv_dynamic_combine");
}

absl::StatusOr<Work> alltoallv_dynamic(absl::Span<const TensorView> outs,
                                       TensorView output_counts,
                                       absl::Span<const TensorView> ins,
                                       TensorView input_counts,
                                       const OpOptions& options) try {
  absl::StatusOr<CallPlace> place = place_of("alltoallv_dynamic", options);
  if (!place.ok()) return place.status();
  const int64_t ranks = place->group->size();
  const DType dtype = dtype_of_list(ins);
  Arguments check(options);
  check.list("output", outs, ranks, dtype, true);
  check.list("input", ins, ranks, dtype, false);
  const std::vector<int64_t> counts =
      check.numbers("input_counts", input_counts, ranks);
  const absl::Span<int64_t> received =
      check.output_numbers("output_counts", output_counts, ranks);
  std::vector<TensorView> pieces;
  for (size_t r = 0; r < counts.size() && !check.fault().found(); ++r) {
    check.piece("input_counts", r, counts[r], ins[r].count());
    pieces.emplace_back(ins[r].data(), counts[r], dtype);
  }
  return run(*place, ins, outs, options, [&](const moe::Exchange& exchange) {
    return moe::exchange_pieces(
        exchange, {.dtype = dtype, .ins = pieces, .outs = outs},
        std::move(check.fault()), received, options.async);
  });
} catch (...) {
  return base::error_of_exception("alltoallv_dynamic");
}

absl::StatusOr<Work> alltoallv_dynamic_split(absl::Span<const TensorView> outs,
                                             TensorView output_counts,
                                             TensorView input,
                                             TensorView input_split_lengths,
                                             const OpOptions& options) try {
  absl::StatusOr<CallPlace> place =
      place_of("alltoallv_dynamic_split", options);
  if (!place.ok()) return place.status();
  const int64_t ranks = place->group->size();
  Arguments check(options);
  check.list("output", outs, ranks, input.dtype(), true);
  check.data("input", input, input.dtype(), false);
  const std::vector<int64_t> counts =
      check.numbers("input_split_lengths", input_split_lengths, ranks);
  const absl::Span<int64_t> received =
      check.output_numbers("output_counts", output_counts, ranks);
  int64_t left = input.count();
  for (size_t r = 0; r < counts.size() && !check.fault().found(); ++r) {
    check.piece("input_split_lengths", r, counts[r], left);
    left -= counts[r];
  }
  std::vector<TensorView> pieces;
  if (!check.fault().found()) pieces = cut(input, counts);
  return run(
      *place, {&input, 1}, outs, options, [&](const moe::Exchange& exchange) {
        return moe::exchange_pieces(
            exchange, {.dtype = input.dtype(), .ins = pieces, .outs = outs},
            std::move(check.fault()), received, options.async);
      });
} catch (...) {
  return base::error_of_exception("alltoallv_dynamic_split");
}

absl::StatusOr<Work> device_alltoallv_single(
    TensorView output, TensorView input, TensorView output_split_sizes,
    TensorView input_split_sizes,
    const std::map<std::string, std::string>& hints,
    const OpOptions& options) try {
  absl::StatusOr<CallPlace> place =
      place_of("device_alltoallv_single", options);
  if (!place.ok()) return place.status();
  const int64_t ranks = place->group->size();
  Arguments check(options);
  check.data("input", input, input.dtype(), false);
  check.data("output", output, input.dtype(), true);
  check_hints(check, hints);
  const std::vector<int64_t> sends = elements_of(
      check, "input_split_sizes",
      check.numbers("input_split_sizes", input_split_sizes, ranks), input);
  const std::vector<int64_t> receives = elements_of(
      check, "output_split_sizes",
      check.numbers("output_split_sizes", output_split_sizes, ranks), output);
  std::vector<TensorView> ins, outs;
  if (!check.fault().found()) {
    ins = cut(input, sends);
    outs = cut(output, receives);
  }
  return run(*place, {&input, 1}, {&output, 1}, options,
             [&](const moe::Exchange& exchange) {
               return moe::exchange_pieces(exchange,
                                           {.dtype = input.dtype(),
                                            .ins = ins,
                                            .outs = outs,
                                            .expected = receives},
                                           std::move(check.fault()), {},
                                           options.async);
             });
} catch (...) {
  return base::error_of_exception("device_alltoallv_single");
}

}  // namespace distwrap
