#include "comm/board/seen_call.h"

#include "comm/dtype_text.h"
#include "comm/op_shape.h"
#include "distwrap/reduce_op.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

namespace distwrap::comm {
namespace {

// The buffer that all ranks bring, or that holds what all of them know.
const dw_buf& common_buffer(const dw_op& op) {
  switch (op.kind) {
    case DW_OP_BROADCAST:
    case DW_OP_SCATTER:
    case DW_OP_REDUCE_SCATTER:
      return op.out;
    default:
      return op.in;
  }
}

}  // namespace

const int64_t* common_counts(const dw_op& op) {
  if ((op.flags & DW_FLAG_PER_RANK) == 0) return nullptr;
  if (op.kind == DW_OP_ALL_GATHER) return op.out.counts;
  if (op.kind == DW_OP_REDUCE_SCATTER) return op.in.counts;
  return nullptr;
}

SeenCall SeenCall::of(const dw_op& op, int size) {
  SeenCall seen;
  const dw_buf& buf = common_buffer(op);
  const bool per_rank = (op.flags & DW_FLAG_PER_RANK) != 0;
  const int32_t root = op_shape(op.kind).peer == PeerRole::ROOT ? op.peer : -1;
  uint64_t sizes = 0;
  if (op.kind != DW_OP_BARRIER) {
    seen.what = uint64_t{buf.dtype.code} << 16 | uint64_t{buf.dtype.bits} << 24;
    seen.count = per_rank ? kOwnCount : buf.count;
    sizes = static_cast<uint64_t>(seen.count);
  }
  if (const int64_t* const counts = common_counts(op); counts != nullptr)
    for (int r = 0; r < size; ++r)
      sizes = mix(sizes + static_cast<uint64_t>(counts[r]));
  if (per_rank) seen.what |= kWithCounts;
  if ((op.flags & DW_FLAG_EXCLUSIVE) != 0) seen.what |= kExclusive;
  seen.what |= uint64_t{op.kind & 0xffu} | uint64_t{op.reduce & 0xfu} << 8 |
               uint64_t{static_cast<uint32_t>(root)} << 32;
  seen.print = mix(seen.what + mix(sizes));
  return seen;
}

std::string SeenCall::text() const {
  const OpShape& shape = op_shape(static_cast<uint16_t>(what & 0xff));
  std::string text =
      absl::StrCat((what & kExclusive) != 0 ? "exclusive " : "", shape.name);
  const dw_dtype dtype = {static_cast<uint8_t>(what >> 16),
                          static_cast<uint8_t>(what >> 24), 1};
  if (const absl::string_view name = dtype_text(dtype); !name.empty()) {
    absl::StrAppend(&text, " ", name);
    if (count >= 0) absl::StrAppend(&text, " x ", count);
  }
  if ((what & kWithCounts) != 0) absl::StrAppend(&text, " with counts");
  if (shape.reduces())
    absl::StrAppend(
        &text, " ",
        reduce_op_name(static_cast<ReduceOp::Kind>(what >> 8 & 0xf)));
  if (const auto root = static_cast<int32_t>(what >> 32); root >= 0)
    absl::StrAppend(&text,
                    shape.out == Extent::ROOT || shape.out == Extent::ROOT_R
                        ? " to rank "
                        : " from rank ",
                    root);
  return text;
}

std::string seen_word(absl::string_view bytes) {
  std::string word(bytes.substr(0, bytes.find('\0')));
  for (char& c : word)
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  return word;
}

}  // namespace distwrap::comm
