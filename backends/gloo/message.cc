#include "message.h"

#include "sdk/message_mismatch.h"
#include "slots.h"

#include <cstring>

namespace gloo_backend {

Message::Message(const EngineOp& call, int rank)
    : direction_(call.kind == DW_OP_SEND ? Direction::kSend
                                         : Direction::kReceive),
      rank_(rank),
      peer_(call.peer),
      tag_(call.tag),
      type_(dw_dtype_index(call.dtype)),
      piece_(direction_ == Direction::kSend ? call.in : call.out) {}

size_t Message::frame_bytes() const {
  // A receiver has room for any payload behind the head.
  const size_t behind = direction_ == Direction::kReceive ? kBehindHead
                        : is_long()                       ? 0
                                                          : piece_.bytes;
  return sizeof(Head) + behind;
}

// The payload begins first: the head then comes while it moves.
void Message::begin(char* frame, Lane& head, Lane* payload) {
  frame_ = frame;
  if (is_long()) {
    const uint64_t slot =
        payload_slot(tag_, static_cast<uint64_t>(type_), piece_.bytes);
    if (direction_ == Direction::kSend)
      payload->send(piece_.at, piece_.bytes, slot);
    else
      payload->receive(piece_.at, piece_.bytes, slot);
  }
  if (direction_ == Direction::kReceive)
    return head.receive(frame, frame_bytes(), head_slot(tag_));
  const Head mine = {piece_.bytes, static_cast<uint64_t>(type_)};
  std::memcpy(frame, &mine, sizeof mine);
  if (!is_long() && piece_.bytes != 0)
    std::memcpy(frame + sizeof mine, piece_.at, piece_.bytes);
  head.send(frame, frame_bytes(), head_slot(tag_));
}

int32_t Message::take_head(dw_error* error) const {
  if (direction_ == Direction::kSend) return DW_OK;
  Head theirs;
  std::memcpy(&theirs, frame_, sizeof theirs);
  if (theirs.bytes != piece_.bytes ||
      theirs.type != static_cast<uint64_t>(type_))
    return dw_sdk::fail_message_mismatch(
        {rank_, type_, piece_.bytes},
        {peer_, static_cast<int>(theirs.type), theirs.bytes}, tag_, error);
  if (!is_long() && piece_.bytes != 0)
    std::memcpy(piece_.at, frame_ + sizeof theirs, piece_.bytes);
  return DW_OK;
}

}  // namespace gloo_backend
