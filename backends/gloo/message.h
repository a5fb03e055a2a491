// One message between two ranks, as Gloo carries it.
//
// The head says element type and size. Its slot holds only the tag, so that the
// oldest message of a tag meets the oldest receive, whatever their types and
// sizes. A short payload goes behind the head, into memory of the receiver's
// backend. A longer one has a slot made of its type and size, in which it meets
// only a receive that expects it. Both transfers begin at once, so no message
// waits for an answer.
#ifndef DISTWRAP_BACKENDS_GLOO_MESSAGE_H_
#define DISTWRAP_BACKENDS_GLOO_MESSAGE_H_

#include "call.h"
#include "lanes.h"

#include <cstddef>
#include <cstdint>

namespace gloo_backend {

class Message {
 public:
  Message(const EngineOp& call, int rank);

  Direction direction() const { return direction_; }
  // Bytes of the frame: of the head, and of what goes behind it.
  size_t frame_bytes() const;
  // Whether the payload has a transfer of its own.
  bool is_long() const { return piece_.bytes > kBehindHead; }

  // Begins all transfers; throws Gloo's exceptions. `payload` is the lane of a
  // long payload. Frame and lanes stay until the transfers have ended.
  void begin(char* frame, Lane& head, Lane* payload);
  // Called after the end of the head's transfer: takes the payload behind the
  // head. DW_OK, or the message does not fit the receive.
  int32_t take_head(dw_error* error) const;

 private:
  struct Head {
    uint64_t bytes;
    uint64_t type;  // DW_DTYPE_<NAME>
  };
  // More than that is cheaper to send by itself than to copy twice.
  static constexpr size_t kBehindHead = size_t{64} * 1024;

  Direction direction_;
  int rank_, peer_;
  uint64_t tag_;
  int type_;
  Piece piece_;
  char* frame_ = nullptr;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_MESSAGE_H_
