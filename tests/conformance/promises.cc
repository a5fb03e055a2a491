#include "promises.h"

#include <algorithm>

namespace distwrap::conformance {
namespace {

bool has_bit(uint64_t mask, int bit) {
  return bit >= 0 && bit < 64 && (mask >> bit & 1) != 0;
}

}  // namespace

bool Promises::has_kind(uint16_t kind) const {
  return std::any_of(rows, rows + n, [&](const dw_caps_row& row) {
    return has_bit(row.ops, kind) && has_bit(row.memory, DW_DEVICE_CPU);
  });
}

bool Promises::has(uint16_t kind, int dtype, uint16_t reduce,
                   uint32_t flags) const {
  return std::any_of(rows, rows + n, [&](const dw_caps_row& row) {
    return has_bit(row.ops, kind) && has_bit(row.memory, DW_DEVICE_CPU) &&
           (kind == DW_OP_BARRIER || has_bit(row.dtypes, dtype)) &&
           has_bit(row.reductions, reduce) && (flags & ~row.flags) == 0;
  });
}

bool Promises::has(const Case& c) const {
  return (groups || !c.grouped()) && has(c.kind, c.dtype, c.reduce, c.flags());
}

Promises promises_of(const Member& member) {
  Promises promises;
  dw_error error = {};
  const int32_t code =
      member.api.caps(member.backend, &promises.rows, &promises.n, &error);
  promises.groups = member.api.submit_group != nullptr;
  if (code == DW_OK) return promises;
  member.find("caps: " + error_text(code, error));
  return {};
}

int message_dtype(const Promises& promises, bool caller_waits) {
  const uint32_t flags = caller_waits ? DW_FLAG_CALLER_WAITS : 0;
  for (int dtype = 0; dtype < kDtypes; ++dtype)
    if (promises.has(DW_OP_SEND, dtype, DW_REDUCE_NONE, flags) &&
        promises.has(DW_OP_RECV, dtype, DW_REDUCE_NONE, flags))
      return dtype;
  return -1;
}

}  // namespace distwrap::conformance
