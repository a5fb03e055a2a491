#include "launch.h"

#include "call_lock.h"
#include "enqueue.h"
#include "sdk/fail.h"
#include "window.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace nccl_backend {
namespace {

// How long a failed call stays until NCCL lets go of its buffers. One that only
// enqueues returns within 50 ms of an abort.
constexpr std::chrono::milliseconds kEnqueuePatience{30}, kAbortPatience{1000};

class Launch {
 public:
  Launch(Backend* backend, std::span<LaunchItem> items)
      : backend_(*backend),
        nccl_(backend->nccl),
        driver_(backend->device->driver()),
        items_(items) {
    bool several = false;
    for (const LaunchItem& item : items_) {
      several |= item.comm != comms_.front();
      prepares_ |= item.op->reduce == DW_REDUCE_PREMUL_SUM ||
                   (item.op->flags & DW_FLAG_REGISTERED) != 0;
      hasten(*item.op);
    }
    if (several) sort_comms();
  }
  ~Launch() {
    leave();
    if (departed_) return;
    for (const LaunchItem& item : items_)
      if (item.flight != nullptr) backend_.watch->put_back(item.flight);
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  int32_t run(bool caller_waits, dw_error* error) {
    if (int32_t code = enter(error)) return code;
    if (int32_t code = wait_for_splits(error)) return code;
    bool enqueued = false;
    if (int32_t code = find_late_wait(&enqueued, error)) return code;
    caller_waits_ = caller_waits;
    if (!enqueued)
      if (int32_t code = start(error)) return code;
    if (caller_waits) {
      leave();
      return wait_for_ends(error);
    }
    return take_off();
  }

 private:
  void sort_comms() {
    for (const LaunchItem& item : items_) sorted_.push_back(item.comm);
    std::sort(sorted_.begin(), sorted_.end());
    sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
    comms_ = sorted_;
  }
  // Takes a lock that a thread may have that NCCL keeps, perhaps for ever. An
  // error means that this thread does not have it.
  int32_t take(CallLock& lock, const char* of, dw_error* error) {
    for (Pause pause; !lock.try_lock(); pause()) {
      if (int32_t code = check_failures(error)) return code;
      if (!is_late()) continue;
      const std::string text =
          std::string(
              "nccl: not enqueued in time: NCCL takes one call at a "
              "time for a ") +
          of + ", and is busy with " + lock.holder();
      return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, -1, 0,
                     text.c_str());
    }
    lock.say(name_of_kind(items_[0].op->kind), items_[0].op->seq);
    return DW_OK;
  }

  int32_t enter(dw_error* error) {
    for (Comm* const comm : comms_) {
      if (int32_t code = take(comm->part->inside, "communicator", error))
        return code;
      ++entered_;
    }
    return DW_OK;
  }
  void leave() {
    while (entered_ > 0) comms_[--entered_]->part->inside.unlock();
  }

  // NCCL may not be called with a communicator while it splits it.
  int32_t wait_for_splits(dw_error* error) {
    for (Pause pause;;) {
      bool splits = false;
      for (Comm* const comm : comms_) {
        if (int32_t code = comm->failure.check(error)) return code;
        splits |= comm->part->splitting;
      }
      if (!splits) return DW_OK;
      if (is_late())
        return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, -1, 0,
                       "nccl: not enqueued in time: NCCL splits the "
                       "communicator for another group, and one of its ranks "
                       "has not called");
      leave();
      pause();
      if (int32_t code = enter(error)) return code;
    }
  }

  // Whether an abort, or another failure, has come. Then `error` is filled.
  int32_t check_failures(dw_error* error) {
    for (Comm* const comm : comms_)
      if (int32_t code = comm->failure.check(error)) return code;
    return DW_OK;
  }

  // A wait for a signal that an earlier caller has given up is still on its
  // stream: this call goes on with it.
  int32_t find_late_wait(bool* found, dw_error* error) {
    LaunchItem& item = items_[0];
    if (item.op->window == nullptr) return DW_OK;
    item.flight = take_late_wait(*of(item.op->window), *item.op);
    *found = item.flight != nullptr;
    if (!*found) return DW_OK;
    began_ = Began::kEnds;
    item.flight->work = item.work;
    if (item.call.order != Order::kStream) return DW_OK;
    const int result =
        driver_.cuStreamWaitEvent(item.call.stream, item.flight->end, 0);
    if (result == CUDA_SUCCESS) return DW_OK;
    keep_late(item);
    return fail_driver(driver_, "the stream cannot wait", result, error);
  }
  void keep_late(LaunchItem& item) {
    keep_late_wait(*of(item.op->window), *item.op,
                   std::exchange(item.flight, nullptr));
  }

  // Puts the items on their streams, and waits until NCCL has launched them.
  int32_t start(dw_error* error) {
    if (int32_t code = take(backend_.device->calls(), "device", error))
      return code;
    std::unique_lock<CallLock> calls(backend_.device->calls(), std::adopt_lock);
    for (LaunchItem& item : items_)
      if (item.call.order != Order::kCaptured)
        if (int32_t code = backend_.watch->take(&item.flight, error))
          return code;
    int32_t code = prepares_ ? prepare(error) : int32_t{DW_OK};
    if (code == DW_OK) code = enqueue_all(error);
    calls.unlock();
    if (code == DW_OK) code = wait_for_launch(error);
    if (code == DW_OK) code = record_ends(error);
    return code == DW_OK ? code : broken(code, error);
  }

  // Makes reductions and registers memory, neither of them within a group.
  int32_t prepare(dw_error* error) {
    for (LaunchItem& item : items_) {
      if (item.op->reduce == DW_REDUCE_PREMUL_SUM)
        if (int result = make_reduction(*item.comm, *item.op, *item.buffers,
                                        &item.reduction);
            result != ncclSuccess)
          return fail_nccl(nccl_, "ncclRedOpCreatePreMulSum", result,
                           item.comm->part->handle, error);
      // NCCL registers the memory of a captured operation itself.
      if ((item.op->flags & DW_FLAG_REGISTERED) != 0 &&
          item.flight != nullptr && item.comm->hints.register_memory != 0)
        if (int32_t code = register_memory(item, error)) return code;
    }
    return DW_OK;
  }

  int32_t register_memory(const LaunchItem& item, dw_error* error) {
    item.flight->in = backend_.blocks.use(item.op->in.data);
    item.flight->out = backend_.blocks.use(item.op->out.data);
    NcclPart& part = *item.comm->part;
    for (Block* const block : {item.flight->in, item.flight->out}) {
      if (block == nullptr || part.registered.count(block->at) != 0) continue;
      const RelaxedCapture relaxed(driver_);
      void* registration = nullptr;
      const int result = nccl_.ncclCommRegister(part.handle, block->at,
                                                block->bytes, &registration);
      if (result != ncclSuccess) return fail("ncclCommRegister", result, error);
      part.registered[block->at] = registration;
      backend_.blocks.registered(block, item.comm->part);
    }
    return DW_OK;
  }

  // The earliest deadline of the items is that of the set.
  void hasten(const dw_op& op) {
    int64_t own = op.deadline_ns;
    if (own == 0 && op.timeout_ns != 0)
      own = backend_.host->now_ns(backend_.host->self) + op.timeout_ns;
    if (own != 0 && (deadline_ns_ == 0 || own < deadline_ns_))
      deadline_ns_ = own;
  }
  bool is_late() const {
    return deadline_ns_ != 0 &&
           backend_.host->now_ns(backend_.host->self) >= deadline_ns_;
  }

  int watch_replays(LaunchItem& item) {
    if (item.comm->hints.watch_replays != 1) return CUDA_SUCCESS;
    int64_t limit_ns = item.op->timeout_ns;
    if (limit_ns == 0 && item.op->deadline_ns != 0)
      limit_ns =
          item.op->deadline_ns - backend_.host->now_ns(backend_.host->self);
    backend_.watch->watch_replays();
    const RelaxedCapture relaxed(driver_);
    return item.comm->part->replays.begin(driver_, item.stream(), item.op->kind,
                                          item.op->seq, limit_ns, &item.replay);
  }

  // An operation begins behind what the caller's stream has now. Those of one
  // group on one stream share an event.
  int record_begin(LaunchItem& item, const LaunchItem* before) {
    if (item.flight == nullptr) {
      item.comm->part->captured = true;
      return watch_replays(item);
    }
    Flight& flight = *item.flight;
    flight.comm = item.comm;
    flight.work = item.work;
    ++item.comm->part->operations;
    flight.kind = item.op->kind;
    flight.seq = item.op->seq;
    flight.stream = item.stream();
    if (before != nullptr && before->flight != nullptr &&
        before->stream() == item.stream() &&
        before->call.stream == item.call.stream) {
      flight.begins = Begins::kWithPrevious;
      return CUDA_SUCCESS;
    }
    flight.begins = Begins::kAfterPrevious;
    if (item.call.order == Order::kHost) return CUDA_SUCCESS;
    flight.begins = Begins::kAtEvent;
    const int result = driver_.cuEventRecord(flight.before, item.call.stream);
    if (result != CUDA_SUCCESS || item.call.order != Order::kAside)
      return result;
    return driver_.cuStreamWaitEvent(item.comm->stream, flight.before, 0);
  }

  int32_t enqueue_all(dw_error* error) {
    const LaunchItem* before = nullptr;
    for (LaunchItem& item : items_) {
      if (int result = record_begin(item, before); result != CUDA_SUCCESS)
        return fail_driver(driver_, "the begin cannot be recorded", result,
                           error);
      before = &item;
    }
    const char* what = "ncclGroupStart";
    int result = nccl_.ncclGroupStart();
    if (result != ncclSuccess) return fail(what, result, error);
    began_ = Began::kOperations;
    for (const LaunchItem& item : items_) {
      result = item.op->window == nullptr
                   ? enqueue(*item.comm, *item.op, *item.buffers,
                             item.reduction, item.stream(), &what)
                   : enqueue_on_window(*of(item.op->window), *item.op,
                                       item.stream(), &what);
      if (result != ncclSuccess) break;
    }
    // Closed on every path: an open group would swallow the thread's later
    // calls.
    const int ended = nccl_.ncclGroupEnd();
    if (result != ncclSuccess) return fail(what, result, error);
    if (ended != ncclSuccess && ended != ncclInProgress)
      return fail("ncclGroupEnd", ended, error);
    in_progress_ = ended == ncclInProgress;
    return DW_OK;
  }

  int32_t fail(const char* what, int result, dw_error* error) {
    return fail_nccl(nccl_, what, result, items_[0].comm->part->handle, error);
  }

  // NCCL has not launched while a communicator is in progress.
  int32_t wait_for_launch(dw_error* error) {
    Pause pause;
    while (in_progress_) {
      int result = ncclSuccess;
      for (const Comm* const comm : comms_) {
        const int asked =
            nccl_.ncclCommGetAsyncError(comm->part->handle, &result);
        if (asked != ncclSuccess) result = asked;
        if (result != ncclSuccess) break;
      }
      if (result == ncclSuccess) break;
      if (int32_t code = check_failures(error)) return code;
      if (result != ncclInProgress) return fail("the launch", result, error);
      if (is_late())
        return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, -1, 0,
                       "nccl: not enqueued in time: NCCL connects to other "
                       "ranks inside the first calls, and one of them has not "
                       "called");
      pause();
    }
    return prepares_ ? destroy_reductions(error) : int32_t{DW_OK};
  }

  int32_t destroy_reductions(dw_error* error) {
    for (LaunchItem& item : items_) {
      if (item.reduction == kNoReduction) continue;
      if (int32_t code = take(backend_.device->calls(), "device", error))
        return code;
      const std::lock_guard<CallLock> calls(backend_.device->calls(),
                                            std::adopt_lock);
      nccl_.ncclRedOpDestroy(std::exchange(item.reduction, kNoReduction),
                             item.comm->part->handle);
    }
    return DW_OK;
  }

  // Operations of one group on one stream end together and share an event, that
  // of the last one, which is also the last one to be seen.
  int32_t record_ends(dw_error* error) {
    Flight* after = nullptr;
    for (size_t i = items_.size(); i-- > 0;) {
      const LaunchItem& item = items_[i];
      Flight* const flight = item.flight;
      int result = CUDA_SUCCESS;
      if (flight == nullptr) {
        if (item.replay != nullptr)
          result = Replays::end(driver_, item.stream(), item.replay);
      } else if (after != nullptr && after->stream == flight->stream) {
        flight->end = after->end;
      } else {
        result = driver_.cuEventRecord(flight->end, flight->stream);
      }
      if (result != CUDA_SUCCESS)
        return fail_driver(driver_, "the end cannot be recorded", result,
                           error);
      if (after != nullptr) after->next = flight;
      after = flight;
    }
    began_ = Began::kEnds;
    return DW_OK;
  }

  // All items fly, linked from the last to the first, or all are captured.
  int32_t take_off() {
    Flight* const last = items_.back().flight;
    if (last == nullptr) return DW_DONE;
    departed_ = true;
    backend_.watch->depart(last, items_.front().flight);
    return DW_OK;
  }

  int32_t wait_for_ends(dw_error* error) {
    const RelaxedCapture relaxed(driver_);
    Watch& watch = *backend_.watch;
    for (const LaunchItem& item : items_) watch.begin_wait(item.flight);
    int32_t code = see_ends(error);
    for (const LaunchItem& item : items_) watch.end_wait(item.flight);
    if (code == DW_DONE) {
      for (const LaunchItem& item : items_)
        if (!item.flight->whole) code = item.comm->failure.check(error);
      return code;
    }
    LaunchItem& first = items_[0];
    if (first.op->kind != DW_OP_WAIT_SIGNAL || code != DW_DEADLINE_EXCEEDED ||
        first.comm->failure.is_over())
      return broken(code, error);
    // A late wait for a signal changes nothing.
    keep_late(first);
    return code;
  }

  // DW_DONE when the device has ended all.
  int32_t see_ends(dw_error* error) {
    const int64_t since_ns = backend_.host->now_ns(backend_.host->self);
    Pause pause;
    for (const LaunchItem& item : items_) {
      for (;;) {
        const int result = driver_.cuEventQuery(item.flight->end);
        if (result == CUDA_SUCCESS) break;
        if (result != CUDA_ERROR_NOT_READY)
          return fail_driver(driver_, "the device failed", result, error);
        if (int32_t code = check_failures(error)) return code;
        if (is_late()) {
          const std::string text =
              "nccl: the device has not ended the operation in time: " +
              backend_.watch->why_late(*item.flight, since_ns);
          return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, -1,
                         0, text.c_str());
        }
        pause();
      }
    }
    return DW_DONE;
  }

  // The communicators break, since what was begun cannot be taken back. The
  // buffers are the caller's again when this returns, unless that takes longer
  // than a caller may be kept; then `error` says so. Returns `code`.
  // Precondition: the device's lock of calls is not held.
  int32_t broken(int32_t code, dw_error* error) {
    const RelaxedCapture relaxed(driver_);
    dw_error why = {};
    if (error != nullptr)
      why = *error;
    else
      dw_fail(&why, code, DW_REASON_BACKEND_FAILED, -1, 0,
              "nccl: an operation failed");
    for (Comm* const comm : comms_) comm->failure.fail(why, nullptr);
    leave();
    backend_.watch->hurry();
    // NCCL has not seen the buffers.
    if (began_ == Began::kNothing) return code;
    const auto limit = std::chrono::steady_clock::now() +
                       (caller_waits_ ? kAbortPatience : kEnqueuePatience);
    bool ended = true;
    for (Comm* const comm : comms_) ended &= wait_for_abort(comm, limit);
    ended = ended && wait_for_device(limit);
    if (!ended && error != nullptr) {
      const std::string text =
          std::string("NCCL still uses the buffers of this call: ") + why.text;
      dw_fail(error, why.code, why.reason, why.peer, why.native, text.c_str());
      error->flags = why.flags;
    }
    return code;
  }

  // An aborted operation ends when the device comes to it, also when NCCL has
  // launched it after this call had given up.
  bool wait_for_device(std::chrono::steady_clock::time_point limit) {
    if (began_ == Began::kOperations) record_ends(nullptr);
    Pause pause;
    for (const LaunchItem& item : items_) {
      if (item.flight == nullptr) continue;
      while (driver_.cuEventQuery(item.flight->end) == CUDA_ERROR_NOT_READY) {
        if (std::chrono::steady_clock::now() >= limit) return false;
        pause();
      }
    }
    return true;
  }

  Backend& backend_;
  const Nccl& nccl_;
  const Driver& driver_;
  const std::span<LaunchItem> items_;
  // Every communicator of the set once, in the order of addresses.
  std::span<Comm* const> comms_{&items_.front().comm, 1};
  std::vector<Comm*> sorted_;  // holds them if there are several
  size_t entered_ = 0;         // this thread is inside so many of them
  bool prepares_ = false;
  bool caller_waits_ = false;
  bool departed_ = false;  // the flights are the watch's
  int64_t deadline_ns_ = 0;
  bool in_progress_ = false;
  // The streams may have nothing of this call, its operations, or these and the
  // events behind them.
  enum class Began { kNothing, kOperations, kEnds } began_ = Began::kNothing;
};

}  // namespace

int32_t launch(Backend* backend, std::span<LaunchItem> items, bool caller_waits,
               dw_error* error) {
  return Launch(backend, items).run(caller_waits, error);
}

}  // namespace nccl_backend
