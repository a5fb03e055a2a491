// The promises of this backend: `caps` returns the rows; `query` and `submit`
// accept the operations that the constants before the rows list.
#ifndef DISTWRAP_BACKENDS_LOOPBACK_PROMISES_H_
#define DISTWRAP_BACKENDS_LOOPBACK_PROMISES_H_

#include "sdk/shapes.h"

namespace loopback {

inline constexpr uint64_t kScan = DW_BIT(DW_OP_SCAN);
inline constexpr uint64_t kKinds = dw_sdk::kTwoSided & ~dw_sdk::kMessages;

inline constexpr auto kRows = [] {
  using namespace dw_sdk;
  constexpr uint64_t kSplits = kInPieces | kOutPieces;
  constexpr uint64_t kMoves = kSplits & ~kReductions;
  constexpr uint64_t kReducesWhole = kReductions & ~kSplits & ~kScan;
  constexpr uint64_t kReducesSplit = kReductions & kSplits;
  return std::array{
      caps_row(DW_BIT(DW_OP_BARRIER), 0, kNoReduction, kPlainFlags),
      caps_row(DW_BIT(DW_OP_BROADCAST), kEveryType, kNoReduction, kPlainFlags),
      caps_row(kMoves, kEveryType, kNoReduction, kPieceFlags),
      caps_row(kReducesWhole, ANY, reductions_of(ANY), kPlainFlags),
      caps_row(kReducesWhole, NUMBERS, reductions_of(NUMBERS), kPlainFlags),
      caps_row(kReducesWhole, INTEGERS, reductions_of(INTEGERS), kPlainFlags),
      caps_row(kReducesWhole, FLOATS, reductions_of(FLOATS), kPlainFlags),
      caps_row(kReducesSplit, ANY, reductions_of(ANY), kPieceFlags),
      caps_row(kReducesSplit, NUMBERS, reductions_of(NUMBERS), kPieceFlags),
      caps_row(kReducesSplit, INTEGERS, reductions_of(INTEGERS), kPieceFlags),
      caps_row(kReducesSplit, FLOATS, reductions_of(FLOATS), kPieceFlags),
      // Without avg, the only reduction that is defined for numbers alone.
      caps_row(kScan, ANY, reductions_of(ANY), kScanFlags),
      caps_row(kScan, INTEGERS, reductions_of(INTEGERS), kScanFlags),
      caps_row(kScan, FLOATS, reductions_of(FLOATS), kScanFlags),
  };
}();

}  // namespace loopback

#endif  // DISTWRAP_BACKENDS_LOOPBACK_PROMISES_H_
