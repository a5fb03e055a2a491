// Follows the requests of a client as they pass by in pieces, without keeping
// them.
//
//   follower.pass(bytes);
//   if (follower.is_between_frames()) ...  // another frame may go between
//
// Threads: one. Ownership: a value.
#ifndef DISTWRAP_SRC_STORE_FRAME_FOLLOWER_H_
#define DISTWRAP_SRC_STORE_FRAME_FOLLOWER_H_

#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace distwrap::store {

class FrameFollower {
 public:
  void pass(absl::string_view bytes);
  // Whether every frame that has begun has ended.
  bool is_between_frames() const { return start_.empty() && left_ == 0; }
  // The silence after which the client's will holds, in nanoseconds; 0: it has
  // left none.
  int64_t silence_ns() const { return silence_ns_; }

 private:
  // The first bytes of the frame that has begun, as far as they are read.
  std::string start_;
  size_t left_ = 0;  // bytes of it that come behind these
  int64_t silence_ns_ = 0;
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_FRAME_FOLLOWER_H_
