#include "promises.h"

namespace nccl_backend {
namespace {

constexpr uint64_t kSixteenBits = DW_BIT(DW_DTYPE_U16) | DW_BIT(DW_DTYPE_I16);
constexpr uint64_t kSigned =
    DW_BIT(DW_DTYPE_I8) | DW_BIT(DW_DTYPE_I32) | DW_BIT(DW_DTYPE_I64);

// Before, NCCL divided sums of signed integers as if they had no sign.
constexpr int kSignedAvgSince = version_code(2, 24, 3);

// NCCL reduces floats of 8 bits.
constexpr int kFloats8Since = version_code(2, 24, 3);
constexpr int kFloats8Capability = 9;

constexpr uint32_t kStreamFlags = DW_FLAG_ASIDE | DW_FLAG_CAPTURE;

dw_caps_row row(uint64_t kinds, uint64_t types, uint32_t reductions,
                uint32_t flags) {
  dw_caps_row made = dw_sdk::caps_row(kinds, types, reductions, flags);
  made.memory = DW_BIT(DW_DEVICE_CUDA);
  return made;
}

}  // namespace

uint64_t reduced_types(int version, int capability, uint16_t reduce) {
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

uint32_t allowed_flags(uint16_t kind) {
  uint32_t flags = dw_sdk::flags_of(kind) | kStreamFlags;
  // NCCL has no all_to_all in place.
  if (kind == DW_OP_ALL_TO_ALL) flags &= ~uint32_t{DW_FLAG_IN_PLACE};
  if ((DW_BIT(kind) & dw_sdk::kReductions) != 0)
    flags |= DW_FLAG_SCALE_ON_DEVICE;
  if ((DW_BIT(kind) & (dw_sdk::kMessages | DW_BIT(DW_OP_BARRIER))) == 0)
    flags |= DW_FLAG_REGISTERED;
  return flags;
}

std::vector<dw_caps_row> rows_of(int version, int capability) {
  using namespace dw_sdk;
  std::vector<dw_caps_row> rows;
  rows.push_back(row(DW_BIT(DW_OP_BARRIER), 0, kNoReduction,
                     allowed_flags(DW_OP_BARRIER)));
  for (const uint16_t kind :
       {DW_OP_BROADCAST, DW_OP_GATHER, DW_OP_SCATTER, DW_OP_ALL_GATHER,
        DW_OP_ALL_TO_ALL, DW_OP_SEND, DW_OP_RECV})
    rows.push_back(
        row(DW_BIT(kind), kEveryType, kNoReduction, allowed_flags(kind)));
  for (const uint16_t kind :
       {DW_OP_REDUCE, DW_OP_ALL_REDUCE, DW_OP_REDUCE_SCATTER})
    for (const uint16_t reduce :
         {DW_REDUCE_SUM, DW_REDUCE_PRODUCT, DW_REDUCE_MIN, DW_REDUCE_MAX,
          DW_REDUCE_AVG, DW_REDUCE_PREMUL_SUM})
      rows.push_back(row(DW_BIT(kind),
                         reduced_types(version, capability, reduce),
                         1u << reduce, allowed_flags(kind)));
  return rows;
}

dw_caps_row window_row() {
  return row(
      DW_BIT(DW_OP_PUT) | DW_BIT(DW_OP_SIGNAL) | DW_BIT(DW_OP_WAIT_SIGNAL),
      dw_sdk::kEveryType, dw_sdk::kNoReduction,
      DW_FLAG_CALLER_WAITS | DW_FLAG_WITH_SIGNAL | DW_FLAG_ASIDE);
}

}  // namespace nccl_backend
