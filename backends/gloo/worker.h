// The thread of a communicator's asynchronous operations.
//
// Collectives run in it one after the other. Messages are begun by the caller,
// so that none waits for another to start. Those that meet in their order share
// a lane; the thread waits for one lane, and lets go at once when there is a
// collective to run, or when something comes from another rank, to wait for
// that one, and from time to time while something is sent. A collective that
// waits for its peers lets go for messages, too: a peer may come to it only
// when it has an answer to one of them.
//
// Threads: `run` and `post` from one thread at a time. [comm]
#ifndef DISTWRAP_BACKENDS_GLOO_WORKER_H_
#define DISTWRAP_BACKENDS_GLOO_WORKER_H_

#include "call.h"
#include "desk.h"
#include "device.h"
#include "lanes.h"

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

class Worker final : private Meanwhile {
 public:
  explicit Worker(dw_comm* comm);
  // Ends after the operations that it was given.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run(Call&& call, dw_work* work);
  // Begins a send or receive. Throws what Gloo throws.
  void post(const Call& call, dw_work* work);

 private:
  struct Collective {
    Call call;
    dw_work* work;
  };

  // Messages that Gloo has begun, of one peer and slot, in their order.
  struct Posted {
    std::unique_ptr<Lane> lane;
    Way way = Way::kSend;
    uint64_t slot = 0;
    std::deque<dw_work*> works;
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
  // Something has come from a rank: in Gloo's thread, and at its next turn.
  void arrived(int rank);
  void look_at_arrivals();
  // For when somebody else than who is waited for may have ended.
  void set_alarm();

  dw_comm* const comm_;
  Desk desk_;  // the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Collective> collectives_;
  std::list<Posted> messages_;
  Awaited awaited_;   // by the thread, without the mutex
  size_t sends_ = 0;  // lanes
  size_t turns_ = 0;  // to take before only arrivals are looked at
  bool collective_runs_ = false;
  std::chrono::microseconds period_{0};  // of the alarm
  bool ending_ = false;
  std::vector<std::atomic<bool>> has_come_;  // by rank
  Device::Alarm alarm_, bell_;
  std::thread thread_;
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_WORKER_H_
