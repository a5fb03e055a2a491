#include "store/frame_follower.h"

#include "base/bytes.h"
#include "store/wire.h"

#include <algorithm>
#include <optional>

namespace distwrap::store {
namespace {

// The op and the time limit, behind the header.
constexpr size_t kStart = kHeaderBytes + sizeof(uint8_t) + sizeof(int64_t);

}  // namespace

void FrameFollower::pass(absl::string_view bytes) {
  while (!bytes.empty()) {
    const size_t skipped = std::min(left_, bytes.size());
    left_ -= skipped;
    bytes.remove_prefix(skipped);
    if (bytes.empty()) return;
    start_ += bytes.front();
    bytes.remove_prefix(1);
    if (start_.size() < kHeaderBytes) continue;
    // The server ends a connection with a bad header.
    const size_t size =
        decode_header(absl::string_view(start_).substr(0, kHeaderBytes))
            .value_or(0);
    if (start_.size() < std::min(kStart, kHeaderBytes + size)) continue;
    if (start_.size() == kStart) {
      base::ByteReader in(absl::string_view(start_).substr(kHeaderBytes));
      const auto op = static_cast<Op>(in.u8());
      const int64_t timeout_ns = in.i64();
      if (op == Op::kWill || op == Op::kResume) silence_ns_ = timeout_ns;
    }
    left_ = kHeaderBytes + size - start_.size();
    start_.clear();
  }
}

}  // namespace distwrap::store
