// All ranks or none use the large staging and CMA. They find out together, at
// the first need, since the sizes of pieces depend on it: each tells the others
// what it has.
#include "run.h"

#include <new>

namespace shm_backend {
namespace {

constexpr unsigned char kStage = 1, kReach = 2;

bool reaches_all(Comm* comm) {
  const auto size = static_cast<size_t>(comm->size);
  try {
    comm->reaches.resize(size);
    comm->ways.resize(size);
    comm->choices = std::make_unique<Choices>();
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!comm->direct.prepare(comm->size)) return false;
  for (int other = 0; other < comm->size; ++other) {
    if (other == comm->rank) continue;
    Reach& reach = comm->reaches[static_cast<size_t>(other)];
    reach.attach(comm->room, other);
    if (!reach.writes()) return false;
  }
  return true;
}

}  // namespace

int32_t agree_on_ways(Comm* comm, const EngineOp& call, dw_error* error) {
  const size_t bytes = comm->room.arena()->stage_bytes();
  size_t at = 0;
  unsigned char all =
      comm->room.take(bytes, &at, nullptr) == DW_OK ? kStage : 0;
  if (reaches_all(comm)) all |= kReach;
  Run run(comm, call, error);
  const uint32_t print = ~call.print;
  run.show(0, &all, 1, print);
  for (int other = 0; other < run.size; ++other) {
    if (other == run.rank) continue;
    const char* const theirs = run.look(other, 0, 1, 0, 1, print);
    if (theirs == nullptr) return run.code();
    all &= static_cast<unsigned char>(*theirs);
  }
  if (int32_t code = run.finish(true)) return code;
  comm->staging = (all & kStage) != 0 ? Staging::kLarge : Staging::kSmall;
  comm->straight = all == (kStage | kReach);
  if (comm->staging == Staging::kLarge) {
    comm->stage.use(bytes, comm->ticket - 1);
    comm->stage.at = at;
    comm->stage.data = comm->room.own(at);
    comm->pair_part = pair_part(*comm);
  } else if (comm->rank == 0) {
    static constexpr char kText[] =
        "shm: a rank got no memory for large staging: operations on large "
        "buffers are slower";
    comm->host->log(comm->host->self, DW_LOG_WARNING,
                    {kText, sizeof kText - 1});
  }
  return DW_OK;
}

}  // namespace shm_backend
