// Opens and closes an instance, and tells what it promises.
#include "backend.h"

#include "promise.h"
#include "sdk/guard.h"
#include "sdk/open.h"

#include <algorithm>
#include <iterator>
#include <unistd.h>

namespace shm_backend {
namespace {

// Twice the second-level cache, so that lines written next were read long ago.
size_t measured_stage() {
  const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const size_t wanted =
      2 * (cache > 0 ? static_cast<size_t>(cache) : size_t{1} << 20);
  const size_t large = std::clamp(wanted, size_t{1} << 20, size_t{8} << 20);
  return (kSmallStage + large) / kPage * kPage;
}

}  // namespace

int32_t open(const dw_host_api* host, const dw_open_info* given,
             dw_backend** backend, dw_error* error) {
  dw_open_info info = {};
  if (int32_t code =
          dw_read_open(&info, given, kHints, std::size(kHints), error))
    return code;
  Tuning tuning;
  if (int32_t code = read_tuning(
          dw_find_hint(info.hints, info.n_hints, kHints[0]), &tuning, error))
    return code;
  return dw_sdk::guarded("shm: the backend", error, [&] {
    auto* const made = new Backend(host, measured_stage(), tuning);
    *backend = reinterpret_cast<dw_backend*>(made);
    return DW_OK;
  });
}

void close(dw_backend* backend) { delete of(backend); }

int32_t caps(dw_backend* /*backend*/, const dw_caps_row** rows,
             uint64_t* n_rows, dw_error* /*error*/) {
  using namespace dw_sdk;
  static constexpr uint64_t kBarrier = DW_BIT(DW_OP_BARRIER);
  static constexpr uint64_t kWhole = DW_BIT(DW_OP_BROADCAST) | kMessages;
  static constexpr uint64_t kResults =
      DW_BIT(DW_OP_REDUCE) | DW_BIT(DW_OP_ALL_REDUCE);
  static constexpr uint64_t kScatters = DW_BIT(DW_OP_REDUCE_SCATTER);
  static constexpr uint64_t kScans = DW_BIT(DW_OP_SCAN);
  static constexpr uint64_t kMoves = (kInPieces | kOutPieces) & ~kScatters;
  static constexpr uint64_t kPuts = DW_BIT(DW_OP_PUT);
  static constexpr uint64_t kWindowMoves =
      DW_BIT(DW_OP_GET) | DW_BIT(DW_OP_COMPARE_SWAP);
  static constexpr uint64_t kAtomics =
      DW_BIT(DW_OP_ACCUMULATE) | DW_BIT(DW_OP_FETCH_OP);
  static constexpr uint64_t kWindowCalls =
      DW_BIT(DW_OP_SIGNAL) | DW_BIT(DW_OP_WAIT_SIGNAL) | DW_BIT(DW_OP_FLUSH) |
      DW_BIT(DW_OP_FENCE);
  static constexpr dw_caps_row kRows[] = {
      caps_row(kBarrier, 0, kNoReduction, kPlainFlags),
      caps_row(kWhole, kEveryType, kNoReduction, kPlainFlags),
      caps_row(kMoves, kEveryType, kNoReduction, kPieceFlags),
      caps_row(kResults, ANY, reductions_of(ANY), kPlainFlags),
      caps_row(kResults, INTEGERS, reductions_of(INTEGERS), kPlainFlags),
      caps_row(kResults, NUMBERS, reductions_of(NUMBERS), kPlainFlags),
      caps_row(kResults, FLOATS, reductions_of(FLOATS), kPlainFlags),
      caps_row(kScatters, ANY, reductions_of(ANY), kPieceFlags),
      caps_row(kScatters, INTEGERS, reductions_of(INTEGERS), kPieceFlags),
      caps_row(kScatters, NUMBERS, reductions_of(NUMBERS), kPieceFlags),
      caps_row(kScatters, FLOATS, reductions_of(FLOATS), kPieceFlags),
      // Without avg, the only reduction that is for numbers alone.
      caps_row(kScans, ANY, reductions_of(ANY), kScanFlags),
      caps_row(kScans, INTEGERS, reductions_of(INTEGERS), kScanFlags),
      caps_row(kScans, FLOATS, reductions_of(FLOATS), kScanFlags),
      caps_row(kPuts, kEveryType, kNoReduction,
               DW_FLAG_CALLER_WAITS | DW_FLAG_WITH_SIGNAL),
      caps_row(kWindowMoves, kEveryType, kNoReduction, DW_FLAG_CALLER_WAITS),
      caps_row(kAtomics, ANY, reductions_of(ANY), DW_FLAG_CALLER_WAITS),
      caps_row(kAtomics, INTEGERS, reductions_of(INTEGERS),
               DW_FLAG_CALLER_WAITS),
      caps_row(kWindowCalls, 0, kNoReduction, DW_FLAG_CALLER_WAITS),
  };
  *rows = kRows;
  *n_rows = std::size(kRows);
  return DW_OK;
}

}  // namespace shm_backend
