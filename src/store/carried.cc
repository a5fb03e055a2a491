#include "store/carried.h"

#include "base/bytes.h"

#include <algorithm>
#include <functional>

namespace distwrap::store {
namespace {

base::ByteWriter head(Carried what, uint32_t stream, absl::string_view bytes) {
  base::ByteWriter out;
  out.u8(static_cast<uint8_t>(what));
  out.u32(stream);
  out.u32(static_cast<uint32_t>(bytes.size()));
  return out;
}

}  // namespace

std::string carried(Carried what, uint32_t stream, absl::string_view bytes) {
  base::ByteWriter out = head(what, stream, bytes);
  out.bytes(bytes);
  return out.take();
}

std::string carried_to(absl::Span<const uint32_t> streams,
                       absl::string_view bytes) {
  base::ByteWriter out =
      head(Carried::kCopies, static_cast<uint32_t>(streams.size()), bytes);
  for (const uint32_t stream : streams) out.u32(stream);
  out.bytes(bytes);
  return out.take();
}

bool CarriedReader::pass(absl::string_view arrived, Take take) {
  while (!arrived.empty()) {
    if (left_ > 0) {
      const absl::string_view piece = arrived.substr(0, left_);
      left_ -= piece.size();
      arrived.remove_prefix(piece.size());
      for (const uint32_t stream : streams_)
        take(Carried::kBytes, stream, piece);
      continue;
    }
    const size_t missing = std::min(head_size_ - head_.size(), arrived.size());
    head_.append(arrived.data(), missing);
    arrived.remove_prefix(missing);
    if (head_.size() == head_size_ && !take_head(take)) return false;
  }
  return true;
}

// Reads a head whose `head_size_` bytes have come. False: it breaks a rule.
bool CarriedReader::take_head(Take take) {
  base::ByteReader in(head_);
  const auto what = static_cast<Carried>(in.u8());
  const uint32_t stream = in.u32();
  left_ = in.u32();
  if (what == Carried::kCopies && head_size_ == kHeadBytes) {
    head_size_ += stream * sizeof(uint32_t);
    left_ = 0;
    return stream >= 2 && stream <= kMostCopies;
  }
  streams_.assign(1, stream);
  if (what == Carried::kCopies) {
    streams_.clear();
    for (uint32_t i = 0; i < stream; ++i) streams_.push_back(in.u32());
    if (std::adjacent_find(streams_.begin(), streams_.end(),
                           std::greater_equal<>()) != streams_.end())
      return false;
  }
  head_.clear();
  head_size_ = kHeadBytes;
  if (what == Carried::kBytes || what == Carried::kCopies) return true;
  if (left_ != 0 || (what != Carried::kOpen && what != Carried::kEnd))
    return false;
  take(what, stream, {});
  return true;
}

}  // namespace distwrap::store
