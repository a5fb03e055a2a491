#include "algo/compose/comm.h"

#include "algo/below/dtypes.h"
#include "algo/compose/carried_message.h"
#include "algo/compose/check.h"
#include "algo/compose/window.h"
#include "algo/decorator.h"
#include "sdk/guard.h"
#include "sdk/moe_rows.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <sched.h>
#include <utility>

namespace distwrap::algo::compose {
namespace {

bool is_message(uint16_t kind) {
  return kind == DW_OP_SEND || kind == DW_OP_RECV;
}

bool requires_unknown(const dw_op& op) {
  static constexpr dw_str kKnown[] = {dw_sdk::kMoeId, dw_sdk::kMoeSumId};
  return dw_check_known_extensions(op.next, kKnown, 2) != DW_OK;
}

Deadline patience(int64_t deadline_ns) {
  constexpr int64_t kPatience = 1'000'000'000;
  return Deadline::at_ns(std::max(deadline_ns, Deadline::now_ns() + kPatience));
}

}  // namespace

Comm::Comm(Backend& backend, dw_comm* inner, int rank, int size)
    : backend_(backend),
      inner_(inner),
      rank_(rank),
      size_(size),
      submit_(backend.inner().submit),
      execution_(*this, true) {}

Comm::~Comm() = default;

int32_t Comm::refuse_aborted(dw_error* error) {
  return fail(error, DW_ABORTED, DW_REASON_ABORTED, "the group was aborted");
}

int32_t Comm::plan(const dw_op& op, Route* way, dw_error* error) {
  if (op.kind == 0 || op.kind >= Recipes::kKinds)
    return unsupported(error, "this operation cannot be composed");
  const uint32_t flags = op.flags & ~(DW_FLAG_CALLER_WAITS | DW_FLAGS_OPTIONAL);
  if ((flags & ~Recipes::flags_of(op.kind)) != 0)
    return unsupported(error, "a flag is not supported");
  const int dtype = op_dtype(op);
  if (dtype < 0) return unsupported(error, "this dtype is not supported");
  if (dw_sdk::moe_extension_of(op) != nullptr) return plan_rows(op, way, error);
  const Recipes& recipes = backend_.recipes();
  const bool to_self = is_message(op.kind) && op.peer == rank_;
  if (op.reduce >= Recipes::kReductions)
    return unsupported(error, "this reduction is not known");
  if ((!to_self || !recipes.on_host()) &&
      (recipes.native(op.kind, flags, dtype, op.reduce) ||
       recipes.native_at(op.kind, flags, dtype, op.reduce,
                         part_bytes(op, size_)))) {
    *way = Route::kNative;
    return DW_OK;
  }
  const Recipe recipe =
      recipes.recipe_of_form(op.kind, flags, dtype, op.reduce);
  if (recipe == Recipe::kRefused)
    return unsupported(
        error, !Recipes::exists(op.kind, flags, dtype, op.reduce)
                   ? "no such reduction for this operation and dtype"
               : recipes.on_host()
                   ? "the backend has nothing of which this could be composed"
                   : "the backend lacks it, and to compose it takes memory of "
                     "the host");
  if (op.stream.device_type != 0 && op.stream.device_type != DW_DEVICE_CPU)
    return unsupported(error, "no composed operation goes on a stream");
  if (requires_unknown(op))
    return unsupported(error, "an extension that is required is not known");
  if (recipe == Recipe::kToSelf && !to_self && op.peer >= 0 && op.peer < size_)
    return unsupported(error, "the backend has messages to oneself only");
  *way = to_self ? Route::kToSelf : Route::kComposed;
  return check_op(op, rank_, size_, error);
}

int32_t Comm::plan_rows(const dw_op& op, Route* way, dw_error* error) {
  dw_sdk::MoeRows rows;
  if (int32_t code = rows.read(op, rank_, size_, error)) return code;
  if (requires_unknown(op))
    return unsupported(error, "an extension that is required is not known");
  if (rows.has_sums() && dw_sdk::moe_sum_api_of(backend_.host()) == nullptr)
    return unsupported(error, "the host adds no rows");
  const Recipes& recipes = backend_.recipes();
  if (!recipes.on_host() ||
      (op.stream.device_type != 0 && op.stream.device_type != DW_DEVICE_CPU))
    return unsupported(error, "rows are composed in memory of the host only");
  constexpr uint32_t kForm = DW_FLAG_PER_RANK;
  if (rows_of(op).load(std::memory_order_relaxed) == Rows::kUnknown) {
    dw_op asked = op;
    asked.flags &= ~uint32_t{DW_FLAG_CALLER_WAITS};
    const bool is_native =
        recipes.native(op.kind, kForm, DW_DTYPE_U8, DW_REDUCE_NONE) &&
        backend_.inner().query(inner_, &asked, nullptr) == DW_OK;
    rows_of(op).store(is_native ? Rows::kNative : Rows::kComposed,
                      std::memory_order_relaxed);
  }
  const bool native = moves_rows_of(op);
  *way = native ? Route::kNative : Route::kComposed;
  if (native || recipes.recipe_of_form(op.kind, kForm, DW_DTYPE_U8,
                                       DW_REDUCE_NONE) != Recipe::kRefused)
    return DW_OK;
  return unsupported(error, "the backend has nothing that could move rows");
}

int32_t Comm::query(const dw_op* given, dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = read_op(&space, &op, given, error)) return code;
  if (is_of_window(op->kind)) return query_window(*op, error);
  Route way;
  if (int32_t code = plan(*op, &way, error)) return code;
  if (way != Route::kNative) return DW_DONE;
  if (backend_.recipes().caller_waits(op->kind))
    return backend_.inner().query(inner_, given, error);
  dw_op asked = *op;
  asked.flags &= ~DW_FLAG_CALLER_WAITS;
  return backend_.inner().query(inner_, &asked, error);
}

uint64_t Comm::seq_below(const dw_op& op) const {
  // If all collectives are native, the host may give some to the backend
  // itself, so their numbers stay.
  return backend_.recipes().collectives_complete() ? op.seq : op.seq * kSteps;
}

dw_op Comm::lowered(const dw_op& op) const {
  dw_op below = op;
  below.struct_size = sizeof below;
  below.seq = seq_below(op);
  return below;
}

int32_t Comm::submit(const dw_op* given, dw_work* work, dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = read_op(&space, &op, given, error)) return code;
  if (is_of_window(op->kind)) return submit_to_window(*op, work, error);
  Route way;
  if (int32_t code = plan(*op, &way, error)) return code;
  return submit_planned(*op, way, work, error);
}

int32_t Comm::submit_planned(const dw_op& op, Route way, dw_work* work,
                             dw_error* error) {
  const bool waits = (op.flags & DW_FLAG_CALLER_WAITS) != 0;
  if (way == Route::kToSelf) {
    if (waits) return self_.give(op, nullptr, error);
    auto* const cell = new (std::nothrow) ForwardCell(backend_.host(), work);
    if (cell == nullptr) return no_memory(error);
    const int32_t code = self_.give(op, cell, error);
    if (code != DW_OK) delete cell;
    return code;
  }
  if (way == Route::kComposed && is_message(op.kind))
    return submit_carried(op, work, error);
  if (!thread_idle()) return run_beside(op, way, work, error);
  if (way == Route::kNative) {
    if (waits && !backend_.recipes().caller_waits(op.kind))
      return wait_here(op, error);
    const dw_op below = lowered(op);
    return waits ? submit_(inner_, &below, nullptr, error)
                 : forward(below, work, &Comm::submit_once, error);
  }
  if (aborted()) return refuse_aborted(error);
  return waits ? wait_here(op, error) : enqueue(op, way, work, nullptr, error);
}

int32_t Comm::wait_here(const dw_op& op, dw_error* error) {
  const int32_t code = execution_.run(op, error);
  return code == DW_OK ? DW_DONE : code;
}

int32_t Comm::run_beside(const dw_op& op, Route way, dw_work* work,
                         dw_error* error) {
  const bool waits = (op.flags & DW_FLAG_CALLER_WAITS) != 0;
  if (!waits && !is_message(op.kind))
    return enqueue(op, way, work, nullptr, error);
  if (!waits) return forward(lowered(op), work, &Comm::submit_once, error);
  Gate gate;
  gate.expect();
  const int32_t code = is_message(op.kind)
                           ? start_message(op, way, gate, error)
                           : enqueue(op, way, nullptr, &gate, error);
  if (code != DW_OK) return code;
  backend_.wait_all(gate);
  const int32_t ended = gate.take(error);
  return ended == DW_OK ? DW_DONE : ended;
}

int32_t Comm::start_message(const dw_op& op, Route way, Cell& cell,
                            dw_error* error) {
  if (way == Route::kToSelf) return self_.give(op, &cell, error);
  if (way == Route::kComposed)
    return CarriedMessage::start(*this, op, cell, true, error);
  dw_op below = lowered(op);
  below.flags &= ~DW_FLAG_CALLER_WAITS;
  return submit_below(below, cell.abi(), error);
}

int32_t Comm::submit_carried(const dw_op& op, dw_work* work, dw_error* error) {
  if ((op.flags & DW_FLAG_CALLER_WAITS) == 0) {
    auto* const cell = new (std::nothrow) ForwardCell(backend_.host(), work);
    if (cell == nullptr) return no_memory(error);
    const int32_t code = CarriedMessage::start(*this, op, *cell, false, error);
    if (code != DW_OK) delete cell;
    return code;
  }
  Gate gate;
  gate.expect();
  const int32_t code = CarriedMessage::start(*this, op, gate, true, error);
  if (code != DW_OK) return code;
  backend_.wait_all(gate);
  const int32_t ended = gate.take(error);
  return ended == DW_OK ? int32_t{DW_DONE} : ended;
}

int32_t Comm::forward(const dw_op& below, dw_work* work, Submit way,
                      dw_error* error) {
  auto* const cell = new (std::nothrow) ForwardCell(backend_.host(), work);
  if (cell == nullptr) return no_memory(error);
  const int32_t code = (this->*way)(below, cell->abi(), error);
  if (code != DW_OK) delete cell;
  return code;
}

int32_t Comm::forward_start(dw_plan* below, const dw_start& start,
                            dw_work* work, dw_error* error) {
  auto* const cell = new (std::nothrow) ForwardCell(backend_.host(), work);
  if (cell == nullptr) return no_memory(error);
  int32_t code;
  {
    base::MutexLock lock(submits_);
    code = backend_.inner().plan_run(below, &start, cell->abi(), error);
  }
  if (code != DW_OK) delete cell;
  return code;
}

int32_t Comm::submit_once(const dw_op& op, dw_work* work, dw_error* error) {
  base::MutexLock lock(submits_);
  return submit_(inner_, &op, work, error);
}

int32_t Comm::submit_below(const dw_op& op, dw_work* work, dw_error* error) {
  int64_t until = op.deadline_ns;
  for (;;) {
    const int32_t code = work == nullptr ? submit_(inner_, &op, work, error)
                                         : submit_once(op, work, error);
    if (code != DW_AGAIN) return code;
    if (aborted()) return refuse_aborted(error);
    const int64_t now = backend_.now_ns();
    if (until == 0 && op.timeout_ns != 0 &&
        __builtin_add_overflow(now, op.timeout_ns, &until))
      until = INT64_MAX;
    if (until != 0 && now >= until)
      return fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT,
                  "the backend had no resources in time");
    backend_.progress();
    sched_yield();
  }
}

int32_t Comm::enqueue(const dw_op& op, Route way, dw_work* work, Gate* gate,
                      dw_error* error) {
  // Extensions are borrowed for the call. Of those that are required, a task
  // keeps the one that it knows.
  if (requires_unknown(op))
    return unsupported(error,
                       "an extension that is required cannot wait for the "
                       "operations under way");
  return dw_sdk::guarded("an asynchronous operation", error, [&]() -> int32_t {
    if (operation_thread_ == nullptr) {
      auto thread = std::make_unique<OperationThread>(*this);
      if (int32_t code = thread->start(error)) return code;
      operation_thread_ = std::move(thread);
    }
    auto task = std::make_unique<Task>(op, size_, way == Route::kComposed, work,
                                       gate, backend_.now_ns());
    // A thread that sees the flag sees the operation thread.
    composing_.fetch_add(1, std::memory_order_release);
    try {
      operation_thread_->add(std::move(task));
    } catch (const std::bad_alloc&) {
      composing_.fetch_sub(1, std::memory_order_release);
      throw;
    }
    return DW_OK;
  });
}

void Comm::run_task(Task& task) {
  dw_error error = {};
  error.peer = -1;
  int32_t code;
  if (aborted()) {
    code = refuse_aborted(&error);
  } else if (task.composed()) {
    code = dw_sdk::guarded("an asynchronous operation", &error, [&] {
      return operation_thread_->execution().run(task.op(), &error);
    });
  } else {
    const dw_op below = lowered(task.op());
    code = task.gate() != nullptr
               ? submit_below(below, task.gate()->abi(), &error)
               : forward(below, task.work(), &Comm::submit_below, &error);
    if (code == DW_OK) {
      composing_.fetch_sub(1, std::memory_order_release);
      return;
    }
    if (code == DW_DONE) code = DW_OK;
  }
  // From here on the caller's thread may submit below.
  composing_.fetch_sub(1, std::memory_order_release);
  const dw_error* const told = code == DW_OK ? nullptr : &error;
  if (task.gate() != nullptr)
    task.gate()->end(code, told);
  else
    backend_.host().complete(task.work(), code, told);
}

int32_t Comm::abort(const dw_error* why) {
  aborted_.store(true, std::memory_order_release);
  self_.abort();
  if (const auto windows = service()) windows->abort();
  abort_below(why);
  return DW_OK;
}

void Comm::break_group(const dw_error& why) { abort(&why); }

void Comm::abort_below(const dw_error* why) {
  if (!below_aborted_.exchange(true, std::memory_order_acq_rel))
    backend_.inner().comm_abort(inner_, why);
}

std::shared_ptr<windows::MessageService> Comm::service() {
  base::MutexLock lock(service_mutex_);
  return service_;
}

void Comm::use(std::shared_ptr<windows::MessageService> service) {
  std::shared_ptr<windows::MessageService> before;
  {
    base::MutexLock lock(service_mutex_);
    before = std::exchange(service_, service);
  }
  if (aborted()) service->abort();
  if (before != nullptr) end(std::move(before), 0);
}

// An operation that the backend below does not release is kept for ever: better
// a leak than memory freed under its feet.
bool Comm::end(std::shared_ptr<windows::MessageService> service,
               int64_t deadline_ns) {
  if (service->stop(patience(deadline_ns))) return true;
  new std::shared_ptr<windows::MessageService>(std::move(service));
  return false;
}

bool Comm::stop(int64_t deadline_ns) {
  std::shared_ptr<windows::MessageService> windows;
  {
    base::MutexLock lock(service_mutex_);
    windows = std::exchange(service_, nullptr);
  }
  if (windows != nullptr && !end(std::move(windows), deadline_ns)) return false;
  return operation_thread_ == nullptr ||
         operation_thread_->stop(patience(deadline_ns));
}

}  // namespace distwrap::algo::compose
