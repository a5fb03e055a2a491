// Opening and closing an instance, and its promises.
#include "backend.h"

#include "promise.h"
#include "sdk/guard.h"
#include "sdk/open.h"

#include <iterator>
#include <memory>

namespace gloo_backend {

int32_t open(const dw_host_api* host, const dw_open_info* given,
             dw_backend** backend, dw_error* error) {
  dw_open_info info = {};
  if (int32_t code =
          dw_read_open(&info, given, kHints, std::size(kHints), error))
    return code;
  return dw_sdk::guarded("gloo: the backend", error, [&] {
    auto made = std::make_unique<dw_backend>();
    made->host = host;
    const dw_str interface = dw_find_hint(info.hints, info.n_hints, kHints[0]);
    const dw_str address = dw_find_hint(info.hints, info.n_hints, kHints[1]);
    if (interface.data != nullptr)
      made->place.interface.assign(interface.data, interface.size);
    else if (address.data != nullptr)
      made->place.address.assign(address.data, address.size);
    else
      made->place.interface = "lo";
    *backend = made.release();
    return DW_OK;
  });
}

void close(dw_backend* backend) { delete backend; }

int32_t caps(dw_backend* /*backend*/, const dw_caps_row** rows,
             uint64_t* n_rows, dw_error* /*error*/) {
  using namespace dw_sdk;
  static constexpr uint64_t kBarrier = DW_BIT(DW_OP_BARRIER);
  static constexpr uint64_t kWhole = DW_BIT(DW_OP_BROADCAST) | kMessages;
  static constexpr uint64_t kGathers =
      DW_BIT(DW_OP_GATHER) | DW_BIT(DW_OP_SCATTER) | DW_BIT(DW_OP_ALL_GATHER);
  static constexpr uint64_t kResults =
      DW_BIT(DW_OP_REDUCE) | DW_BIT(DW_OP_ALL_REDUCE);
  static constexpr uint64_t kScatters = DW_BIT(DW_OP_REDUCE_SCATTER);
  static constexpr dw_caps_row kRows[] = {
      caps_row(kBarrier, 0, kNoReduction, kPlainFlags),
      caps_row(kWhole, kEveryType, kNoReduction, kPlainFlags),
      caps_row(kGathers, kEveryType, kNoReduction, kPieceFlags),
      caps_row(DW_BIT(DW_OP_ALL_TO_ALL), kEveryType, kNoReduction,
               kShapes[DW_OP_ALL_TO_ALL].flags),
      caps_row(kResults, ANY, reductions_of(ANY), kPlainFlags),
      caps_row(kResults, INTEGERS, reductions_of(INTEGERS), kPlainFlags),
      caps_row(kResults, NUMBERS, reductions_of(NUMBERS), kPlainFlags),
      caps_row(kScatters, ANY, reductions_of(ANY), kPieceFlags),
      caps_row(kScatters, INTEGERS, reductions_of(INTEGERS), kPieceFlags),
      caps_row(kScatters, NUMBERS, reductions_of(NUMBERS), kPieceFlags),
  };
  *rows = kRows;
  *n_rows = std::size(kRows);
  return DW_OK;
}

}  // namespace gloo_backend
