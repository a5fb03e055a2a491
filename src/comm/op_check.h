// The rules that a call must keep before anything is sent.
//
// The check itself returns a number, so that a good call pays a few compares;
// the text of a bad one is made apart.
#ifndef DISTWRAP_SRC_COMM_OP_CHECK_H_
#define DISTWRAP_SRC_COMM_OP_CHECK_H_

#include "comm/capabilities.h"
#include "distwrap/status.h"
#include "distwrap/tensor_view.h"

#include <absl/status/status.h>

#include <cstdint>

namespace distwrap::comm {

// A call as its caller wrote it.
struct Call {
  uint16_t kind;
  uint16_t reduce = DW_REDUCE_NONE;
  TensorView out = {}, in = {};
  int peer = -1;
  int64_t tag = 0;
};

enum class Fault : uint8_t {
  kNone,
  kUnknownDType,
  kDTypesDiffer,
  kNotHostMemory,
  kUnknownReduction,
  kUnsupported,
  kNegativeCount,
  kSizeOverflow,
  kNullBuffer,
  kCountsDisagree,
  kNotDivisible,
  kOverlap,
  kRootOutOfRange,
  kPeerOutOfRange,
  kPeerIsSelf,
  kTagOutOfRange,
};

struct CheckedCall {
  Fault fault = Fault::kNone;
  bool in_place = false;
};

// `rank` and `size` of the group that makes the call.
CheckedCall check_call(const Call& call, int rank, int size,
                       const Capabilities& capabilities);

// The error of a fault, with reason, what, expected, actual and next step; the
// caller adds who.
ErrorInfo describe_fault(Fault fault, const Call& call, int rank, int size,
                         absl::string_view backend,
                         const Capabilities& capabilities);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_OP_CHECK_H_
