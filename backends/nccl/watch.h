// The operations that the device has not ended yet, and the thread of an
// instance that sees their ends, NCCL's asynchronous errors, and broken
// communicators, which it aborts.
#ifndef DISTWRAP_BACKENDS_NCCL_WATCH_H_
#define DISTWRAP_BACKENDS_NCCL_WATCH_H_

#include "cuda_types.h"
#include "distwrap/abi/plugin.h"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace nccl_backend {

struct Backend;
struct Comm;

// An enqueued operation. It is one of a list, and used again with its event.
struct Flight {
  Comm* comm = nullptr;
  dw_work* work = nullptr;
  CUevent_st* event = nullptr;
  CUstream_st* stream = nullptr;  // where the event is
  Flight* next = nullptr;
};

// Threads: any, unless stated otherwise.
class Watch {
 public:
  explicit Watch(Backend* backend) : backend_(backend) {}
  // No operation is in flight.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  int32_t start(dw_error* error);

  void add(Comm* comm);
  // After this the thread does not know the communicator any more.
  void remove(Comm* comm);
  // A communicator has broken.
  void hurry();

  // A flight with an event of the device. It goes back by `put_back`, or by
  // `depart`, which makes it known to the thread.
  int32_t take(Flight** flight, dw_error* error);
  void put_back(Flight* flight);
  void depart(Flight* flight);

  // Ends what the device has ended. Returns the number of operations; never
  // blocks.
  int look();
  // Lets `stream` wait for the operation of `work`. DW_DONE when it has ended.
  int32_t wait_stream(const dw_work* work, CUstream_st* stream,
                      dw_error* error);

 private:
  void run();
  // Moves ended flights to `*ended`. Precondition: the mutex is held.
  void collect(Flight** ended);
  // Tells the host of them, and keeps them for later. Returns their number.
  int finish(Flight* ended);
  void ask_for_errors();
  bool idle() const;

  Backend* const backend_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Comm*> comms_;
  // In the order of their departure; `last_` is where the next one goes.
  Flight* flying_ = nullptr;
  Flight** last_ = &flying_;
  Flight* free_ = nullptr;
  bool ending_ = false, hurried_ = false;
  std::thread thread_;
};

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_WATCH_H_
