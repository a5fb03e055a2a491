// Prepared operations over every backend: how an operation is served is found
// once. What the backend below has itself is prepared there, too, where it can.
//
// Threads: as `submit`. Ownership: of its caller; borrows the communicator.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_PLAN_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_PLAN_H_

#include "algo/compose/comm.h"
#include "algo/compose/kept_op.h"
#include "distwrap/abi/plugin.h"

namespace distwrap::algo::compose {

// Slots of the table.
int32_t plan_create(dw_comm* comm, const dw_op* ops, uint64_t n, dw_plan** plan,
                    dw_error* error);
int32_t plan_run(dw_plan* plan, const dw_start* start, dw_work* work,
                 dw_error* error);
int32_t plan_destroy(dw_plan* plan, dw_error* error);

class Plan {
 public:
  Plan(Comm& comm, const dw_op& op, Comm::Route way)
      : comm_(comm), op_(op, comm.size()), way_(way) {}
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  static Plan& of(dw_plan* plan) { return *reinterpret_cast<Plan*>(plan); }
  dw_plan* abi() { return reinterpret_cast<dw_plan*>(this); }

  // Prepares it below if it is served there. The chain of extensions lives as
  // long as the plan.
  int32_t prepare_below(const dw_ext* next, dw_error* error);
  int32_t run(const dw_start& start, dw_work* work, dw_error* error);

 private:
  Comm& comm_;
  const KeptOp op_;
  const Comm::Route way_;
  const dw_ext* next_ = nullptr;
  dw_plan* below_ = nullptr;  // null: every start is submitted
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_PLAN_H_
