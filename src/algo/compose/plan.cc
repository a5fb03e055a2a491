#include "algo/compose/plan.h"

#include "algo/compose/check.h"
#include "algo/compose/window.h"
#include "algo/decorator.h"
#include "sdk/guard.h"
#include "sdk/start.h"
#include "sdk/windows.h"

#include <memory>

namespace distwrap::algo::compose {

int32_t Plan::prepare_below(const dw_ext* next, dw_error* error) {
  const dw_backend_api& inner = comm_.backend().inner();
  next_ = next;
  if (way_ != Comm::Route::kNative || inner.plan_create == nullptr ||
      inner.plan_run == nullptr || inner.plan_destroy == nullptr)
    return DW_OK;
  dw_op op = op_.get();
  op.next = next;
  const int32_t code = inner.plan_create(comm_.inner(), &op, 1, &below_, error);
  return code == DW_UNIMPLEMENTED ? int32_t{DW_OK} : code;
}

Plan::~Plan() {
  if (below_ != nullptr) comm_.backend().inner().plan_destroy(below_, nullptr);
}

int32_t Plan::run(const dw_start& start, dw_work* work, dw_error* error) {
  if (below_ != nullptr && comm_.thread_idle()) {
    dw_op numbered = {};
    numbered.seq = start.seq;
    dw_start below = start;
    below.seq = comm_.seq_below(numbered);
    const bool waits = (start.flags & DW_FLAG_CALLER_WAITS) != 0;
    if (!waits) return comm_.forward_start(below_, below, work, error);
    if (comm_.backend().recipes().caller_waits(op_.get().kind))
      return comm_.backend().inner().plan_run(below_, &below, nullptr, error);
  }
  dw_op op = op_.get();
  op.next = next_;
  dw_apply_start(&start, &op);
  return comm_.submit_planned(op, way_, work, error);
}

int32_t plan_create(dw_comm* comm, const dw_op* ops, uint64_t n, dw_plan** plan,
                    dw_error* error) {
  if (n != 1 || ops == nullptr)
    return unsupported(error, "one operation can be prepared");
  dw_op space;
  const dw_op* op;
  if (int32_t code = read_op(&space, &op, ops, error)) return code;
  if (dw_is_of_window(op) != 0)
    return unsupported(error, "no operation on a window can be prepared");
  Comm& prepares = Comm::of(comm);
  Comm::Route way;
  if (int32_t code = prepares.plan(*op, &way, error)) return code;
  return dw_sdk::guarded("a prepared operation", error, [&]() -> int32_t {
    auto made = std::make_unique<Plan>(prepares, *op, way);
    if (int32_t code = made->prepare_below(op->next, error)) return code;
    *plan = made.release()->abi();
    return DW_OK;
  });
}

int32_t plan_run(dw_plan* plan, const dw_start* given, dw_work* work,
                 dw_error* error) {
  dw_start space;
  const dw_start* start;
  if (int32_t code = dw_read_start(&space, &start, given))
    return fail(error, code, DW_REASON_INVALID_ARGUMENT,
                "the start has a size or a field that is not known");
  return dw_sdk::guarded("a prepared operation", error, [&] {
    return Plan::of(plan).run(*start, work, error);
  });
}

int32_t plan_destroy(dw_plan* plan, dw_error* /*error*/) {
  delete &Plan::of(plan);
  return DW_OK;
}

}  // namespace distwrap::algo::compose
