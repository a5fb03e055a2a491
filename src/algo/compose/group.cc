// Sets of operations. None of them may wait for the start of another one, in
// whatever order they are given: all messages start before anything is waited
// for, then the collectives run in their order.
#include "algo/compose/check.h"
#include "algo/compose/table.h"
#include "algo/decorator.h"
#include "sdk/guard.h"

#include <functional>
#include <optional>
#include <sched.h>
#include <set>
#include <vector>

namespace distwrap::algo::compose {
namespace {

struct Item {
  Comm* comm;
  const dw_op* op;
  dw_work* work;
  Comm::Route way;
  dw_op space;
};

bool is_message(const Item& item) {
  return item.op->kind == DW_OP_SEND || item.op->kind == DW_OP_RECV;
}

bool waits(const Item& item) {
  return (item.op->flags & DW_FLAG_CALLER_WAITS) != 0;
}

// A waiting message to the same rank needs its counterpart in the set, or one
// that was started before.
bool self_messages_meet(const std::vector<Item>& items) {
  for (const Item& item : items) {
    if (item.way != Comm::Route::kToSelf) continue;
    int same = 0, opposite = 0;
    for (const Item& other : items)
      if (other.way == Comm::Route::kToSelf && other.comm == item.comm &&
          other.op->tag == item.op->tag)
        ++(other.op->kind == item.op->kind ? same : opposite);
    if (same >
        opposite + item.comm->self().waiting_for(item.op->kind, item.op->tag))
      return false;
  }
  return true;
}

class Set {
 public:
  Set(Backend& backend, std::vector<Item>& items, bool all_wait)
      : backend_(backend), items_(items), all_wait_(all_wait) {}

  int32_t run(dw_error* error) {
    for (const uint16_t kind : {uint16_t{DW_OP_RECV}, uint16_t{DW_OP_SEND}})
      for (const Item& item : items_)
        if (item.op->kind == kind) begin(item);
    for (const Item& item : items_)
      if (!is_message(item)) begin(item);
    if (!all_wait_) {
      // After the first start, each operation reports its own end.
      if (started_ != 0) return DW_OK;
      if (code_ > DW_OK && error != nullptr) *error = error_;
      return code_ > DW_OK ? code_ : DW_DONE;
    }
    if (code_ <= DW_OK) backend_.wait_settled(gate_);
    if (!gate_.wait_all(Deadline::at_ns(0))) {
      break_groups();
      backend_.wait_all(gate_);
    }
    dw_error late;
    const int32_t ended = gate_.take(&late);
    if (code_ <= DW_OK && ended != DW_OK) {
      code_ = ended;
      error_ = late;
    }
    if (code_ <= DW_OK) return DW_DONE;
    if (error != nullptr) *error = error_;
    return code_;
  }

 private:
  // After a failure no further operation starts; operations whose completion
  // was promised still complete.
  void begin(const Item& item) {
    if (code_ > DW_OK) {
      if (!all_wait_ && started_ != 0) tell(item, code_);
      return;
    }
    const bool message = is_message(item);
    const bool counted = all_wait_ && message;
    if (counted) gate_.expect();
    int32_t code;
    for (;;) {
      code = counted
                 ? item.comm->start_message(*item.op, item.way, gate_, &error_)
                 : item.comm->submit_planned(*item.op, item.way, item.work,
                                             &error_);
      if (code != DW_AGAIN) break;
      if (item.comm->aborted()) {
        code = item.comm->refuse_aborted(&error_);
        break;
      }
      backend_.progress();
      sched_yield();
    }
    if (counted && code != DW_OK) gate_.end(DW_OK, nullptr);
    if (!all_wait_ && code == DW_DONE) tell(item, DW_OK);
    if (code <= DW_OK) {
      ++started_;
      return;
    }
    code_ = code;
    if (!all_wait_ && started_ != 0) tell(item, code);
  }

  void tell(const Item& item, int32_t code) {
    backend_.host().complete(item.work, code,
                             code == DW_OK ? nullptr : &error_);
  }

  void break_groups() {
    const dw_error why =
        code_ > DW_OK ? error_
                      : dw_error{DW_ABORTED, DW_REASON_ABORTED,
                                 -1,         0,
                                 0,          "an operation of a set failed"};
    for (const Item& item : items_) item.comm->break_group(why);
  }

  Backend& backend_;
  std::vector<Item>& items_;
  const bool all_wait_;
  Gate gate_;
  int started_ = 0;
  int32_t code_ = DW_OK;
  dw_error error_ = {};
};

// Locks `submits` of all communicators of a set, each once and in the order of
// addresses.
class Submits {
 public:
  explicit Submits(const std::vector<Item>& items)
      ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const Item& item : items) comms_.insert(item.comm);
    for (Comm* const comm : comms_) comm->submits().lock();
  }
  ~Submits() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (Comm* const comm : comms_) comm->submits().unlock();
  }
  Submits(const Submits&) = delete;
  Submits& operator=(const Submits&) = delete;

 private:
  std::set<Comm*, std::less<>> comms_;
};

// Submits a native set below as one set; DW_UNIMPLEMENTED when that is not
// possible.
int32_t hand_down(Backend& backend, const std::vector<Item>& items,
                  dw_error* error) {
  const Recipes& recipes = backend.recipes();
  for (const Item& item : items)
    if (item.way != Comm::Route::kNative || !item.comm->thread_idle() ||
        (waits(item) && !recipes.caller_waits(item.op->kind)))
      return DW_UNIMPLEMENTED;
  std::vector<dw_op> ops(items.size());
  std::vector<dw_group_item> below(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    ops[i] = *item.op;
    ops[i].struct_size = sizeof(dw_op);
    ops[i].seq = item.comm->seq_below(*item.op);
    below[i] = {item.comm->inner(), &ops[i], nullptr};
    if (!waits(item))
      below[i].work = (new ForwardCell(backend.host(), item.work))->abi();
  }
  int32_t code = DW_UNIMPLEMENTED;
  if (backend.calls().try_lock()) {
    std::optional<Submits> submits;
    if (!waits(items.front())) submits.emplace(items);
    code = backend.inner().submit_group(backend.inner_backend(), below.data(),
                                        below.size(), error);
    submits.reset();
    backend.calls().unlock();
    if (code == DW_UNIMPLEMENTED) backend.forget_groups();
  }
  if (code != DW_OK)
    for (const dw_group_item& item : below)
      delete reinterpret_cast<ForwardCell*>(item.work);
  return code;
}

}  // namespace

int32_t submit_group(dw_backend* opened, const dw_group_item* given, uint64_t n,
                     dw_error* error) {
  Backend& backend = Backend::of(opened);
  try {
    std::vector<Item> items(n);
    uint64_t waiting = 0;
    for (uint64_t i = 0; i < n; ++i) {
      Item& item = items[i];
      item.comm = &Comm::of(given[i].comm);
      item.work = given[i].work;
      if (int32_t code = read_op(&item.space, &item.op, given[i].op, error))
        return code;
      if (int32_t code = item.comm->plan(*item.op, &item.way, error))
        return code;
      if (item.comm->aborted()) return item.comm->refuse_aborted(error);
      if (waits(item)) ++waiting;
    }
    if (waiting != 0 && waiting != n)
      return invalid(error, "of a set, all wait or none");
    if (waiting != 0 && !self_messages_meet(items))
      return invalid(error,
                     "a message to oneself in a set that waits has no "
                     "counterpart");
    if (backend.has_groups()) {
      const int32_t code = hand_down(backend, items, error);
      if (code != DW_UNIMPLEMENTED) return code;
    }
    return Set(backend, items, waiting != 0).run(error);
  } catch (...) {
    return dw_sdk::error_of_exception("a set of operations", error);
  }
}

}  // namespace distwrap::algo::compose
