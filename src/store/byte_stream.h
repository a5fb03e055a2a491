// A connected stream of bytes whose every step has a deadline: a Unix socket,
// or a control connection to another host.
//
// Threads: one at a time.
#ifndef DISTWRAP_SRC_STORE_BYTE_STREAM_H_
#define DISTWRAP_SRC_STORE_BYTE_STREAM_H_

#include "distwrap/deadline.h"

#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <cstddef>

namespace distwrap::store {

// The end of a step.
struct Io {
  enum Kind { kDone, kTimedOut, kInterrupted, kBroken } kind = kDone;
  int error = 0;  // errno for kBroken; 0 when the peer has closed
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual Io send(absl::string_view bytes, Deadline deadline) = 0;
  // Receives exactly `size` bytes.
  virtual Io receive(char* bytes, size_t size, Deadline deadline) = 0;
  // Ends steps that wait in another thread, and all later ones. [any]
  virtual void shut() = 0;
  // Whether the peer has ended the stream, as far as that can be seen without
  // waiting.
  virtual bool has_ended() { return false; }
  // From now on the peer answers a request within this time. A stream that has
  // another way to the peer takes it when no answer comes.
  virtual void expect_answers_within(absl::Duration /*time*/) {}
};

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_BYTE_STREAM_H_
