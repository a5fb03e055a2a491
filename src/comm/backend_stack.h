// The tables that an operation passes, from the uppermost decorator, which the
// host calls, down to the engine.
//
// Threads: constant after `open`.
// Ownership: owns the opened tables; closes them from the top.
//
//   BackendStack stack(engine);
//   stack.push(compose);  // on top of what is there
//   stack.open(host, info, &error);
//   const Runner runner = stack.runner(comm, collectives);
//   runner.submit(runner.comm, &op, nullptr, &error);
#ifndef DISTWRAP_SRC_COMM_BACKEND_STACK_H_
#define DISTWRAP_SRC_COMM_BACKEND_STACK_H_

#include "plugin/backend_table.h"

#include <cstdint>
#include <vector>

namespace distwrap::comm {

// Where an operation enters: one table of a stack, and its communicator.
struct Runner {
  int32_t (*submit)(dw_comm*, const dw_op*, dw_work*, dw_error*);
  dw_comm* comm;
  uint32_t flags;  // DW_BACKEND_<PROPERTY> of that table
  const dw_backend_api* api;
  // The host does more for a call whose caller waits than to submit it.
  bool host_attends = false;

  bool host_watches() const { return (flags & DW_BACKEND_HOST_WATCHES) != 0; }
  bool says_waits() const { return (flags & DW_BACKEND_SAYS_WAITS) != 0; }
  bool says_under_way() const {
    return (flags & DW_BACKEND_SAYS_UNDER_WAY) != 0;
  }
};

class BackendStack {
 public:
  explicit BackendStack(plugin::BackendPtr engine);
  ~BackendStack();
  BackendStack(const BackendStack&) = delete;
  BackendStack& operator=(const BackendStack&) = delete;

  // Before `open`.
  void push(plugin::BackendPtr decorator);
  // Opens the uppermost table over the others; once.
  int32_t open(const dw_host_api& host, dw_open_info info, dw_error* error);

  // The uppermost table: it serves communicators, windows and memory.
  const dw_backend_api& api() const { return layers_.front()->api(); }
  dw_backend* backend() const { return backend_; }
  // The lowest table.
  const plugin::BackendPtr& engine() const { return layers_.back(); }
  // Whether every table has this property.
  bool all_have(uint32_t property) const;

  // The lowest table to which operations of all kinds in `ops` (bits
  // DW_OP_<KIND>) of `comm` may be given when the caller waits. 0: the
  // uppermost one, for what completes later.
  Runner runner(dw_comm* comm, uint64_t ops) const;
  // The handle of a window of `comm` in the same table.
  dw_window* window(dw_comm* comm, dw_window* window, uint64_t ops) const;

 private:
  struct Place {
    size_t layer;
    dw_comm* comm;
    dw_window* window;
  };
  Place descend(dw_comm* comm, dw_window* window, uint64_t ops) const;

  std::vector<plugin::BackendPtr> layers_;  // from the uppermost
  dw_backend* backend_ = nullptr;           // the uppermost plugin's
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BACKEND_STACK_H_
