// The large staging is reserved when it is first needed. All ranks use it, or
// none does, because the size of pieces depends on it: so they tell each other.
#include "run.h"

namespace shm_backend {

int32_t agree_on_staging(Comm* comm, const Call& call, dw_error* error) {
  const size_t bytes = comm->room.arena()->stage_bytes();
  size_t at = 0;
  const unsigned char mine =
      comm->room.take(bytes, &at, nullptr) == DW_OK ? 1 : 0;
  Run run(comm, call, error);
  const uint32_t print = ~call.print;
  run.show(0, &mine, 1, print);
  bool all = mine != 0;
  for (int other = 0; other < run.size; ++other) {
    if (other == run.rank) continue;
    const char* const theirs = run.look(other, 0, 1, 0, 1, print);
    if (theirs == nullptr) return run.code();
    all = all && *theirs != 0;
  }
  if (int32_t code = run.finish(true)) return code;
  comm->staging = all ? Staging::kLarge : Staging::kSmall;
  if (all) {
    comm->stage.use(bytes, comm->ticket - 1);
    comm->stage.at = at;
    comm->stage.data = comm->room.own(at);
  }
  if (!all && comm->rank == 0) {
    static constexpr char kText[] =
        "shm: a rank got no memory for large staging: operations on large "
        "buffers are slower";
    comm->host->log(comm->host->self, DW_LOG_WARNING,
                    {kText, sizeof kText - 1});
  }
  return DW_OK;
}

}  // namespace shm_backend
