// A dispatch or a combine as steps: what is sent first, what a forwarder hands
// on, and what is written at the end. Between the steps a caller waits, or lets
// completions take the next step.
//
// Threads: one at a time. Ownership: keeps the plan; buffers are the caller's.
#ifndef DISTWRAP_SRC_MOE_CALL_H_
#define DISTWRAP_SRC_MOE_CALL_H_

#include "distwrap/deadline.h"
#include "distwrap/work.h"
#include "moe/agreement.h"
#include "moe/exchange.h"
#include "moe/plan_state.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <utility>
#include <vector>

namespace distwrap::moe {

// The steps after the first Work of a call.
class StagedCall {
 public:
  explicit StagedCall(Exchange exchange) : exchange_(std::move(exchange)) {}
  virtual ~StagedCall() = default;
  StagedCall(const StagedCall&) = delete;
  StagedCall& operator=(const StagedCall&) = delete;

  // After the first Work: hands rows on. Only with two hops.
  bool two_hops() const { return two_hops_; }
  virtual absl::StatusOr<Work> second(bool async) = 0;
  // After all Works: writes the outputs.
  virtual void end() = 0;
  // The call has failed, and nobody may be waiting for it.
  virtual void fails(const absl::Status& /*error*/) {}

  // These steps, waiting.
  absl::Status run_rest(const Work& started);

  const Exchange& exchange() const { return exchange_; }

 protected:
  Exchange exchange_;
  bool two_hops_ = false;
};

// The facts of a call with a plan that are equal on all ranks.
struct CallFacts {
  int64_t kind = 0;  // 0: dispatch, 1: combine
  int64_t dtype = 0, row_bytes = 0, parts = 0;
  friend bool operator==(const CallFacts&, const CallFacts&) = default;
};

// Validation: tells all ranks of a fault, and compares their calls.
// kCallMismatch on all ranks. `exchange` leaves masked ranks out.
absl::Status compare_calls(const Exchange& exchange, const PlanState& plan,
                           const Fault& fault, const CallFacts& mine);
// The error of a call whose arguments have a fault: with validation on all
// ranks, else on this one.
absl::Status refuse_call(const CallPlace& place, PlanState& plan,
                         const ErrorInfo& fault);

// A call with a plan.
class MoeCall : public StagedCall {
 public:
  MoeCall(std::shared_ptr<PlanState> plan, CallPlace place);
  ~MoeCall() override;

  // Lends memory from the plan; kResourceLimit for a pending call too many.
  absl::Status open(bool limited);
  // Sends; with `async` the returned Work runs.
  absl::StatusOr<Work> first(bool async);

  // The whole call, waiting.
  absl::Status run();
  // The caller begins to wait for what it has started.
  void waits_from_now() { since_ns_ = Deadline::now_ns(); }
  void fails(const absl::Status& error) override { plan_->keep_error(error); }

  PlanState& plan() { return *plan_; }
  const std::shared_ptr<PlanState>& shared_plan() const { return plan_; }

 protected:
  virtual absl::StatusOr<Work> send_first(bool async) = 0;
  virtual CallFacts facts() const = 0;
  int64_t call_tag() const;

  const std::shared_ptr<PlanState> plan_;
  std::unique_ptr<Workspace> memory_;

 private:
  bool limited_ = false;
  int64_t number_ = 0;
  int64_t since_ns_ = 0;  // when this rank began to wait; 0: not yet
};

// A call that runs to its end without a caller that waits.
Work run_async(std::unique_ptr<StagedCall> call, const Work& started);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_CALL_H_
