// Messages of a rank to itself, which no engine needs to know.
//
// A send and a receive meet by their tag, equal ones in the order in which they
// were given. If their sizes differ, both fail.
//
// Threads: any.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_SELF_MESSAGES_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_SELF_MESSAGES_H_

#include "algo/compose/cell.h"
#include "base/mutex.h"
#include "distwrap/abi/plugin.h"

#include <cstdint>
#include <deque>

namespace distwrap::algo::compose {

class SelfMessages {
 public:
  // DW_DONE when its counterpart was there; else DW_OK, and `cell` is told.
  // Without a cell a message that would have to wait is refused.
  int32_t give(const dw_op& op, uint64_t bytes, Cell* cell, dw_error* error);
  // How many of the messages that wait would take one of this kind and tag.
  int waiting_for(uint16_t kind, uint64_t tag);
  // All that wait end with DW_ABORTED, and so do later ones.
  void abort();

 private:
  struct Message {
    uint64_t tag;
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
