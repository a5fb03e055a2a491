// Sets of operations. All messages begin before anything is waited for, so that
// none waits for another to start, whatever the order on each rank; collectives
// run meanwhile, one after the other.
#include "backend.h"
#include "run.h"
#include "sdk/fail.h"
#include "signals.h"

#include <exception>
#include <new>
#include <utility>
#include <vector>

namespace gloo_backend {
namespace {

struct Item {
  dw_comm* comm;
  dw_work* work;
  Call call;

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
    if (int32_t code = item.comm->failure.check(item.comm, error)) return code;
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

Way way_of(const Item& item) {
  return item.call.kind == DW_OP_SEND ? Way::kSend : Way::kReceive;
}

// Runs `step`; what Gloo throws breaks the item's communicator.
template <typename Step>
int32_t guarded(const Item& item, dw_error* error, const Step& step) {
  try {
    step();
    return DW_OK;
  } catch (const std::exception& exception) {
    return item.comm->failure.fail(item.comm, exception.what(), error);
  }
}

int32_t run_all(const std::vector<Item>& items, dw_error* error) {
  for (const Item& item : items) {
    if (!item.call.is_message()) continue;
    if (int32_t code = guarded(item, error, [&] {
          begin_message(item.comm->grouped.to(item.call.peer), item.call);
        }))
      return code;
  }
  for (const Item& item : items)
    if (!item.call.is_message())
      if (int32_t code = run_item(item, error)) return code;
  for (const Item& item : items) {
    if (!item.call.is_message()) continue;
    if (int32_t code = guarded(item, error, [&] {
          item.comm->grouped.to(item.call.peer).finish(way_of(item));
        }))
      return code;
  }
  return DW_DONE;
}

// The rest must not go on in the caller's memory.
void break_all(const std::vector<Item>& items) {
  for (const Item& item : items) {
    item.comm->failure.fail(item.comm, "another operation of the set failed",
                            nullptr);
    item.comm->grouped.discard();
  }
}

// Messages begin first here, too. Once one item has started all of them have:
// those that cannot any more complete with the reason.
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
  } catch (const std::bad_alloc&) {
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "gloo: no memory for a set of operations");
  }
}

}  // namespace gloo_backend
