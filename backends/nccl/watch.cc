#include "watch.h"

#include "backend.h"
#include "sdk/fail.h"
#include "sdk/thread.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <sys/prctl.h>

namespace nccl_backend {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The naps between two looks at the events, and between two questions for
// NCCL's asynchronous errors.
constexpr microseconds kFirstNap{20}, kLongestNap{100};
constexpr milliseconds kErrorsEvery{10};

}  // namespace

int32_t Watch::start(dw_error* error) {
  return dw_sdk::start_thread(
      &thread_, "dw-nccl", [this] { run(); }, error);
}

Watch::~Watch() {
  if (thread_.joinable()) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  const CurrentContext current(*backend_->device);
  while (free_ != nullptr) {
    Flight* const next = free_->next;
    backend_->device->driver().cuEventDestroy_v2(free_->event);
    delete free_;
    free_ = next;
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
    std::lock_guard<std::mutex> lock(mutex_);
    hurried_ = true;
  }
  changed_.notify_all();
}

int32_t Watch::take(Flight** flight, dw_error* error) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_ != nullptr) {
      *flight = free_;
      free_ = free_->next;
      return DW_OK;
    }
  }
  auto* const made = new (std::nothrow) Flight;
  if (made == nullptr)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "nccl: no memory for an operation");
  const Driver& driver = backend_->device->driver();
  if (int result = driver.cuEventCreate(&made->event, CU_EVENT_DISABLE_TIMING);
      result != CUDA_SUCCESS) {
    delete made;
    return fail_driver(driver, "an event cannot be made", result, error);
  }
  *flight = made;
  return DW_OK;
}

void Watch::put_back(Flight* flight) {
  std::lock_guard<std::mutex> lock(mutex_);
  flight->next = free_;
  free_ = flight;
}

void Watch::depart(Flight* flight) {
  flight->next = nullptr;
  bool first;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    first = flying_ == nullptr;
    *last_ = flight;
    last_ = &flight->next;
  }
  if (first) changed_.notify_all();
}

void Watch::collect(Flight** ended) {
  const Driver& driver = backend_->device->driver();
  Flight** at = &flying_;
  // Operations of one stream end in their order. To ask for each would keep the
  // callers' threads from the driver and from this list.
  CUstream_st* busy = nullptr;
  while (*at != nullptr) {
    if ((*at)->stream == busy ||
        driver.cuEventQuery((*at)->event) == CUDA_ERROR_NOT_READY) {
      busy = (*at)->stream;
      at = &(*at)->next;
      continue;
    }
    Flight* const found = *at;
    *at = found->next;
    found->next = nullptr;
    *ended = found;
    ended = &found->next;
  }
  last_ = at;
}

int Watch::finish(Flight* ended) {
  int n = 0;
  while (ended != nullptr) {
    Flight* const flight = ended;
    ended = flight->next;
    dw_work* const work = flight->work;
    dw_error error = {};
    int32_t code = flight->comm->failure.check(&error);
    if (code == DW_OK) {
      // An event that is neither ready nor not ready tells of a broken device.
      const Driver& driver = backend_->device->driver();
      if (int result = driver.cuEventQuery(flight->event);
          result != CUDA_SUCCESS) {
        code = fail_driver(driver, "the device failed", result, &error);
        flight->comm->failure.fail(error, nullptr);
      }
    }
    put_back(flight);
    ++n;
    backend_->host->complete(work, code, code == DW_OK ? nullptr : &error);
  }
  return n;
}

int Watch::look() {
  Flight* ended = nullptr;
  {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || flying_ == nullptr) return 0;
    const CurrentContext current(*backend_->device);
    const RelaxedCapture relaxed(backend_->device->driver());
    collect(&ended);
  }
  if (ended == nullptr) return 0;
  const RelaxedCapture relaxed(backend_->device->driver());
  return finish(ended);
}

int32_t Watch::wait_stream(const dw_work* work, CUstream_st* stream,
                           dw_error* error) {
  const Driver& driver = backend_->device->driver();
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Flight* one = flying_; one != nullptr; one = one->next) {
    if (one->work != work) continue;
    const int result = driver.cuStreamWaitEvent(stream, one->event, 0);
    if (result == CUDA_SUCCESS) return DW_OK;
    return fail_driver(driver, "the stream cannot wait", result, error);
  }
  return DW_DONE;
}

bool Watch::idle() const { return flying_ == nullptr && !hurried_ && !ending_; }

void Watch::ask_for_errors() {
  for (Comm* const comm : comms_) {
    std::unique_lock<std::mutex> inside(comm->inside, std::try_to_lock);
    if (!inside.owns_lock() || comm->handle == nullptr) continue;
    int result = ncclSuccess;
    const int asked =
        backend_->nccl.ncclCommGetAsyncError(comm->handle, &result);
    if (asked != ncclSuccess) result = asked;
    if (result == ncclSuccess || result == ncclInProgress) continue;
    dw_error error = {};
    fail_nccl(backend_->nccl, "an operation failed", result, comm->handle,
              &error);
    comm->failure.fail(error, nullptr);
  }
}

void Watch::run() {
  // Timers of a thread may be late by 50 us, unless it asks for less.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  const CurrentContext current(*backend_->device);
  const RelaxedCapture relaxed(backend_->device->driver());
  microseconds nap = kFirstNap;
  auto asked = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (idle()) {
      changed_.wait(lock, [this] { return !idle(); });
      nap = kFirstNap;
    } else if (!hurried_ && !ending_) {
      changed_.wait_for(lock, nap);
      nap = std::min(nap * 5 / 4, kLongestNap);
    }
    if (ending_) return;
    bool some_broken = false;
    const auto now = std::chrono::steady_clock::now();
    if (now - asked >= kErrorsEvery) {
      asked = now;
      ask_for_errors();
    }
    for (Comm* const comm : comms_)
      if (comm->failure.is_over() && !abort_if_broken(comm)) some_broken = true;
    hurried_ = some_broken;
    Flight* ended = nullptr;
    collect(&ended);
    if (ended != nullptr) nap = kFirstNap;
    lock.unlock();
    finish(ended);
    if (some_broken) std::this_thread::sleep_for(kLongestNap);
    lock.lock();
  }
}

}  // namespace nccl_backend
