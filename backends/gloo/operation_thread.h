// The thread of a communicator's asynchronous operations.
//
// Collectives run in the thread one after the other. The caller starts messages
// itself, so that no message waits for the start of another. Messages that
// match in order share a lane. The thread waits for one lane at a time. It
// interrupts the wait when there is a collective to run, when data arrive from
// another rank, and from time to time while something is sent. A collective
// that waits for its peers is interrupted for messages, too: a peer may come to
// the collective only after it has the answer to one of them.
//
// Threads: `run` and `post` from one thread at a time. [comm]
#ifndef DISTWRAP_BACKENDS_GLOO_OPERATION_THREAD_H_
#define DISTWRAP_BACKENDS_GLOO_OPERATION_THREAD_H_

#include "call.h"
#include "desk.h"
#include "device.h"
#include "lanes.h"
#include "message.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace gloo_backend {

class OperationThread final : private Meanwhile {
 public:
  explicit OperationThread(dw_comm* comm);
  // Ends after all given operations.
  ~OperationThread();
  // Starts the thread; called before anything else. DW_OK, or why it cannot
  // start.
  int32_t start(dw_error* error);
  OperationThread(const OperationThread&) = delete;
  OperationThread& operator=(const OperationThread&) = delete;

  void run(EngineOp&& call, dw_work* work);
  // Starts a send or receive. Throws Gloo's exceptions.
  void post(const EngineOp& call, dw_work* work);

 private:
  struct Collective {
    EngineOp call;
    dw_work* work;
  };

  // Gloo may use a frame and the caller's memory until their lane is destroyed,
  // so lanes are destroyed before frames.
  struct Item {
    Message message;
    dw_work* work;
    std::unique_ptr<char[]> frame;
    // The lane of a long payload, until it is waited for.
    std::unique_ptr<Lane> payload;
  };

  // Messages whose heads Gloo has begun to move, of one peer and tag, in their
  // order; or one message whose payload is awaited.
  struct Posted {
    std::list<Item> items;
    std::unique_ptr<Lane> lane;
    Direction direction = Direction::kSend;
    uint64_t slot = 0;  // place among the heads; 0: a payload
  };

  struct Awaited {
    Lane* lane = nullptr;
    Direction direction = Direction::kSend;
  };

  void loop();
  void finish(Lane& lane, Direction direction) override;
  // Whether one more transfer of the lane is complete; called without the lock.
  bool await(std::unique_lock<std::mutex>& lock, Lane& lane,
             Direction direction);
  void run_collective(std::unique_lock<std::mutex>& lock);
  void wait_for_message(std::unique_lock<std::mutex>& lock);
  // DW_OK: the message is there. DW_AGAIN: its payload is awaited.
  int32_t take_first_head(std::list<Posted>::iterator posted, dw_error* error);
  // Removes a message from the awaited ones.
  std::unique_ptr<Lane> drop(std::list<Posted>::iterator posted);
  void let_go();
  // Notes in Gloo's thread that data have come from a rank; acts in the
  // thread's next turn.
  void arrived(int rank);
  void look_at_arrivals();
  // Sets the alarm for transfers other than the awaited one that may have
  // ended.
  void set_alarm();

  dw_comm* const comm_;
  Desk desk_;  // used by the thread only
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Collective> collectives_;
  std::list<Posted> messages_;
  Awaited awaited_;   // changed by the thread, without the mutex
  size_t sends_ = 0;  // number of lanes with sends
  size_t turns_ = 0;  // turns to take before only arrivals are checked
  bool collective_runs_ = false;
  std::chrono::microseconds period_{0};  // period of the alarm
  bool ending_ = false;
  std::vector<std::atomic<bool>> has_come_;  // by rank
  Device::Alarm alarm_, bell_;
  std::thread thread_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_OPERATION_THREAD_H_
