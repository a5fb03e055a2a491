// The promises of this backend, and NCCL's names for element types and
// reductions.
//
// Integers of 16 bits and bool are unknown to NCCL. It moves them as bytes;
// bool is also reduced, as bytes that are 0 or 1. Floats of 8 bits are moved as
// bytes; NCCL reduces them from 2.24.3 on, on devices of capability 9 and more.
#ifndef DISTWRAP_BACKENDS_NCCL_PROMISES_H_
#define DISTWRAP_BACKENDS_NCCL_PROMISES_H_

#include "nccl_types.h"
#include "sdk/dtype.h"
#include "sdk/shapes.h"

#include <vector>

namespace nccl_backend {

inline constexpr uint64_t kKinds = dw_sdk::kTwoSided & ~DW_BIT(DW_OP_SCAN);

// An element type of NCCL, of `1 << shift` bytes.
struct NcclType {
  int type = ncclUint8;
  int shift = 0;
};

// The type in which elements are moved.
constexpr NcclType moved_type(int dtype) {
  switch (dtype) {
    case DW_DTYPE_I8:
      return {ncclInt8, 0};
    case DW_DTYPE_I32:
      return {ncclInt32, 2};
    case DW_DTYPE_U32:
      return {ncclUint32, 2};
    case DW_DTYPE_I64:
      return {ncclInt64, 3};
    case DW_DTYPE_U64:
      return {ncclUint64, 3};
    case DW_DTYPE_F16:
      return {ncclFloat16, 1};
    case DW_DTYPE_BF16:
      return {ncclBfloat16, 1};
    case DW_DTYPE_F32:
      return {ncclFloat32, 2};
    case DW_DTYPE_F64:
      return {ncclFloat64, 3};
    default:  // u8, u16, i16, bool, floats of 8 bits
      return {ncclUint8, 0};
  }
}

// The type in which elements are reduced.
constexpr NcclType reduced_type(int dtype) {
  switch (dtype) {
    case DW_DTYPE_F8E4M3FN:
      return {ncclFloat8e4m3, 0};
    case DW_DTYPE_F8E5M2:
      return {ncclFloat8e5m2, 0};
    default:
      return moved_type(dtype);
  }
}

// NCCL's reduction; -1 for premul_sum, which has one for each call. A sum of
// bool is the larger of 0 and 1, a product the smaller.
constexpr int nccl_reduction(int dtype, uint16_t reduce) {
  const bool is_bool = dtype == DW_DTYPE_BOOL;
  switch (reduce) {
    case DW_REDUCE_SUM:
      return is_bool ? ncclMax : ncclSum;
    case DW_REDUCE_PRODUCT:
      return is_bool ? ncclMin : ncclProd;
    case DW_REDUCE_MIN:
      return ncclMin;
    case DW_REDUCE_MAX:
      return ncclMax;
    case DW_REDUCE_AVG:
      return ncclAvg;
    default:
      return -1;
  }
}

inline constexpr uint64_t kSixteenBits =
    DW_BIT(DW_DTYPE_U16) | DW_BIT(DW_DTYPE_I16);
inline constexpr uint64_t kSigned =
    DW_BIT(DW_DTYPE_I8) | DW_BIT(DW_DTYPE_I32) | DW_BIT(DW_DTYPE_I64);

// Before, NCCL divided sums of signed integers as if they had no sign.
inline constexpr int kSignedAvgSince = version_code(2, 24, 3);

// NCCL reduces floats of 8 bits.
inline constexpr int kFloats8Since = version_code(2, 24, 3);
inline constexpr int kFloats8Capability = 9;

inline constexpr uint32_t kStreamFlags = DW_FLAG_ASIDE | DW_FLAG_CAPTURE;

// The element types for which NCCL `version` has a reduction on a device of
// this capability.
constexpr uint64_t reduced_types(int version, int capability, uint16_t reduce) {
  using namespace dw_sdk;
  const uint64_t floats8 =
      version >= kFloats8Since && capability >= kFloats8Capability ? kFloats8
                                                                   : 0;
  switch (reduce) {
    case DW_REDUCE_SUM:
    case DW_REDUCE_PRODUCT:
    case DW_REDUCE_MIN:
    case DW_REDUCE_MAX:
      return (ANY & ~kSixteenBits) | floats8;
    case DW_REDUCE_AVG:
      return (NUMBERS & ~kSixteenBits &
              (version >= kSignedAvgSince ? ~uint64_t{0} : ~kSigned)) |
             floats8;
    case DW_REDUCE_PREMUL_SUM:
      return FLOATS;
    default:
      return 0;
  }
}

// The flags that an operation may carry here.
constexpr uint32_t allowed_flags(uint16_t kind) {
  uint32_t flags = dw_sdk::flags_of(kind) | kStreamFlags;
  // NCCL has no all_to_all in place.
  if (kind == DW_OP_ALL_TO_ALL) flags &= ~uint32_t{DW_FLAG_IN_PLACE};
  if ((DW_BIT(kind) & dw_sdk::kReductions) != 0)
    flags |= DW_FLAG_SCALE_ON_DEVICE;
  if ((DW_BIT(kind) & (dw_sdk::kMessages | DW_BIT(DW_OP_BARRIER))) == 0)
    flags |= DW_FLAG_REGISTERED;
  return flags;
}

// The rows of `caps` over NCCL `version`.
std::vector<dw_caps_row> rows_of(int version, int capability);

// The row of windows, where NCCL and the driver have them.
dw_caps_row window_row();

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_PROMISES_H_
