#include "comm/board/seen_call.h"

#include "comm/dtype_text.h"
#include "comm/op_shape.h"
#include "distwrap/reduce_op.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

namespace distwrap::comm {
uint64_t seen_call::print_of(const int64_t* counts, int size) {
  uint64_t print = 0;
  for (int r = 0; r < size; ++r)
    print = mix(print + static_cast<uint64_t>(counts[r]));
  return print;
}

std::string SeenCall::text() const {
  const OpShape& shape = op_shape(static_cast<uint16_t>(what & 0xff));
  std::string text =
      absl::StrCat((what & kExclusive) != 0 ? "exclusive " : "", shape.name);
  const dw_dtype dtype = {static_cast<uint8_t>(what >> 16 & 0x7f),
                          static_cast<uint8_t>(what >> 24), 1};
  if (const absl::string_view name = dtype_text(dtype); !name.empty()) {
    absl::StrAppend(&text, " ", name);
    if (count >= 0) absl::StrAppend(&text, " x ", count);
  }
  if ((what & kRegistered) != 0)
    absl::StrAppend(&text, " in the backend's memory");
  if ((what & kCaptured) != 0) absl::StrAppend(&text, " captured");
  if ((what & kWithCounts) != 0) absl::StrAppend(&text, " with counts");
  if ((what & kPrepared) != 0) absl::StrAppend(&text, " prepared");
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
