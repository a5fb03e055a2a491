// A window of a group whose backend has only messages: this rank's operations
// on the parts of other ranks, sent by the active-message service, and on its
// own part.
//
// A small put, accumulate or signal has ended when it is queued; a large one
// when its source was sent. Operations with results wait for them. A target
// processes the operations of each rank in order, so a fence has nothing to do,
// and one answer confirms everything before it.
//
// Threads: any, except `close`, which comes last. Ownership: the host.
#ifndef DISTWRAP_SRC_ALGO_WINDOWS_WINDOW_H_
#define DISTWRAP_SRC_ALGO_WINDOWS_WINDOW_H_

#include "algo/windows/message_service.h"
#include "algo/windows/part.h"
#include "distwrap/abi/plugin.h"

#include <atomic>
#include <memory>

namespace distwrap::algo::windows {

// Appends the capability rows of composed windows: two rows, and those of the
// reductions.
void append_rows(std::vector<dw_caps_row>* rows);

class Window {
 public:
  // Throws std::bad_alloc.
  Window(std::shared_ptr<MessageService> service, std::shared_ptr<Part> part);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  int32_t query(const dw_op& op, dw_error* error) const;
  int32_t submit(const dw_op& op, dw_work* work, dw_error* error);
  // Maps this rank's own part only.
  int32_t map(int32_t rank, void** address, uint64_t* bytes,
              dw_error* error) const;
  // Afterwards nothing is written to the part, and all peers that can be
  // reached by the deadline know it. Waits for 50 ms at most.
  void close(int64_t deadline_ns);

 private:
  int32_t check(const dw_op& op, dw_error* error) const;
  int32_t wait_signal(const dw_op& op, Deadline deadline, dw_error* error);
  int32_t flush(const dw_op& op, dw_work* work, Deadline deadline,
                dw_error* error);
  int32_t run_here(const dw_op& op);
  int32_t send(const dw_op& op, dw_work* work, Deadline deadline,
               dw_error* error);
  dw_reduce_fn kernel(const dw_op& op) const;

  const std::shared_ptr<MessageService> service_;
  const std::shared_ptr<Part> part_;
  const int rank_, size_;
  // By rank: the number of operations sent, and the number known to be done.
  const std::unique_ptr<std::atomic<uint64_t>[]> sent_, done_;
};

}  // namespace distwrap::algo::windows

#endif  // DISTWRAP_SRC_ALGO_WINDOWS_WINDOW_H_
