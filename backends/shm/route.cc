#include "route.h"

#include "run.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace shm_backend {
namespace {

// Whether no rank can finish before all have entered.
bool ends_together(const EngineOp& call) {
  return call.kind >= DW_OP_ALL_GATHER || call.kind == DW_OP_ALL_REDUCE;
}

// Publishes the times of all ranks' tries in a round of their own.
int32_t agree_on(Comm* comm, const EngineOp& call, Choice& choice,
                 dw_error* error) {
  Run run(comm, call, error);
  const uint32_t print = ~call.print;
  Choice::Times all[kMostRanks];
  static_assert(sizeof *all <= kInside);
  all[run.rank] = choice.times();
  run.show(0, &all[run.rank], sizeof *all, print);
  for (int r = 0; r < run.size; ++r) {
    if (r == run.rank) continue;
    const char* const theirs =
        run.look(r, 0, sizeof *all, 0, sizeof *all, print);
    if (theirs == nullptr) return run.code();
    std::memcpy(&all[r], theirs, sizeof *all);
  }
  choice.choose(all, run.size, ends_together(call));
  return run.finish(true);
}

}  // namespace

// Ranks that share processors also share the kernel's work, which is most of
// the cost: such calls take a half to a fifth of the time by staging. The time
// of one of them tells more about the scheduling than about the way. Strided
// pieces have one way.
size_t tried_from(const Comm& comm, const EngineOp& call) {
  if (comm.oversubscribed || call.blocks != nullptr) return SIZE_MAX;
  switch (call.kind) {
    case DW_OP_BROADCAST:
    case DW_OP_GATHER:
    case DW_OP_SCATTER:
      // One rank stages while the other reads what was staged before.
      return comm.tuning.one_way_tried;
    case DW_OP_ALL_GATHER:
    case DW_OP_ALL_TO_ALL:
      return comm.tuning.straight_tried;
    case DW_OP_REDUCE:
      // With two ranks only one needs the result, and the other goes on at
      // once.
      if (comm.size == 2) return SIZE_MAX;
      [[fallthrough]];
    case DW_OP_ALL_REDUCE:
    case DW_OP_REDUCE_SCATTER:
      return call.scale == nullptr ? comm.tuning.direct_tried : SIZE_MAX;
    default:
      return SIZE_MAX;
  }
}

size_t shown_by_all(const EngineOp& call, int size) {
  const auto n = static_cast<size_t>(size);
  switch (call.kind) {
    case DW_OP_BARRIER:
      return 0;
    case DW_OP_BROADCAST:
      return call.out.bytes;
    case DW_OP_ALL_GATHER:
      return call.out_pieces.longest();
    case DW_OP_REDUCE_SCATTER:
      return n * call.in_pieces.longest();
    case DW_OP_GATHER:
      return call.per_rank() ? kPairs : call.in.bytes;
    case DW_OP_SCATTER:
      return call.per_rank() ? kPairs : n * call.out.bytes;
    case DW_OP_ALL_TO_ALL:
      return call.per_rank() ? kPairs : n * call.in_pieces[0].bytes;
    default:
      return call.in.bytes;
  }
}

Choice& Choices::of(const EngineOp& call, size_t shown, size_t least,
                    size_t ring) {
  const int doubled = static_cast<int>(std::bit_width(shown / least)) - 1;
  const int row = std::min(doubled, kRows - 1);
  std::optional<Choice>& choice = all_[call.kind - kFirst][row];
  if (!choice.has_value()) {
    // Staging reaches its usual speed when all of it has been used once.
    const auto turn = static_cast<int>(ring / (least << row));
    choice.emplace(std::max(turn, Choice::kLeastSettling));
  }
  return *choice;
}

int32_t Attempt::begin(Comm* comm, const EngineOp& call, size_t shown,
                       dw_error* error) {
  if (!comm->straight || shown == kPairs) return DW_OK;
  const size_t least = tried_from(*comm, call);
  if (shown < least || least == SIZE_MAX) return DW_OK;
  Choice& choice = comm->choices->of(call, shown, least, comm->stage.limit);
  if (choice.is_due())
    if (const int32_t code = agree_on(comm, call, choice, error)) return code;
  is_in_place_ = choice.way() == 1;
  choice_ = &choice;
  host_ = comm->host;
  if (choice.is_trying()) began_ns_ = host_->now_ns(host_->self);
  return DW_OK;
}

void Attempt::end() {
  if (choice_ == nullptr) return;
  if (choice_->is_trying())
    choice_->took(host_->now_ns(host_->self) - began_ns_);
  else
    choice_->passed();
}

}  // namespace shm_backend
