// Sets of operations. All messages start before anything is waited for, so that
// none waits for the start of another, in whatever order each rank gives them.
// Collectives run meanwhile, one after the other.
#include "backend.h"
#include "failure.h"
#include "message.h"
#include "run.h"
#include "sdk/fail.h"
#include "sdk/guard.h"
#include "signals.h"

#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace gloo_backend {
namespace {

struct Item {
  dw_comm* comm;
  dw_work* work;
  EngineOp call;
  // A message that its set waits for.
  std::optional<Message> message = {};
  std::unique_ptr<char[]> frame = nullptr;
  std::unique_ptr<Lane> head = nullptr, payload = nullptr;

  bool at_once() const { return comm->size == 1 || !call.moves; }
};

int32_t read_items(const dw_group_item* given, uint64_t n,
                   std::vector<Item>* items, bool* caller_waits,
                   dw_error* error) {
  items->resize(n);
  *caller_waits = true;
  for (uint64_t i = 0; i < n; ++i) {
    Item& item = (*items)[i];
    item.comm = given[i].comm;
    item.work = given[i].work;
    if (int32_t code = read_call(item.comm, given[i].op, &item.call, error))
      return code;
    if (int32_t code = item.comm->failure.check(error)) return code;
    *caller_waits &= (given[i].op->flags & DW_FLAG_CALLER_WAITS) != 0;
  }
  for (const Item& item : *items)
    if (!*caller_waits && item.work == nullptr)
      return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1,
                     0, "gloo: an item of a set has no work to complete");
  return DW_OK;
}

int32_t run_item(const Item& item, dw_error* error) {
  return run(item.comm, item.comm->desk, item.call, error);
}

// Returns the code of `step`; an exception of Gloo breaks the item's
// communicator.
template <typename Step>
int32_t guarded(const Item& item, dw_error* error, const Step& step) {
  try {
    return step();
  } catch (const std::exception&) {
    return fail_by_exception(item.comm, error);
  }
}

void begin_message(Item& item) {
  LanePool& lanes = item.comm->messages;
  Message message(item.call, item.comm->rank);
  item.frame.reset(new char[message.frame_bytes()]);
  item.head = lanes.take(item.call.peer);
  if (message.is_long()) item.payload = lanes.take(item.call.peer);
  message.begin(item.frame.get(), *item.head, item.payload.get());
  item.message = message;
}

int32_t end_message(Item& item, dw_error* error) {
  LanePool& lanes = item.comm->messages;
  const Message& message = *item.message;
  item.head->finish(message.direction());
  dw_error why = {};
  if (message.take_head(&why) != DW_OK)
    return item.comm->failure.fail(why, error);
  lanes.give_back(std::move(item.head));
  if (!message.is_long()) return DW_OK;
  item.payload->finish(message.direction());
  lanes.give_back(std::move(item.payload));
  return DW_OK;
}

int32_t run_all(std::vector<Item>& items, dw_error* error) {
  for (Item& item : items) {
    if (!item.call.is_message()) continue;
    if (int32_t code = guarded(item, error, [&] {
          begin_message(item);
          return DW_OK;
        }))
      return code;
  }
  for (const Item& item : items)
    if (!item.call.is_message())
      if (int32_t code = run_item(item, error)) return code;
  for (Item& item : items) {
    if (!item.call.is_message()) continue;
    if (int32_t code =
            guarded(item, error, [&] { return end_message(item, error); }))
      return code;
  }
  return DW_DONE;
}

// The rest must not continue in the caller's memory.
void break_all(std::vector<Item>& items) {
  for (Item& item : items) {
    fail(item.comm, "another operation of the set failed", nullptr);
    item.head.reset();
    item.payload.reset();
  }
}

// Starts messages first. Once one item has started, all of them count as
// started: an item that cannot start any more completes with the error.
int32_t start_all(std::vector<Item>& items, dw_error* error) {
  bool started = false;
  for (const bool messages : {true, false})
    for (Item& item : items) {
      if (item.call.is_message() != messages) continue;
      dw_error reason = {};
      const bool at_once = item.at_once();
      const int32_t ended =
          at_once ? run_at_once(item.comm, item.call, &reason)
                  : start(item.comm, std::move(item.call), item.work, &reason);
      const int32_t code = ended == DW_DONE ? int32_t{DW_OK} : ended;
      if (code != DW_OK && !started) {
        if (error != nullptr) *error = reason;
        return code;
      }
      started = true;
      if (at_once || code != DW_OK)
        item.comm->host->complete(item.work, code,
                                  code == DW_OK ? nullptr : &reason);
    }
  return DW_OK;
}

}  // namespace

int32_t submit_group(dw_backend* /*backend*/, const dw_group_item* given,
                     uint64_t n, dw_error* error) {
  try {
    std::vector<Item> items;
    bool caller_waits;
    if (int32_t code = read_items(given, n, &items, &caller_waits, error))
      return code;
    bool all_at_once = true;
    bool guard = false;
    for (const Item& item : items) {
      all_at_once &= item.at_once();
      guard |= item.comm->guard_pipe_signal && !item.at_once();
    }
    PipeSignalBlocked blocked(guard);
    if (!caller_waits && !all_at_once) return start_all(items, error);
    const int32_t code = run_all(items, error);
    if (code != DW_DONE)
      break_all(items);
    else
      blocked.all_written();
    return code;
  } catch (...) {
    return dw_sdk::error_of_exception("gloo: a set of operations", error);
  }
}

}  // namespace gloo_backend
