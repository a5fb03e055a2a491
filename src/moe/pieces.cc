#include "moe/pieces.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

struct Announced {
  int64_t dtype = 0, count = 0;
};

struct Range {
  const uint8_t *begin, *end;
  bool output;
};

// Outputs share no memory with each other or with an input.
bool apart(const Pieces& pieces) {
  std::vector<Range> ranges;
  const auto add = [&](const TensorView& view, bool output) {
    const auto* const data = static_cast<const uint8_t*>(view.data());
    if (view.count() > 0)
      ranges.push_back(
          {data, data + view.count() * dtype_size(view.dtype()), output});
  };
  for (const TensorView& in : pieces.ins) add(in, false);
  for (const TensorView& out : pieces.outs) add(out, true);
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const uint8_t *end = nullptr, *output_end = nullptr;
  for (const Range& range : ranges) {
    if (range.begin < (range.output ? end : output_end)) return false;
    end = std::max(end, range.end);
    if (range.output) output_end = std::max(output_end, range.end);
  }
  return true;
}

}  // namespace

absl::StatusOr<Work> exchange_pieces(const Exchange& exchange,
                                     const Pieces& pieces, Fault fault,
                                     absl::Span<int64_t> received, bool async) {
  const int ranks = exchange.size();
  if (!fault.found() && !apart(pieces))
    fault.set(Reason::kInvalidArgument, "outputs and inputs share memory");
  const Agreement agreement(exchange);
  std::vector<Announced> given(at(ranks),
                               {static_cast<int64_t>(pieces.dtype), 0}),
      got;
  for (size_t r = 0; r < given.size() && !fault.found(); ++r)
    given[r].count = pieces.ins[r].count();
  absl::Status told = agreement.tell(fault, absl::MakeConstSpan(given), &got);
  if (!told.ok()) return told;
  for (int r = 1; r < ranks; ++r)
    if (got[at(r)].dtype != got[0].dtype)
      return exchange.error({.reason = Reason::kCallMismatch,
                             .what = "ranks move different element types",
                             .ranks = {0, r},
                             .next_step = "give one type on all ranks"});
  std::vector<TensorView> outs;
  for (int r = 0; r < ranks; ++r) {
    const TensorView& room = pieces.outs[at(r)];
    const int64_t count = got[at(r)].count;
    if (!pieces.expected.empty() && pieces.expected[at(r)] != count)
      fault.set({.reason = Reason::kCallMismatch,
                 .what = "a rank sends another number of elements than its "
                         "receiver expects",
                 .ranks = {r},
                 .expected = absl::StrCat(pieces.expected[at(r)]),
                 .actual = absl::StrCat(count)});
    if (count > room.count())
      fault.set({.reason = Reason::kCapacity,
                 .what = absl::StrCat("output ", r, " is too small"),
                 .ranks = {r},
                 .expected = absl::StrCat(count, " elements or more"),
                 .actual = absl::StrCat(room.count())});
    outs.emplace_back(room.data(), std::min(count, room.count()), pieces.dtype);
  }
  if (absl::Status status = agreement.tell(fault); !status.ok()) return status;
  for (size_t r = 0; r < received.size(); ++r) received[r] = got[r].count;
  return exchange.all_to_all(outs, pieces.ins, async);
}

}  // namespace distwrap::moe
