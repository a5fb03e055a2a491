#include "promises.h"

namespace nccl_backend {
namespace {

dw_caps_row row(uint64_t kinds, uint64_t types, uint32_t reductions,
                uint32_t flags) {
  dw_caps_row made = dw_sdk::caps_row(kinds, types, reductions, flags);
  made.memory = DW_BIT(DW_DEVICE_CUDA);
  return made;
}

}  // namespace

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
