// Checks operations and sets of them, then runs them here when the caller waits
// and nothing is before them, else in the communicator's thread.
#include "backend.h"
#include "run.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "sdk/windows.h"
#include "wait.h"
#include "window.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace shm_backend {
namespace {

constexpr char kOperation[] = "shm: an operation";

// From this size on a call is worth a thread of its own beside the caller's.
constexpr size_t kLong = 64 << 10;

// DW_OK, or nothing has started.
int32_t enqueue(Comm* comm, OperationThread::Task&& task, dw_error* error) {
  return dw_sdk::guarded(kOperation, error, [&] {
    comm->messages.share();
    return comm->operation_thread.add(std::move(task), error);
  });
}

// Runs the operation to its end, after those before it.
int32_t run_in_turn(Comm* comm, EngineOp& call, dw_error* error) {
  if (call.is_message()) return run_message(comm, call, error);
  if (comm->operation_thread.idle()) [[likely]]
    return run(comm, call, error);
  Gate gate;
  gate.expect(1);
  // The trace belongs to this thread; another one runs the call.
  OperationThread::Task queued{.call = EngineOp(call), .gate = &gate};
  queued.call.trace = nullptr;
  if (int32_t code = enqueue(comm, std::move(queued), error)) return code;
  comm->under_way(call);
  comm->waits(call);
  comm->operation_thread.run_here(&gate);
  return gate.wait(error);
}

int32_t start_message(Comm* comm, const EngineOp& call, dw_work* work,
                      dw_error* error) {
  return dw_sdk::guarded(kOperation, error, [&] {
    comm->messages.share();
    if (int32_t code = comm->operation_thread.start(error)) return code;
    const int32_t code = comm->messages.start(call, work);
    if (code == DW_OK) comm->operation_thread.look_after_messages();
    return code;
  });
}

// DW_OK: it will complete; DW_DONE: it has ended.
int32_t start(Comm* comm, EngineOp& call, uint64_t seq, dw_work* work,
              dw_error* error) {
  if (call.is_message()) return start_message(comm, call, work, error);
  if (comm->size > 1 && call.moves) {
    const bool is_long = std::max(call.in.bytes, call.out.bytes) >= kLong;
    return enqueue(
        comm,
        {.call = EngineOp(call), .work = work, .seq = seq, .at_once = is_long},
        error);
  }
  const int32_t code = run(comm, call, error);
  return code == DW_OK ? int32_t{DW_DONE} : code;
}

struct Item {
  Comm* comm;
  dw_work* work;
  uint64_t seq;
  EngineOp call;
  std::unique_ptr<Message> message;  // awaited by its set
};

int32_t read_items(const dw_group_item* given, uint64_t n,
                   std::vector<Item>* items, bool* caller_waits,
                   dw_error* error) {
  items->resize(n);
  *caller_waits = true;
  for (uint64_t i = 0; i < n; ++i) {
    Item& item = (*items)[i];
    item.comm = of(given[i].comm);
    item.work = given[i].work;
    item.seq = given[i].op->seq;
    if (int32_t code = read_call(item.comm, given[i].op, &item.call, error))
      return code;
    if (int32_t code = item.comm->failure.check(error)) return code;
    *caller_waits &= item.call.caller_waits();
  }
  for (const Item& item : *items)
    if (!*caller_waits && item.work == nullptr)
      return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1,
                     0, "shm: an item of a set has no work to complete");
  return DW_OK;
}

// Collectives of one communicator run here, one after the other; those of
// several in their threads, since the ranks may list the communicators in
// different orders.
int32_t run_collectives(std::vector<Item>& items, dw_error* error) {
  const Comm* first = nullptr;
  bool one = true;
  int n = 0;
  for (const Item& item : items) {
    if (item.call.is_message() || item.comm->size == 1) continue;
    if (first == nullptr) first = item.comm;
    one &= item.comm == first;
    ++n;
  }
  Gate gate;
  gate.expect(n);
  for (Item& item : items) {
    if (item.call.is_message()) continue;
    if (one || item.comm->size == 1) {
      if (int32_t code = run_in_turn(item.comm, item.call, error)) return code;
      continue;
    }
    dw_error why = {};
    const int32_t code = enqueue(
        item.comm,
        {.call = std::move(item.call), .gate = &gate, .at_once = true}, &why);
    if (code != DW_OK) gate.pass(code, why);
  }
  return one ? int32_t{DW_OK} : gate.wait(error);
}

int32_t wait_for_messages(std::vector<Item>& items, dw_error* error) {
  for (Item& item : items)
    if (item.message != nullptr)
      if (int32_t code = wait_for(item.comm, *item.message, item.call, error))
        return code;
  return DW_OK;
}

// A call that was read, in whatever way its caller waits.
[[gnu::always_inline]] inline int32_t give(Comm* comm, EngineOp& call,
                                           const ShortCall& as_short,
                                           uint64_t seq, dw_work* work,
                                           dw_error* error) {
  if (int32_t code = comm->failure.check(error)) return code;
  if (!call.caller_waits()) return start(comm, call, seq, work, error);
  const bool done =
      call.is_message()
          ? comm->messages.move_at_once(call) == Messages::AtOnce::kDone
          : as_short.run != nullptr && comm->operation_thread.idle() &&
                as_short.run(comm, call, as_short);
  if (done) [[likely]]
    return DW_DONE;
  if (int32_t code = run_in_turn(comm, call, error)) return code;
  return DW_DONE;
}

// The rest must not continue in the caller's memory.
void break_all(std::vector<Item>& items) {
  for (const Item& item : items) {
    dw_error why = {};
    dw_fail(&why, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0,
            "shm: another operation of the set failed");
    item.comm->failure.fail(why, &why);
    item.comm->messages.fail_all(why);
  }
}

// All messages begin before anything is waited for, so that none waits for
// another to start, whatever the order on each rank.
int32_t run_all(std::vector<Item>& items, dw_error* error) {
  for (Item& item : items)
    if (item.call.is_message())
      item.message = std::make_unique<Message>(item.call);
  for (Item& item : items)
    if (item.message != nullptr) {
      item.comm->messages.enter_set();
      item.comm->messages.begin(item.message.get());
    }
  int32_t code = run_collectives(items, error);
  if (code == DW_OK) code = wait_for_messages(items, error);
  if (code != DW_OK) break_all(items);
  for (const Item& item : items)
    if (item.message != nullptr) item.comm->messages.leave_set();
  return code == DW_OK ? int32_t{DW_DONE} : code;
}

// Messages begin first here, too. Once one item has started all of them have:
// those that cannot any more complete with the reason.
int32_t start_all(std::vector<Item>& items, dw_error* error) {
  bool started = false;
  for (const bool messages : {true, false})
    for (Item& item : items) {
      if (item.call.is_message() != messages) continue;
      dw_error why = {};
      const int32_t code =
          start(item.comm, item.call, item.seq, item.work, &why);
      if (code > DW_OK && !started) {
        if (error != nullptr) *error = why;
        return code;
      }
      started = true;
      if (code == DW_DONE)
        item.comm->host->complete(item.work, DW_OK, nullptr);
      else if (code != DW_OK)
        item.comm->host->complete(item.work, code, &why);
    }
  return DW_OK;
}

}  // namespace

int32_t query(dw_comm* comm, const dw_op* op, dw_error* error) {
  if (dw_is_of_window(op) != 0) return query_window(of(comm), op, error);
  try {
    EngineOp call;
    return read_call(of(comm), op, &call, error);
  } catch (...) {
    return dw_sdk::error_of_exception(kOperation, error);
  }
}

int32_t submit(dw_comm* given, const dw_op* op, dw_work* work,
               dw_error* error) {
  Comm* const comm = of(given);
  if (dw_is_of_window(op) != 0) return submit_to_window(comm, op, error);
  try {
    CallReader& reader = (CallReaders::caller_waits(op) ? comm->waiting_calls
                                                        : comm->other_calls)
                             .of(op);
    if (int32_t code = reader.read(comm, op, error)) return code;
    return give(comm, reader.call, reader.as_short, op->seq, work, error);
  } catch (...) {
    return dw_sdk::error_of_exception(kOperation, error);
  }
}

int32_t submit_read(Comm* comm, EngineOp& call, const ShortCall& as_short,
                    uint64_t seq, dw_work* work, dw_error* error) {
  return give(comm, call, as_short, seq, work, error);
}

int32_t submit_group(dw_backend* /*backend*/, const dw_group_item* given,
                     uint64_t n, dw_error* error) {
  try {
    std::vector<Item> items;
    bool caller_waits;
    if (int32_t code = read_items(given, n, &items, &caller_waits, error))
      return code;
    if (n == 0) return DW_DONE;
    return caller_waits ? run_all(items, error) : start_all(items, error);
  } catch (...) {
    return dw_sdk::error_of_exception(kOperation, error);
  }
}

int32_t run_queued(dw_comm* comm, uint64_t seq) {
  return of(comm)->operation_thread.run_here(seq) ? DW_DONE : DW_OK;
}

}  // namespace shm_backend
