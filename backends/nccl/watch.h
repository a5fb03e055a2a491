// The operations that the device has not ended yet, and the thread of an
// instance that sees their ends, NCCL's asynchronous errors, and broken
// communicators, which it aborts.
#ifndef DISTWRAP_BACKENDS_NCCL_WATCH_H_
#define DISTWRAP_BACKENDS_NCCL_WATCH_H_

#include "cuda_types.h"
#include "distwrap/abi/plugin.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace nccl_backend {

struct Backend;
struct Block;
struct Comm;
struct NcclPart;

// "all_reduce"
const char* name_of_kind(uint16_t kind);
// "all_reduce #4"
std::string operation_name(uint16_t kind, uint64_t seq);
// "has been running for 3.000 s"
std::string running_for(int64_t ns);

// When the device begins an operation. Those of one stream follow each other.
enum class Begins : uint8_t {
  kAfterPrevious,  // when the one before it in its stream has ended
  kAtEvent,        // then, and when `before` has happened
  kWithPrevious,   // with that one: both are of one group of NCCL
};

// An enqueued operation. It is one of a list, and used again with its events.
struct Flight {
  Comm* comm = nullptr;
  dw_work* work = nullptr;
  CUevent_st* before = nullptr;  // the end of earlier work of its stream
  CUevent_st* event = nullptr;
  // The end of the operation: `event`, or that of a later one of its group,
  // which then flies until this one has ended.
  CUevent_st* end = nullptr;
  CUstream_st* stream = nullptr;  // where it runs
  // Memory of mem_alloc that it uses.
  Block* in = nullptr;
  Block* out = nullptr;
  Begins begins = Begins::kAfterPrevious;
  uint16_t kind = 0;
  uint64_t seq = 0;
  // The device had ended it before NCCL was told to abort: its result is good.
  bool whole = false;
  uint64_t number = 0;     // rises in the order in which they are enqueued
  int64_t begun_ns = 0;    // 0: the device has not begun it
  int result = 0;          // the driver's, once it has ended
  Flight* next = nullptr;  // in its stream, or in another list
  // The first flight of each stream has the first one of the next stream, and
  // the last one of its own.
  Flight* next_stream = nullptr;
  Flight* last = nullptr;
};

// Flights that any thread hands over without a lock, newest first.
class Handover {
 public:
  // A chain by `next`, from `newest` to `oldest`.
  void push(Flight* newest, Flight* oldest) {
    oldest->next = newest_.load(std::memory_order_relaxed);
    while (!newest_.compare_exchange_weak(oldest->next, newest)) {
    }
  }
  Flight* take_all() { return newest_.exchange(nullptr); }
  bool empty() const { return newest_.load() == nullptr; }

 private:
  std::atomic<Flight*> newest_ = nullptr;
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
  // Ends the thread. False: it has not come out of NCCL in time. Then it is the
  // thread that frees the instance, when it comes out.
  bool stop(std::chrono::nanoseconds patience);

  void add(Comm* comm);
  // After this the thread does not know the communicator any more.
  void remove(Comm* comm);
  // A communicator has broken.
  void hurry();
  // Graphs have operations whose replays are watched: from now on the thread
  // looks now and then, also when nothing flies.
  void watch_replays();

  // A flight with events of the device. It goes back by `put_back`, or by
  // `depart`, which makes it known to the thread. Precondition: the device's
  // lock of calls is held.
  int32_t take(Flight** flight, dw_error* error);
  void put_back(Flight* flight);
  // Flights of one group of NCCL, linked by `next` from the last to the first.
  void depart(Flight* last, Flight* first);
  // The number of times that `depart` had to wake the thread.
  int wake_ups();
  // Between these two the caller's thread itself waits for the end; the second
  // says whether what has ended is whole.
  void begin_wait(Flight* flight);
  void end_wait(Flight* flight);

  // Ends what the device has ended. Returns the number of operations; never
  // blocks.
  int look();
  // Lets `stream` wait for the operation of `work`. DW_DONE when it has ended.
  int32_t wait_stream(const dw_work* work, CUstream_st* stream,
                      dw_error* error);
  // Says what the device does with an operation that has not departed, and for
  // which its caller has waited since `since_ns`: "it has been running for
  // 3.000 s".
  std::string why_late(const Flight& flight, int64_t since_ns);

 private:
  void run();
  bool is_ending();
  // Adds what has departed to the streams' lists. Precondition: the mutex is
  // held.
  void add_departed();
  // Tells the host what the device has begun, and moves ended flights to
  // `*ended`. Returns where the next one goes. Precondition: the mutex is held.
  Flight** collect(Flight** ended);
  // Notes which flights the device has ended, before `comm` is aborted.
  // Precondition: the mutex is held.
  Flight** note_ends(const Comm* comm, Flight** ended);
  bool has_begun(const Flight& flight) const;
  // Keeps the driver's answer in `flight->result`.
  bool has_ended(Flight* flight) const;
  // The first flight of this stream; null: none.
  Flight* first_of(const CUstream_st* stream) const;
  void tell_begun(Flight* flight);
  // Tells the host of them, and keeps them for later. Returns their number.
  int finish(Flight* ended);
  // Each question to NCCL may hang, so no mutex is held meanwhile.
  void ask_for_errors();
  void look_at_replays();
  std::chrono::microseconds longest_nap();
  bool has_flights() const;

  Backend* const backend_;
  std::mutex mutex_;
  std::vector<Comm*> comms_;
  // The first of each stream; those of one stream follow in the order of their
  // departure.
  Flight* flying_ = nullptr;
  Flight* waited_ = nullptr;  // by their callers
  Handover departed_;         // not yet in the list of a stream
  // Guarded by the device's lock of calls.
  Flight* free_ = nullptr;
  uint64_t taken_ = 0;
  Handover returned_;                             // free as well
  std::vector<std::shared_ptr<NcclPart>> asked_;  // only the thread has them

  // Guards what wakes the thread. Nobody asks NCCL or the driver under this
  // mutex, so an abort never waits for it.
  std::mutex sleep_mutex_;
  std::condition_variable changed_;
  bool ending_ = false, hurried_ = false, watches_replays_ = false;
  bool has_ended_ = false, frees_instance_ = false;
  std::atomic<bool> asleep_ = false;  // until a departure wakes the thread
  int wake_ups_ = 0;
  // The next naps are short, since somebody waits.
  std::atomic<int> short_naps_ = 0;
  std::thread thread_;
};

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_WATCH_H_
