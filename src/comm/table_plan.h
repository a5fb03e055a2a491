// A prepared operation in one table of a backend stack, to which a start is
// given as if it were submitted.
//
// Threads: as the table's `submit`; ended while nothing is in flight.
// Ownership: of the communicator.
#ifndef DISTWRAP_SRC_COMM_TABLE_PLAN_H_
#define DISTWRAP_SRC_COMM_TABLE_PLAN_H_

#include "comm/backend_stack.h"
#include "distwrap/abi/plugin.h"

#include <memory>

namespace distwrap::comm {

class TablePlan {
 public:
  // Prepares `op` where `at` submits. Null with DW_OK: the table prepares
  // nothing, so every start is submitted there.
  static int32_t make(const Runner& at, const dw_op& op,
                      std::unique_ptr<TablePlan>* made, dw_error* error);
  ~TablePlan() { at_.api->plan_destroy(plan_, nullptr); }
  TablePlan(const TablePlan&) = delete;
  TablePlan& operator=(const TablePlan&) = delete;

  // Where a start is given.
  Runner runner() {
    Runner runner = at_;
    runner.submit = start;
    runner.comm = reinterpret_cast<dw_comm*>(this);
    return runner;
  }

 private:
  TablePlan(const Runner& at, dw_plan* plan) : at_(at), plan_(plan) {}
  static int32_t start(dw_comm* plan, const dw_op* op, dw_work* work,
                       dw_error* error);

  const Runner at_;
  dw_plan* const plan_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_TABLE_PLAN_H_
