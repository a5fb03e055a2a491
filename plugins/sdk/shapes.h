// Sets of operations as bit masks, and the shape of each operation. A backend
// in C++ lists its operations once, derives its `caps` rows from the list, and
// checks calls against it.
//
//   constexpr dw_sdk::Shape broadcast = dw_sdk::shape_of(DW_OP_BROADCAST);
#ifndef DISTWRAP_PLUGINS_SDK_SHAPES_H_
#define DISTWRAP_PLUGINS_SDK_SHAPES_H_

#include "distwrap/abi/types.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

#include <array>
#include <cstdint>

namespace dw_sdk {

// ---- kinds of operations ----

inline constexpr uint64_t kMessages = DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV);
inline constexpr uint64_t kReductions =
    DW_BIT(DW_OP_ALL_REDUCE) | DW_BIT(DW_OP_REDUCE) |
    DW_BIT(DW_OP_REDUCE_SCATTER) | DW_BIT(DW_OP_SCAN);
// Operations whose input or output has one piece for each rank. The pieces may
// differ in size and need not be adjacent.
inline constexpr uint64_t kInPieces = DW_BIT(DW_OP_REDUCE_SCATTER) |
                                      DW_BIT(DW_OP_SCATTER) |
                                      DW_BIT(DW_OP_ALL_TO_ALL);
inline constexpr uint64_t kOutPieces =
    DW_BIT(DW_OP_ALL_GATHER) | DW_BIT(DW_OP_GATHER) | DW_BIT(DW_OP_ALL_TO_ALL);
inline constexpr uint64_t kRooted =
    DW_BIT(DW_OP_BROADCAST) | DW_BIT(DW_OP_REDUCE) | DW_BIT(DW_OP_GATHER) |
    DW_BIT(DW_OP_SCATTER);
// Operations in which only two ranks know each count; the counts of other
// divided operations are equal on all ranks.
inline constexpr uint64_t kPairwise =
    DW_BIT(DW_OP_GATHER) | DW_BIT(DW_OP_SCATTER) | DW_BIT(DW_OP_ALL_TO_ALL);
inline constexpr uint64_t kTwoSided = DW_BIT(DW_OP_BARRIER) | kMessages |
                                      kRooted | kReductions | kInPieces |
                                      kOutPieces;

// ---- element types ----

// Every type, for operations that only move.
inline constexpr uint64_t kEveryType = 0
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  | DW_BIT(index)
#include "distwrap/abi/dtypes.def"
    ;
// Floats of 8 bits, which have DLPack's codes from 7 on.
inline constexpr uint64_t kFloats8 = 0
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  | ((code) >= 7 ? DW_BIT(index) : 0)
#include "distwrap/abi/dtypes.def"
    ;

// The types that a reduction is defined for, named as in abi/reductions.def:
// those with rules that all backends share, which floats of 8 bits lack.
enum Takes : uint64_t {
  ANY = kEveryType & ~kFloats8,
  FLOATS = 0
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  | ((code) == 2 || (code) == 4 ? DW_BIT(index) : 0)
#include "distwrap/abi/dtypes.def"
  ,
  NUMBERS = ANY & ~DW_BIT(DW_DTYPE_BOOL),
  INTEGERS = ANY & ~FLOATS,
};

// ---- reductions ----

inline constexpr uint32_t kNoReduction = DW_BIT(DW_REDUCE_NONE);

// The set of reductions that are defined for exactly these types.
constexpr uint32_t reductions_of(Takes types) {
  return 0
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  | (types == takes ? 1u << value : 0)
#include "distwrap/abi/reductions.def"
      ;
}

// The element types of a reduction; 0 when the operation does not have it.
constexpr uint64_t types_of(uint16_t kind, uint16_t reduction) {
  constexpr uint64_t kTypes[] = {
      0,
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) takes,
#include "distwrap/abi/reductions.def"
  };
  if (reduction >= sizeof kTypes / sizeof kTypes[0]) return 0;
  if (kind == DW_OP_SCAN && reduction == DW_REDUCE_AVG) return 0;
  return kTypes[reduction];
}

// ---- flags ----

inline constexpr uint32_t kPlainFlags = DW_FLAG_IN_PLACE | DW_FLAG_CALLER_WAITS;
inline constexpr uint32_t kPieceFlags =
    kPlainFlags | DW_FLAG_PER_RANK | DW_FLAG_PARTS;
inline constexpr uint32_t kScanFlags = kPlainFlags | DW_FLAG_EXCLUSIVE;

constexpr uint32_t flags_of(uint16_t kind) {
  if (((kInPieces | kOutPieces) & DW_BIT(kind)) != 0) return kPieceFlags;
  return kind == DW_OP_SCAN ? kScanFlags : kPlainFlags;
}

// A capability row that promises operations of all sizes on host memory.
constexpr dw_caps_row caps_row(uint64_t kinds, uint64_t types,
                               uint32_t reductions, uint32_t flags) {
  return {kinds, types, reductions, flags, DW_BIT(DW_DEVICE_CPU), 0, 0, 0};
}

// ---- shapes of operations ----

struct Shape {
  bool known = false;
  bool rooted = false;
  bool reduces = false;
  bool message = false;
  bool pairwise = false;
  // The ranks that have an input and an output: all ranks, or only the root.
  bool has_in = false, has_out = false;
  bool root_brings = false, root_takes = false;
  bool in_pieces = false, out_pieces = false;
  uint32_t flags = 0;  // the flags that the operation may carry
};

constexpr Shape shape_of(uint16_t kind) {
  const auto is = [kind](uint64_t kinds) {
    return kind < 64 && (kinds & DW_BIT(kind)) != 0;
  };
  Shape shape;
  shape.known = is(kTwoSided);
  if (!shape.known) return shape;
  shape.rooted = is(kRooted);
  shape.reduces = is(kReductions);
  shape.message = is(kMessages);
  shape.pairwise = is(kPairwise);
  shape.has_in = kind != DW_OP_BARRIER && kind != DW_OP_RECV;
  shape.has_out = kind != DW_OP_BARRIER && kind != DW_OP_SEND;
  shape.root_brings = is(DW_BIT(DW_OP_BROADCAST) | DW_BIT(DW_OP_SCATTER));
  shape.root_takes = is(DW_BIT(DW_OP_REDUCE) | DW_BIT(DW_OP_GATHER));
  shape.in_pieces = is(kInPieces);
  shape.out_pieces = is(kOutPieces);
  shape.flags = flags_of(kind);
  return shape;
}

// The shapes by kind, for a look-up without a branch. Entry 0 is no operation.
inline constexpr uint16_t kKinds = 64;
using Shapes = std::array<Shape, kKinds>;
constexpr Shapes shapes_of(uint64_t kinds) {
  Shapes shapes;
  for (uint16_t kind = 1; kind < kKinds; ++kind)
    if ((kinds & DW_BIT(kind)) != 0) shapes[kind] = shape_of(kind);
  return shapes;
}
inline const Shape& shape_in(const Shapes& shapes, uint16_t kind) {
  return shapes[kind < kKinds ? kind : 0];
}

// Checks all fields of an operation except its stream and buffers. `rank` and
// `size` are those of the communicator. Returns DW_OK, or the code of the
// refusal.
inline int32_t check_fields(const dw_op& op, const Shape& shape, int rank,
                            int size, dw_error* error) {
  if (!shape.known)
    return dw_unsupported(error, "this operation is not supported");
  if (dw_unknown_flags(op.flags, shape.flags) != 0)
    return dw_unsupported(error, "a flag is not supported");
  if (op.next != nullptr && dw_check_extensions(op.next) != DW_OK)
    return dw_unsupported(error, "no extension is supported");
  if (!shape.reduces && op.reduce != DW_REDUCE_NONE)
    return dw_unsupported(error, "this operation has no reductions");
  if (!shape.rooted && !shape.message) return DW_OK;
  if (op.peer < 0 || op.peer >= size)
    return dw_invalid(error, "the root or peer is not in the group");
  if (!shape.message) return DW_OK;
  if (op.peer == rank)
    return dw_unsupported(error, "a rank cannot send to itself");
  if (op.tag >> DW_TAG_BITS != 0)
    return dw_invalid(error, "a tag has more bits than tags have");
  return DW_OK;
}

// `check_fields` for backends of host memory, which have no streams.
inline int32_t check_form(const dw_op& op, const Shape& shape, int rank,
                          int size, dw_error* error) {
  if (op.stream.device_type != 0 && op.stream.device_type != DW_DEVICE_CPU)
    return dw_unsupported(error, "only host memory is supported");
  return check_fields(op, shape, rank, size, error);
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_SHAPES_H_
