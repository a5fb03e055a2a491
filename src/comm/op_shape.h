// The arguments of each kind of operation, from abi/ops.def.
#ifndef DISTWRAP_SRC_COMM_OP_SHAPE_H_
#define DISTWRAP_SRC_COMM_OP_SHAPE_H_

#include "distwrap/abi/types.h"

#include <cstdint>

namespace distwrap::comm {

enum class PeerRole : uint8_t { NO, ROOT, PEER, TARGET };
// The ranks that bring a buffer, and whether it holds n or R*n elements.
enum class Extent : uint8_t { NONE, ALL, ALL_R, ROOT, ROOT_R };

constexpr bool is_divided(Extent extent) {
  return extent == Extent::ALL_R || extent == Extent::ROOT_R;
}
constexpr bool has_buffer(Extent extent, bool is_root) {
  return extent == Extent::ALL || extent == Extent::ALL_R ||
         (is_root && (extent == Extent::ROOT || extent == Extent::ROOT_R));
}

struct OpShape {
  const char* name;
  PeerRole peer;
  Extent in, out;

  constexpr bool reduces() const { return reduces_; }
  constexpr bool collective() const {
    return peer == PeerRole::NO || peer == PeerRole::ROOT;
  }
  bool reduces_;
};

inline constexpr bool kind_reduces(uint16_t kind) {
  return kind == DW_OP_REDUCE || kind == DW_OP_ALL_REDUCE ||
         kind == DW_OP_REDUCE_SCATTER || kind == DW_OP_SCAN ||
         kind == DW_OP_ACCUMULATE || kind == DW_OP_FETCH_OP;
}

// By kind; [0] stands for "unknown".
inline constexpr OpShape kOpShapes[] = {
    {"?", PeerRole::NO, Extent::NONE, Extent::NONE, false},
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  {#text, PeerRole::peer, Extent::in, Extent::out, kind_reduces(value)},
#include "distwrap/abi/ops.def"
};
inline constexpr uint16_t kOpKinds = sizeof(kOpShapes) / sizeof(kOpShapes[0]);

// Kinds as bits DW_OP_<KIND>. Those of windows are the last ones.
inline constexpr uint64_t kMessageOps = DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV);
inline constexpr uint64_t kCollectiveOps =
    (DW_BIT(DW_OP_PUT) - 1) & ~kMessageOps & ~uint64_t{1};
inline constexpr uint64_t kWindowOps =
    DW_BIT(DW_OP_FENCE + 1) - DW_BIT(DW_OP_PUT);

// Stands for a kind that is no constant.
inline constexpr uint16_t kAnyKind = 0;

inline const OpShape& op_shape(uint16_t kind) {
  return kOpShapes[kind < kOpKinds ? kind : 0];
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_OP_SHAPE_H_
