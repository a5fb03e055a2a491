// A window of a group whose backend has messages only: what this rank does to
// the parts of the others, sent by the courier, and to its own.
//
// A small put, accumulate or signal has ended when it is on its way; a large
// one when its source was sent. What gives results waits for them. All that a
// rank sends to a target is done there in its order, so a fence has nothing to
// do, and one answer tells of everything before it.
//
// Threads: any, but `close`, which comes last. Ownership: of the host.
#ifndef DISTWRAP_SRC_ALGO_WINDOWS_WINDOW_H_
#define DISTWRAP_SRC_ALGO_WINDOWS_WINDOW_H_

#include "algo/windows/courier.h"
#include "algo/windows/part.h"
#include "distwrap/abi/plugin.h"

#include <atomic>
#include <memory>

namespace distwrap::algo::windows {

// What is composed, in two rows and those of the reductions.
void append_rows(std::vector<dw_caps_row>* rows);

class Window {
 public:
  // Throws std::bad_alloc.
  Window(std::shared_ptr<Courier> courier, std::shared_ptr<Part> part);
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  int32_t query(const dw_op& op, dw_error* error) const;
  int32_t submit(const dw_op& op, dw_work* work, dw_error* error);
  // The own part alone.
  int32_t map(int32_t rank, void** address, uint64_t* bytes,
              dw_error* error) const;
  // Nothing is written to the part any more, and who can be reached by the
  // deadline knows that. Waits for 50 ms at most.
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

  const std::shared_ptr<Courier> courier_;
  const std::shared_ptr<Part> part_;
  const int rank_, size_;
  // By rank: what was sent there, and how much of it is known to be done.
  const std::unique_ptr<std::atomic<uint64_t>[]> sent_, done_;
};

}  // namespace distwrap::algo::windows

#endif  // DISTWRAP_SRC_ALGO_WINDOWS_WINDOW_H_
