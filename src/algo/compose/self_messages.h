// Messages of a rank to itself, which never reach an engine.
//
// A send and a receive meet by their tag, equal ones in the order in which they
// were given. If their element types or counts differ, both fail.
//
// Threads: any.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_SELF_MESSAGES_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_SELF_MESSAGES_H_

#include "algo/below/cell.h"
#include "base/mutex.h"
#include "distwrap/abi/plugin.h"

#include <cstdint>
#include <deque>

namespace distwrap::algo::compose {

class SelfMessages {
 public:
  // Adds a send or receive. DW_DONE when its counterpart was there; else DW_OK,
  // and `cell` is notified later. Without a cell, a message that would have to
  // wait is refused.
  int32_t give(const dw_op& op, Cell* cell, dw_error* error);
  // How many of the messages that wait would take one of this kind and tag.
  int waiting_for(uint16_t kind, uint64_t tag);
  // Ends all waiting and all later messages with DW_ABORTED.
  void abort();

 private:
  struct Message {
    uint64_t tag;
    int type;  // DW_DTYPE_<NAME>
    uint64_t bytes;
    void* data;
    Cell* cell;
  };
  std::deque<Message>& opposite(uint16_t kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return kind == DW_OP_SEND ? receives_ : sends_;
  }

  base::Mutex mutex_;
  std::deque<Message> sends_ ABSL_GUARDED_BY(mutex_);
  std::deque<Message> receives_ ABSL_GUARDED_BY(mutex_);
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_SELF_MESSAGES_H_
