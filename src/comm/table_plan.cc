#include "comm/table_plan.h"

namespace distwrap::comm {

int32_t TablePlan::make(const Runner& at, const dw_op& op,
                        std::unique_ptr<TablePlan>* made, dw_error* error) {
  dw_plan* plan = nullptr;
  const int32_t code = at.api->plan_create(at.comm, &op, 1, &plan, error);
  if (code == DW_UNIMPLEMENTED) return DW_OK;
  if (code == DW_OK) made->reset(new TablePlan(at, plan));
  return code;
}

int32_t TablePlan::start(dw_comm* plan, const dw_op* op, dw_work* work,
                         dw_error* error) {
  const auto& self = *reinterpret_cast<const TablePlan*>(plan);
  constexpr uint32_t kOwn =
      DW_FLAG_CALLER_WAITS | DW_FLAG_CAPTURE | DW_FLAG_ASIDE;
  const dw_start how = {.struct_size = sizeof how,
                        .flags = op->flags & kOwn,
                        .in = op->in.data,
                        .out = op->out.data,
                        .stream = op->stream,
                        .deadline_ns = op->deadline_ns,
                        .timeout_ns = op->timeout_ns,
                        .seq = op->seq,
                        .trace = op->trace};
  return self.at_.api->plan_run(self.plan_, &how, work, error);
}

}  // namespace distwrap::comm
