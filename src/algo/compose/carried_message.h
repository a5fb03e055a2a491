// A message of an element type for which the backend below has no messages.
//
// Its bytes are sent as another type, for which the backend cannot compare the
// callers' element types. So a head with the same tag precedes them and gives
// element type and count.
//
// Threads: any. Ownership: its own, until both parts have ended below.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_CARRIED_MESSAGE_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_CARRIED_MESSAGE_H_

#include "algo/below/cell.h"
#include "distwrap/abi/plugin.h"

#include <atomic>
#include <cstdint>

namespace distwrap::algo::compose {

class Comm;

class CarriedMessage {
 public:
  // Submits both parts below; DW_AGAIN while the backend lacks resources,
  // unless it `waits` for them. DW_OK: `above` is told of the end; DW_DONE: it
  // has ended well, and `above` is not told; an error: nothing has started, or
  // all of it has ended.
  static int32_t start(Comm& comm, const dw_op& op, Cell& above, bool waits,
                       dw_error* error);

 private:
  struct TypeAndSize {
    uint64_t type;  // DW_DTYPE_<NAME>
    uint64_t bytes;
  };
  class MessagePart final : public Cell {
   public:
    explicit MessagePart(CarriedMessage& message) : message_(message) {}
    ~MessagePart() override = default;
    void end(int32_t code, const dw_error* error) override;
    int32_t code = DW_OK;
    dw_error error = {};

   private:
    CarriedMessage& message_;
  };

  CarriedMessage(Comm& comm, const dw_op& op, Cell& above);
  int32_t submit(MessagePart& part, void* data, uint64_t bytes, int as,
                 bool waits, dw_error* error);
  // Returns whether this was the last of the two parts and the call of `start`.
  bool leave() { return left_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  int32_t result(dw_error* error) const;

  Comm& comm_;
  const dw_op op_;
  Cell& above_;
  TypeAndSize mine_, theirs_;
  MessagePart head_, bytes_;
  std::atomic<int> left_ = 3;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_CARRIED_MESSAGE_H_
