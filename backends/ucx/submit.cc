// Messages and sets of messages. They start at once, so that none waits for the
// start of another; a waiting caller drives them to their end.
#include "backend.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/trace.h"
#include "sdk/windows.h"
#include "wait.h"
#include "window.h"

#include <memory>
#include <memory_resource>
#include <mutex>
#include <type_traits>
#include <vector>

namespace ucx_backend {
namespace {

constexpr char kOperation[] = "ucx: an operation";

int32_t result_of(Comm* comm, const Transfer& transfer, dw_error* error) {
  if (transfer.state.load(std::memory_order_acquire) == Transfer::State::kDone)
    return DW_DONE;
  return comm->failure.first(error);
}

int32_t run(Comm* comm, const EngineOp& call, dw_error* error) {
  Transfer transfer(call);
  Worker::Hold hold(comm->worker, Worker::Hold::Waiting{});
  comm->worker.begin(&transfer);
  if (transfer.is_open()) {
    dw_under_way(comm->host, call.trace);
    wait_for(comm, comm->worker, hold, transfer);
  }
  hold.release();
  return result_of(comm, transfer, error);
}

// DW_DONE: it has ended, and its work is not completed.
int32_t start(Comm* comm, const EngineOp& call, dw_work* work) {
  auto transfer = std::make_unique<Transfer>(call, work);
  Worker::Hold hold(comm->worker);
  if (comm->worker.begin_with_work(transfer.get())) return DW_DONE;
  transfer.release();
  return DW_OK;
}

int32_t submit_window(Comm* comm, const dw_op* op, dw_work* work,
                      dw_error* error) {
  return dw_sdk::guarded(kOperation, error, [&] {
    return submit_to_window(comm, op, work, error);
  });
}

struct Item {
  Comm* comm;
  dw_work* work;
  EngineOp call;
  Transfer* transfer;  // the transfer for which its set waits
};
using Items = std::pmr::vector<Item>;

int32_t read_items(const dw_group_item* given, uint64_t n, Items* items,
                   bool* caller_waits, dw_error* error) {
  items->resize(n);
  *caller_waits = true;
  for (uint64_t i = 0; i < n; ++i) {
    Item& item = (*items)[i];
    item.comm = of(given[i].comm);
    item.work = given[i].work;
    if (int32_t code = read_call(item.comm->rank, item.comm->size, given[i].op,
                                 &item.call, error))
      return code;
    if (int32_t code = item.comm->failure.check(error)) return code;
    if (!item.comm->thread.started())
      if (int32_t code = item.comm->thread.start(error)) return code;
    *caller_waits &= item.call.caller_waits;
  }
  for (const Item& item : *items)
    if (!*caller_waits && item.work == nullptr)
      return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1,
                     0, "ucx: an item of a set has no work to complete");
  return DW_OK;
}

// Breaks all communicators, so that no other message of the set still uses the
// caller's memory.
void break_all(const Items& items) {
  dw_error why;
  dw_fail(&why, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0,
          "ucx: another operation of the set failed");
  for (const Item& item : items) {
    item.comm->failure.fail(why, nullptr);
    Worker::Hold hold(item.comm->worker);
    item.comm->worker.tear_down(true);
  }
}

int32_t run_all(Items& items, dw_error* error) {
  std::pmr::memory_resource& memory = *items.get_allocator().resource();
  static_assert(std::is_trivially_destructible_v<Transfer>);
  for (Item& item : items)
    item.transfer = new (memory.allocate(sizeof(Transfer), alignof(Transfer)))
        Transfer(item.call);
  for (Item& item : items) {
    Worker::Hold hold(item.comm->worker);
    item.comm->worker.begin(item.transfer);
  }
  for (Item& item : items) {
    if (item.transfer->is_open()) {
      Worker::Hold hold(item.comm->worker);
      if (item.transfer->is_open())
        wait_for(item.comm, item.comm->worker, hold, *item.transfer);
    }
    const int32_t code = result_of(item.comm, *item.transfer, error);
    if (code == DW_DONE) continue;
    break_all(items);
    return code;
  }
  return DW_DONE;
}

// Once one item has started, all of them count as started: an item that cannot
// start any more completes with the error.
int32_t start_all(const Items& items) {
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (const Item& item : items)
    transfers.push_back(std::make_unique<Transfer>(item.call, item.work));
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    bool done;
    {
      Worker::Hold hold(item.comm->worker);
      done = item.comm->worker.begin_with_work(transfers[i].get());
      if (!done) transfers[i].release();
    }
    if (done) item.comm->host->complete(item.work, DW_OK, nullptr);
  }
  return DW_OK;
}

}  // namespace

int32_t query(dw_comm* given, const dw_op* op, dw_error* error) {
  const Comm* const comm = of(given);
  if (dw_is_of_window(op) != 0) return query_window(comm, op, error);
  EngineOp call;
  return read_call(comm->rank, comm->size, op, &call, error);
}

int32_t submit(dw_comm* given, const dw_op* op, dw_work* work,
               dw_error* error) {
  Comm* const comm = of(given);
  if (dw_is_of_window(op) != 0) [[unlikely]]
    return submit_window(comm, op, work, error);
  EngineOp call;
  if (int32_t code = read_call(comm->rank, comm->size, op, &call, error))
    return code;
  if (int32_t code = comm->failure.check(error)) return code;
  try {
    if (!comm->thread.started()) [[unlikely]]
      if (int32_t code = comm->thread.start(error)) return code;
    return call.caller_waits ? run(comm, call, error) : start(comm, call, work);
  } catch (...) {
    return dw_sdk::error_of_exception(kOperation, error);
  }
}

int32_t submit_group(dw_backend* /*backend*/, const dw_group_item* given,
                     uint64_t n, dw_error* error) {
  try {
    // A few messages, as of a composed operation, need no heap.
    char few[6 << 10];
    std::pmr::monotonic_buffer_resource memory(few, sizeof few);
    Items items(&memory);
    bool caller_waits;
    if (int32_t code = read_items(given, n, &items, &caller_waits, error))
      return code;
    if (n == 0) return DW_DONE;
    return caller_waits ? run_all(items, error) : start_all(items);
  } catch (...) {
    return dw_sdk::error_of_exception(kOperation, error);
  }
}

// Drives the operations for which no thread waits in a call, on behalf of a
// thread that waits outside.
int32_t progress(dw_backend* given) {
  Backend* const backend = of(given);
  unsigned events = 0;
  std::lock_guard<std::mutex> lock(backend->mutex);
  for (Comm* const comm : backend->comms) {
    if (!comm->worker.has_open_works()) continue;
    Worker::Hold hold(comm->worker, std::try_to_lock);
    if (hold.owns()) events += comm->worker.progress();
  }
  return static_cast<int32_t>(events);
}

}  // namespace ucx_backend
