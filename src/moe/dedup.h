// The raw form: calls by index maps. The ranks compare what each is about to
// send with what the others expect, and so agree on an error before any row
// moves. Then the maps are a plan like others.
//
// Threads: calls of one request one at a time. Ownership: a request is held by
// handles and calls.
#ifndef DISTWRAP_SRC_MOE_DEDUP_H_
#define DISTWRAP_SRC_MOE_DEDUP_H_

#include "moe/agreement.h"
#include "moe/exchange.h"
#include "moe/index_maps.h"
#include "moe/plan_state.h"

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <memory>
#include <optional>

namespace distwrap::moe {

class DedupState {
 public:
  std::shared_ptr<group::GroupState> group;
  MapShape shape;
  int64_t width = 0;  // elements of a token
  DType dtype = DType::kU8;
  bool validate = false;          // wrong maps are named by their first token
  int64_t number = 0;             // equal on all ranks
  std::atomic<int64_t> calls{0};  // equal on all ranks
};

struct DedupArguments {
  int64_t tokens = 0, width = 0, slots = 0;
  int experts = 0;
  DType dtype = DType::kU8;
  int ranks_per_node = 0;
};

absl::StatusOr<std::shared_ptr<DedupState>> begin_dedup(
    CallPlace place, const DedupArguments& arguments);

struct MapArguments {
  TensorView send, forward, recv;
  int64_t rows = 0;  // the rows that the output or input has room for
};
// The fault of a call with the plan of its maps.
using JudgeCall = absl::FunctionRef<std::optional<ErrorInfo>(PlanState& plan)>;

// Checks the maps of a call, here and between the ranks, and makes their plan.
// `fault`: what is wrong with other arguments. An error is that of all ranks.
absl::StatusOr<std::shared_ptr<PlanState>> plan_of_maps(
    CallPlace place, DedupState& request, const MapArguments& given,
    Fault fault, JudgeCall judge);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_DEDUP_H_
