// An operation in flight: submitted, waited for, judged.
#ifndef DISTWRAP_TESTS_CONFORMANCE_OPERATION_H_
#define DISTWRAP_TESTS_CONFORMANCE_OPERATION_H_

#include "host.h"
#include "team.h"

#include <string>
#include <vector>

namespace distwrap::conformance {

// One at a time: begin, or begin_group with others, then end. The results are
// "" or the mistake.
class Operation {
 public:
  // An operation on the member's communicator, or on another one of the member.
  explicit Operation(const dw_op& op, dw_comm* comm = nullptr)
      : op_(op), comm_(comm) {}

  std::string begin(Member& member);
  // Waits for a pending operation. If it does not complete, the communicator is
  // aborted.
  std::string end(Member& member);

  bool is_pending() const { return pending_; }
  bool has_completed() const { return work_.completions() > 0; }

 private:
  friend std::string begin_group(Member& member,
                                 const std::vector<Operation*>& all);

  bool caller_waits() const { return (op_.flags & DW_FLAG_CALLER_WAITS) != 0; }

  const dw_op op_;
  dw_comm* const comm_;
  dw_work work_;
  bool pending_ = false;
};

// Submits a set.
std::string begin_group(Member& member, const std::vector<Operation*>& all);

// Drives a backend that needs it; true once the work is complete.
bool wait_for(Member& member, dw_work& work, std::chrono::milliseconds limit);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_OPERATION_H_
