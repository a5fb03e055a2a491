#include "watch.h"

#include "backend.h"
#include "sdk/fail.h"
#include "sdk/thread.h"
#include "sdk/trace.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>
#include <sys/prctl.h>
#include <utility>

namespace nccl_backend {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The naps between two looks at the events: the first ones, the longest while
// somebody waits for an operation, and the longest otherwise.
constexpr microseconds kFirstNap{20}, kWaitedNap{30}, kLongestNap{100};
// A waiter looks itself now and then, at least every 2 ms; so many naps after a
// look nobody waits any more.
constexpr int kNapsAfterALook = 100;
// Between two questions for NCCL's asynchronous errors.
constexpr milliseconds kErrorsEvery{10};
// After so many looks at nothing in flight, within a millisecond, the thread
// sleeps until a departure wakes it. So a program with one short operation
// after the other pays for few wake-ups.
constexpr int kLooksAtNothing = 10;

// "all_reduce #4"
std::string name_of(const Flight& flight) {
  return operation_name(flight.kind, flight.seq);
}

}  // namespace

const char* name_of_kind(uint16_t kind) {
  switch (kind) {
#define DW_OP(value, name_of_kind, enumerator, text, peer, in, out, summary) \
  case value:                                                                \
    return #text;
#include "distwrap/abi/ops.def"
    default:
      return "an operation";
  }
}

std::string operation_name(uint16_t kind, uint64_t seq) {
  const std::string name = name_of_kind(kind);
  return seq == 0 ? name : name + " #" + std::to_string(seq);
}

std::string running_for(int64_t ns) {
  char text[48];
  std::snprintf(text, sizeof text, "has been running for %.3f s",
                static_cast<double>(ns) / 1e9);
  return text;
}

int32_t Watch::start(dw_error* error) {
  const auto body = [this] {
    run();
    Backend* left = nullptr;
    {
      std::lock_guard<std::mutex> lock(sleep_mutex_);
      has_ended_ = true;
      if (frees_instance_) left = backend_;
      changed_.notify_all();
    }
    delete left;
  };
  return dw_sdk::start_thread(&thread_, "dw-nccl", body, error);
}

bool Watch::stop(std::chrono::nanoseconds patience) {
  std::unique_lock<std::mutex> lock(sleep_mutex_);
  ending_ = true;
  changed_.notify_all();
  if (changed_.wait_for(lock, patience, [this] { return has_ended_; }))
    return true;
  frees_instance_ = true;
  thread_.detach();
  return false;
}

bool Watch::is_ending() {
  std::lock_guard<std::mutex> lock(sleep_mutex_);
  return ending_;
}

Watch::~Watch() {
  if (thread_.joinable()) {
    {
      std::lock_guard<std::mutex> lock(sleep_mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  const CurrentContext current(*backend_->device);
  for (Flight* flight : {free_, returned_.take_all()})
    while (flight != nullptr) {
      backend_->device->driver().cuEventDestroy_v2(flight->before);
      backend_->device->driver().cuEventDestroy_v2(flight->event);
      delete std::exchange(flight, flight->next);
    }
}

void Watch::add(Comm* comm) {
  std::lock_guard<std::mutex> lock(mutex_);
  comms_.push_back(comm);
}

void Watch::remove(Comm* comm) {
  std::lock_guard<std::mutex> lock(mutex_);
  comms_.erase(std::remove(comms_.begin(), comms_.end(), comm), comms_.end());
}

void Watch::hurry() {
  {
    std::lock_guard<std::mutex> lock(sleep_mutex_);
    hurried_ = true;
  }
  changed_.notify_all();
}

void Watch::watch_replays() {
  {
    std::lock_guard<std::mutex> lock(sleep_mutex_);
    if (std::exchange(watches_replays_, true)) return;
  }
  changed_.notify_all();
}

int32_t Watch::take(Flight** flight, dw_error* error) {
  if (free_ == nullptr) free_ = returned_.take_all();
  const uint64_t number = ++taken_;
  if (free_ != nullptr) {
    *flight = std::exchange(free_, free_->next);
    (*flight)->number = number;
    (*flight)->begun_ns = 0;
    (*flight)->end = (*flight)->event;
    return DW_OK;
  }
  auto* const made = new (std::nothrow) Flight;
  if (made == nullptr)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "nccl: no memory for an operation");
  made->number = number;
  const Driver& driver = backend_->device->driver();
  int result = driver.cuEventCreate(&made->before, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) {
    result = driver.cuEventCreate(&made->event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) driver.cuEventDestroy_v2(made->before);
  }
  if (result != CUDA_SUCCESS) {
    delete made;
    return fail_driver(driver, "an event cannot be made", result, error);
  }
  made->end = made->event;
  *flight = made;
  return DW_OK;
}

void Watch::put_back(Flight* flight) {
  if (Comm* const comm = std::exchange(flight->comm, nullptr))
    --comm->part->operations;
  for (Block** const used : {&flight->in, &flight->out})
    if (*used != nullptr) backend_->blocks.leave(std::exchange(*used, nullptr));
  returned_.push(flight, flight);
}

void Watch::depart(Flight* last, Flight* first) {
  departed_.push(last, first);
  // The thread looks for departures after it has set this.
  if (!asleep_) return;
  {
    std::lock_guard<std::mutex> lock(sleep_mutex_);
    if (!asleep_.exchange(false)) return;
    ++wake_ups_;
  }
  changed_.notify_all();
}

int Watch::wake_ups() {
  std::lock_guard<std::mutex> lock(sleep_mutex_);
  return wake_ups_;
}

void Watch::add_departed() {
  Flight* in_order = nullptr;
  for (Flight* newest = departed_.take_all(); newest != nullptr;) {
    Flight* const flight = newest;
    newest = std::exchange(flight->next, in_order);
    in_order = flight;
  }
  while (in_order != nullptr) {
    Flight* const flight = in_order;
    in_order = std::exchange(flight->next, nullptr);
    if (Flight* const first = first_of(flight->stream)) {
      first->last->next = flight;
      first->last = flight;
    } else {
      flight->last = flight;
      flight->next_stream = std::exchange(flying_, flight);
    }
  }
}

Flight* Watch::first_of(const CUstream_st* stream) const {
  Flight* first = flying_;
  while (first != nullptr && first->stream != stream)
    first = first->next_stream;
  return first;
}

void Watch::begin_wait(Flight* flight) {
  const std::lock_guard<std::mutex> lock(mutex_);
  flight->whole = false;
  flight->next = waited_;
  waited_ = flight;
}

void Watch::end_wait(Flight* flight) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Flight** at = &waited_;
  while (*at != flight) at = &(*at)->next;
  *at = flight->next;
  flight->whole |= !flight->comm->part->cut;
}

bool Watch::has_begun(const Flight& flight) const {
  return flight.begun_ns != 0 || flight.begins != Begins::kAtEvent ||
         backend_->device->driver().cuEventQuery(flight.before) !=
             CUDA_ERROR_NOT_READY;
}

void Watch::tell_begun(Flight* flight) {
  if (flight->begun_ns != 0) return;
  flight->begun_ns = backend_->host->now_ns(backend_->host->self);
  dw_begun(backend_->host, flight->work);
}

bool Watch::has_ended(Flight* flight) const {
  flight->result = backend_->device->driver().cuEventQuery(flight->end);
  return flight->result != CUDA_ERROR_NOT_READY;
}

// Operations of one stream run in their order: to ask for each would keep the
// callers' threads from the driver and from this list.
Flight** Watch::collect(Flight** ended) {
  add_departed();
  Flight** at = &flying_;
  while (*at != nullptr) {
    Flight* first = *at;
    Flight* const last = first->last;
    Flight* const next_stream = first->next_stream;
    bool begun = false;
    while (first != nullptr && (begun = has_begun(*first)) &&
           has_ended(first)) {
      first->comm->last_end_ns = backend_->host->now_ns(backend_->host->self);
      first->whole = !first->comm->part->cut;
      *ended = first;
      ended = &first->next;
      first = first->next;
    }
    *ended = nullptr;
    *at = first == nullptr ? next_stream : first;
    if (first == nullptr) continue;
    first->last = last;
    first->next_stream = next_stream;
    at = &first->next_stream;
    if (!begun) continue;
    tell_begun(first);
    for (Flight* one = first->next;
         one != nullptr && one->begins == Begins::kWithPrevious;
         one = one->next)
      tell_begun(one);
  }
  return ended;
}

Flight** Watch::note_ends(const Comm* comm, Flight** ended) {
  const Driver& driver = backend_->device->driver();
  for (Flight* one = waited_; one != nullptr; one = one->next)
    if (one->comm == comm && !comm->part->cut)
      one->whole = driver.cuEventQuery(one->end) == CUDA_SUCCESS;
  return collect(ended);
}

int Watch::finish(Flight* ended) {
  int n = 0;
  while (ended != nullptr) {
    Flight* const flight = ended;
    ended = flight->next;
    dw_work* const work = flight->work;
    dw_error error = {};
    int32_t code = DW_OK;
    if (!flight->whole) {
      code = flight->comm->failure.check(&error);
    } else if (flight->result != CUDA_SUCCESS) {
      // An event that is neither ready nor not ready tells of a broken device.
      code = fail_driver(backend_->device->driver(), "the device failed",
                         flight->result, &error);
      flight->comm->failure.fail(error, nullptr);
    }
    put_back(flight);
    ++n;
    backend_->host->complete(work, code, code == DW_OK ? nullptr : &error);
  }
  return n;
}

int Watch::look() {
  short_naps_.store(kNapsAfterALook, std::memory_order_relaxed);
  Flight* ended = nullptr;
  {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || !has_flights()) return 0;
    const CurrentContext current(*backend_->device);
    const RelaxedCapture relaxed(backend_->device->driver());
    collect(&ended);
  }
  return finish(ended);
}

int32_t Watch::wait_stream(const dw_work* work, CUstream_st* stream,
                           dw_error* error) {
  const Driver& driver = backend_->device->driver();
  std::lock_guard<std::mutex> lock(mutex_);
  add_departed();
  for (const Flight* of = flying_; of != nullptr; of = of->next_stream) {
    const Flight* one = of;
    while (one != nullptr && one->work != work) one = one->next;
    if (one == nullptr) continue;
    const int result = driver.cuStreamWaitEvent(stream, one->end, 0);
    if (result == CUDA_SUCCESS) return DW_OK;
    return fail_driver(driver, "the stream cannot wait", result, error);
  }
  return DW_DONE;
}

std::string Watch::why_late(const Flight& flight, int64_t since_ns) {
  const int64_t now_ns = backend_->host->now_ns(backend_->host->self);
  std::lock_guard<std::mutex> lock(mutex_);
  add_departed();
  for (const Flight* one = first_of(flight.stream); one != nullptr;
       one = one->next) {
    if (one->number > flight.number) continue;
    return "it is queued behind " + name_of(*one) + ", which " +
           (one->begun_ns == 0 ? "is queued itself"
                               : running_for(now_ns - one->begun_ns));
  }
  if (!has_begun(flight)) return "it is queued behind other work of its stream";
  return "it " +
         running_for(now_ns - std::max(since_ns, flight.comm->last_end_ns));
}

bool Watch::has_flights() const {
  return flying_ != nullptr || !departed_.empty();
}

void Watch::ask_for_errors() {
  for (const std::shared_ptr<NcclPart>& part : asked_) {
    // A question may have lasted until after `stop`.
    if (is_ending()) return;
    const std::unique_lock<CallLock> inside(part->inside, std::try_to_lock);
    if (!inside.owns_lock() || part->handle == nullptr || part->revoked)
      continue;
    part->inside.say("a question for errors", 0);
    int result = ncclSuccess;
    const int asked =
        backend_->nccl.ncclCommGetAsyncError(part->handle, &result);
    if (asked != ncclSuccess) result = asked;
    if (result == ncclSuccess || result == ncclInProgress) continue;
    dw_error error = {};
    fail_nccl(backend_->nccl, "an operation failed", result, part->handle,
              &error);
    part->failure.fail(error, nullptr);
  }
}

void Watch::look_at_replays() {
  const int64_t now_ns = backend_->host->now_ns(backend_->host->self);
  for (const std::shared_ptr<NcclPart>& part : asked_) {
    if (part->failure.is_over()) continue;
    std::string stuck = part->replays.look(now_ns);
    if (stuck.empty()) continue;
    stuck += ", longer than it may";
    dw_error error = {};
    dw_fail(&error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, -1, 0,
            ("nccl: " + stuck).c_str());
    part->failure.fail(error, nullptr);
    // The host adds the backend's name.
    backend_->host->log(backend_->host->self, DW_LOG_WARNING,
                        {stuck.data(), stuck.size()});
  }
}

microseconds Watch::longest_nap() {
  const int left = short_naps_.load(std::memory_order_relaxed);
  if (left == 0) return kLongestNap;
  short_naps_.store(left - 1, std::memory_order_relaxed);
  return kWaitedNap;
}

void Watch::run() {
  // Timers of a thread may be late by 50 us, unless it asks for less.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  const CurrentContext current(*backend_->device);
  const RelaxedCapture relaxed(backend_->device->driver());
  microseconds nap = kFirstNap;
  auto asked = std::chrono::steady_clock::now();
  int looks_at_nothing = kLooksAtNothing;
  bool some_broken = false;
  for (;;) {
    // A departure behind this wakes the thread.
    asleep_ = looks_at_nothing == kLooksAtNothing;
    mutex_.lock();
    const bool idle = !has_flights() && !some_broken;
    mutex_.unlock();
    if (idle) short_naps_.store(0, std::memory_order_relaxed);
    if (!idle && std::exchange(looks_at_nothing, 0) != 0) nap = kFirstNap;
    bool watches_replays;
    {
      std::unique_lock<std::mutex> lock(sleep_mutex_);
      if (looks_at_nothing < kLooksAtNothing) {
        asleep_ = false;
        if (idle && !hurried_) ++looks_at_nothing;
        if (!hurried_ && !ending_)
          changed_.wait_for(lock, some_broken ? kLongestNap : nap);
        nap = std::min(nap * 5 / 4, longest_nap());
      } else {
        const auto awake = [this] { return !asleep_ || hurried_ || ending_; };
        if (watches_replays_)
          changed_.wait_for(lock, kErrorsEvery, awake);
        else
          changed_.wait(lock, [&] { return awake() || watches_replays_; });
        if (!asleep_.exchange(false)) looks_at_nothing = 0;
        nap = kFirstNap;
      }
      if (ending_) return;
      hurried_ = false;
      watches_replays = watches_replays_;
    }
    if (const auto now = std::chrono::steady_clock::now();
        now - asked >= kErrorsEvery) {
      asked = now;
      mutex_.lock();
      for (const Comm* const comm : comms_) asked_.push_back(comm->part);
      mutex_.unlock();
      ask_for_errors();
      // Behind `stop` the host is gone.
      if (is_ending()) return;
      if (watches_replays) look_at_replays();
      asked_.clear();
    }
    Flight* ended = nullptr;
    some_broken = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      Flight** last = &ended;
      for (Comm* const comm : comms_) {
        if (!comm->failure.is_over()) continue;
        last = note_ends(comm, last);
        if (!abort_if_broken(comm)) some_broken = true;
      }
      collect(last);
    }
    if (ended != nullptr) nap = kFirstNap;
    finish(ended);
  }
}

}  // namespace nccl_backend
