#include "comm/op_check_divided.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace distwrap::comm::op_check {

namespace {

// Whether the pieces follow each other as their ranks do, as they mostly do.
bool pieces_ascend(const Counts& division) {
  int64_t end = 0;
  for (size_t r = 0; r < division.counts.size(); ++r) {
    if (division.counts[r] == 0) continue;
    if (division.displs[r] < end) return false;
    end = division.displs[r] + division.counts[r];
  }
  return true;
}

}  // namespace

bool pieces_overlap(const Counts& division) {
  if (pieces_ascend(division)) return false;
  std::vector<size_t> order(division.counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return division.displs[a] < division.displs[b];
  });
  int64_t end = 0;
  for (const size_t r : order) {
    if (division.counts[r] == 0) continue;
    if (division.displs[r] < end) return true;
    end = division.displs[r] + division.counts[r];
  }
  return false;
}

uintptr_t piece_address(const Range& range, const Counts& division, int rank,
                        int64_t element) {
  const auto own = static_cast<size_t>(rank);
  const int64_t at =
      !division.displs.empty()
          ? division.displs[own]
          : std::accumulate(division.counts.begin(),
                            division.counts.begin() + rank, int64_t{0});
  return range.begin + static_cast<uintptr_t>(at * element);
}

}  // namespace distwrap::comm::op_check

namespace distwrap::comm {

CheckedCall check_placed_call(uint16_t kind, const AnyCall& call, int rank,
                              int size) {
  using namespace op_check;
  // Sizes that every backend can count with.
  constexpr int64_t kMost = INT64_MAX / 64;
  CheckedCall checked;
  // The input of an all_gather is one piece.
  const bool is_divided = kind != DW_OP_ALL_GATHER;
  if (is_divided)
    checked.fault =
        check_division(call.in_counts, kMost, size, kOfInput, &checked.in_sum);
  if (checked.fault == Fault::kNone)
    checked.fault = check_division(call.out_counts, kMost, size, kOfOutput,
                                   &checked.out_sum);
  const auto own = static_cast<size_t>(rank);
  if (checked.fault == Fault::kNone &&
      (is_divided ? call.in_counts.counts[own] : call.in.count()) !=
          call.out_counts.counts[own])
    checked.fault = Fault::kOwnPieceDiffers;
  return checked;
}

}  // namespace distwrap::comm
