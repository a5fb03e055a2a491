// Opening and closing an instance, and its promises.
#include "backend.h"

#include "interface.h"
#include "promise.h"
#include "sdk/guard.h"
#include "sdk/open.h"

#include <iterator>

namespace ucx_backend {
namespace {

std::string hint(const dw_open_info& info, const dw_str& key) {
  const dw_str value = dw_find_hint(info.hints, info.n_hints, key);
  return value.data == nullptr ? "" : std::string(value.data, value.size);
}

}  // namespace

int32_t open(const dw_host_api* host, const dw_open_info* given,
             dw_backend** backend, dw_error* error) {
  dw_open_info info = {};
  if (int32_t code =
          dw_read_open(&info, given, kHints, std::size(kHints), error))
    return code;
  return dw_sdk::guarded("ucx: the backend", error, [&]() -> int32_t {
    auto made = std::make_unique<Backend>();
    made->host = host;
    std::string library = hint(info, kHints[0]);
    if (library.empty()) library = kLibraryName;
    if (int32_t code = open_library(library, &made->library, error))
      return code;
    made->transports = hint(info, kHints[1]);
    made->host_name = hint(info, kHints[2]);
    made->interface = interface_with(hint(info, kHints[3]));
    const std::string text =
        "ucx: " + library + " is version " + made->library.version();
    host->log(host->self, DW_LOG_DEBUG, {text.data(), text.size()});
    *backend = reinterpret_cast<dw_backend*>(made.release());
    return DW_OK;
  });
}

void close(dw_backend* backend) { delete of(backend); }

int32_t caps(dw_backend* /*backend*/, const dw_caps_row** rows,
             uint64_t* n_rows, dw_error* /*error*/) {
  using namespace dw_sdk;
  static constexpr uint64_t kAtomics =
      DW_BIT(DW_OP_ACCUMULATE) | DW_BIT(DW_OP_FETCH_OP);
  static constexpr uint64_t kWindowCalls =
      DW_BIT(DW_OP_SIGNAL) | DW_BIT(DW_OP_WAIT_SIGNAL) | DW_BIT(DW_OP_FLUSH) |
      DW_BIT(DW_OP_FENCE);
  static constexpr dw_caps_row kRows[] = {
      caps_row(kMessages, kEveryType, kNoReduction, kPlainFlags),
      caps_row(DW_BIT(DW_OP_PUT), kEveryType, kNoReduction,
               DW_FLAG_CALLER_WAITS | DW_FLAG_WITH_SIGNAL),
      caps_row(DW_BIT(DW_OP_GET) | DW_BIT(DW_OP_COMPARE_SWAP), kEveryType,
               kNoReduction, DW_FLAG_CALLER_WAITS),
      caps_row(kAtomics, ANY, reductions_of(ANY), DW_FLAG_CALLER_WAITS),
      caps_row(kAtomics, INTEGERS, reductions_of(INTEGERS),
               DW_FLAG_CALLER_WAITS),
      caps_row(kWindowCalls, 0, kNoReduction, DW_FLAG_CALLER_WAITS),
  };
  *rows = kRows;
  *n_rows = std::size(kRows);
  return DW_OK;
}

}  // namespace ucx_backend
