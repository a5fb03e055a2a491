// The thread of a communicator's asynchronous operations.
//
// Collectives run in it one after the other. Messages are posted by the caller,
// so that none waits for another to start; the thread waits for them, and lets
// go at once when there is a collective to run, and from time to time when
// there is another message that may have arrived. A collective that waits for
// its peers lets go for messages, too: a peer may come to it only when it has
// an answer to one of them.
//
// Threads: `run` and `wait_for` from one thread at a time. [comm]
#ifndef DISTWRAP_BACKENDS_GLOO_WORKER_H_
#define DISTWRAP_BACKENDS_GLOO_WORKER_H_

#include "call.h"
#include "desk.h"
#include "device.h"
#include "lanes.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace gloo_backend {

// A send or receive that Gloo has begun.
struct Posted {
  std::unique_ptr<Lane> lane;
  Way way = Way::kSend;
  dw_work* work = nullptr;
};

class Worker final : private Meanwhile {
 public:
  explicit Worker(dw_comm* comm);
  // Ends after the operations that it was given.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run(Call&& call, dw_work* work);
  void wait_for(Posted message);

 private:
  struct Collective {
    Call call;
    dw_work* work;
  };

  struct Awaited {
    Lane* lane = nullptr;
    Way way = Way::kSend;
  };

  void loop();
  void finish(Lane& lane, Way way) override;
  // Whether one more transfer of the lane is complete; without the lock.
  bool await(std::unique_lock<std::mutex>& lock, Lane& lane, Way way);
  void run_collective(std::unique_lock<std::mutex>& lock);
  void wait_for_message(std::unique_lock<std::mutex>& lock);
  void let_go();
  // There is a turn for each message, and one for the collective that runs.
  void set_alarm();

  dw_comm* const comm_;
  Desk desk_;  // the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Collective> collectives_;
  std::deque<Posted> messages_;
  Awaited awaited_;   // by the thread, without the mutex
  size_t turns_ = 0;  // taken from the queues, not ended
  bool alarmed_ = false;
  bool ending_ = false;
  Device::Alarm alarm_;
  std::thread thread_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_WORKER_H_
