// A dispatch or a combine as steps: what is sent first, what a forwarder hands
// on, and what is written at the end. Between the steps a caller waits, or lets
// completions take the next step.
//
// Threads: one at a time. Ownership: keeps the plan; buffers are the caller's.
#ifndef DISTWRAP_SRC_MOE_CALL_H_
#define DISTWRAP_SRC_MOE_CALL_H_

#include "distwrap/work.h"
#include "moe/exchange.h"
#include "moe/plan_state.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <utility>
#include <vector>

namespace distwrap::moe {

class MoeCall {
 public:
  MoeCall(std::shared_ptr<PlanState> plan, CallPlace place);
  virtual ~MoeCall();
  MoeCall(const MoeCall&) = delete;
  MoeCall& operator=(const MoeCall&) = delete;

  // Lends memory from the plan; kResourceLimit for a pending call too many.
  absl::Status open(bool limited);
  // Packs and sends; with `async` the returned Work runs.
  absl::StatusOr<Work> first(bool async);
  // After the first Work: hands rows on. Only with two hops.
  bool two_hops() const { return two_hops_; }
  virtual absl::StatusOr<Work> second(bool async) = 0;
  // After all Works: writes the outputs.
  virtual void end() = 0;

  // The whole call, waiting.
  absl::Status run();
  // The steps after the first Work, waiting.
  absl::Status run_rest(const Work& started);

  const Exchange& exchange() const { return exchange_; }
  PlanState& plan() { return *plan_; }

 protected:
  virtual absl::StatusOr<Work> send_first(bool async) = 0;
  int64_t call_tag() const;
  // Sends `in` and receives `out` between the ranks of a second hop.
  absl::StatusOr<Work> hand_on(const ByteParts& out, const ByteParts& in,
                               bool async) const {
    return exchange_.messages(out, in, call_tag(), async);
  }

  const std::shared_ptr<PlanState> plan_;
  Exchange exchange_;
  std::unique_ptr<Workspace> memory_;
  bool two_hops_ = false;

 private:
  bool limited_ = false;
  int64_t number_ = 0;
};

// A call that runs to its end without a caller that waits.
Work run_async(std::unique_ptr<MoeCall> call, const Work& started);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_CALL_H_
