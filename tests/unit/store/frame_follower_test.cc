#include "store/frame_follower.h"

#include "store/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace distwrap::store {
namespace {

TEST(FrameFollower, KnowsBetweenWhichBytesAnotherFrameMayGo) {
  const std::string frames[] = {
      encode(Request{.op = Op::kWait, .timeout_ns = 7, .keys = {"a", "b"}}),
      encode(Request{.op = Op::kWill,
                     .timeout_ns = 400'000'000,
                     .keys = {"log"},
                     .value = std::string(1000, 'x')}),
      std::string(kBeat),
      encode(Request{.op = Op::kGetAll, .timeout_ns = 9, .keys = {"c"}})};
  std::string all;
  std::vector<size_t> ends = {0};
  for (const std::string& frame : frames) {
    all += frame;
    ends.push_back(all.size());
  }
  for (size_t piece = 1; piece <= all.size(); piece = piece * 2 + 1) {
    FrameFollower follower;
    for (size_t at = 0; at < all.size();) {
      const size_t some = std::min(piece, all.size() - at);
      follower.pass(absl::string_view(all).substr(at, some));
      at += some;
      EXPECT_EQ(follower.is_between_frames(),
                std::find(ends.begin(), ends.end(), at) != ends.end())
          << at << " in pieces of " << piece;
      if (at < ends[1]) {
        EXPECT_EQ(follower.silence_ns(), 0);
      }
      if (at >= ends[2]) {
        EXPECT_EQ(follower.silence_ns(), 400'000'000);
      }
    }
  }
}

}  // namespace
}  // namespace distwrap::store
