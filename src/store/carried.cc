#include "store/carried.h"

#include "base/bytes.h"

#include <algorithm>

namespace distwrap::store {
namespace {

constexpr size_t kHeadBytes = sizeof(uint8_t) + 2 * sizeof(uint32_t);

}  // namespace

std::string carried(Carried what, uint32_t stream, absl::string_view bytes) {
  base::ByteWriter out;
  out.u8(static_cast<uint8_t>(what));
  out.u32(stream);
  out.text(bytes);  // writes the size, too
  return out.take();
}

bool CarriedReader::pass(absl::string_view arrived, Take take) {
  while (!arrived.empty()) {
    if (left_ > 0) {
      const absl::string_view piece = arrived.substr(0, left_);
      left_ -= piece.size();
      arrived.remove_prefix(piece.size());
      take(Carried::kBytes, stream_, piece);
      continue;
    }
    const size_t missing = std::min(kHeadBytes - head_.size(), arrived.size());
    head_.append(arrived.data(), missing);
    arrived.remove_prefix(missing);
    if (head_.size() < kHeadBytes) return true;
    base::ByteReader in(head_);
    const auto what = static_cast<Carried>(in.u8());
    stream_ = in.u32();
    left_ = in.u32();
    head_.clear();
    if (what == Carried::kBytes) continue;
    if (left_ != 0 || (what != Carried::kOpen && what != Carried::kEnd))
      return false;
    take(what, stream_, {});
  }
  return true;
}

}  // namespace distwrap::store
