// The objects behind the table of functions: instance and communicator.
#ifndef DISTWRAP_BACKENDS_SHM_BACKEND_H_
#define DISTWRAP_BACKENDS_SHM_BACKEND_H_

#include "call.h"
#include "copy.h"
#include "direct.h"
#include "distances.h"
#include "distwrap/abi/plugin.h"
#include "messages.h"
#include "moving.h"
#include "operation_thread.h"
#include "pace.h"
#include "pairs.h"
#include "reach.h"
#include "room.h"
#include "route.h"
#include "row_list.h"
#include "row_results.h"
#include "sdk/kept_failure.h"
#include "sdk/trace.h"
#include "sdk/yielding.h"
#include "stage.h"
#include "straight.h"
#include "tuning.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace shm_backend {

// The names of the ABI are shared by all backends of a program, so the objects
// have names of their own.

// The instance: one per session and device, made by `open`.
struct Backend {
  Backend(const dw_host_api* given_host, size_t given_stage,
          const Tuning& given_tuning)
      : host(given_host), stage_bytes(given_stage), tuning(given_tuning) {}
  const dw_host_api* const host;
  const size_t stage_bytes;  // bytes of a rank's large staging
  const Tuning tuning;       // used by groups whose rank 0 this is

  Moving moving;
  // memory.cc: the group segments of its groups, oldest first.
  std::mutex mutex;
  std::vector<std::weak_ptr<Arena>> arenas;
  void know(const std::shared_ptr<Arena>& arena);
  int32_t find_arena(std::shared_ptr<Arena>* found, dw_error* error);
};

// The host's kernel for the last element type and reduction.
struct KnownKernel {
  dw_dtype dtype = {0, 0, 0};
  uint16_t reduce = 0;
  dw_reduce_fn function = nullptr;
};

// Whether the large staging is there on all ranks.
enum class Staging { kUnknown, kSmall, kLarge };

// One per group, made by the last setup round.
struct Comm {
  explicit Comm(Backend* backend)
      : host(backend->host),
        sums(dw_sdk::moe_sum_api_of(*host)),
        moving(&backend->moving) {}
  const dw_host_api* const host;
  const dw_moe_sum_api* const sums;  // NULL: the host adds no rows
  Moving* const moving;
  std::atomic<int> movers = 0;  // threads that move its messages
  int rank = 0;
  int size = 1;
  bool oversubscribed = false;  // more ranks than processors
  int looks = 2;                // polls of a word before the clock is read
  dw_sdk::Yielding yielding;

  Room room;  // not open in a group of one rank
  // A random key by rank, known from the setup messages and never written to
  // shared memory. It is part of the seal of published addresses.
  std::vector<uint64_t> keys;
  dw_sdk::KeptFailure failure{"shm"};
  Messages messages;

  // From here on: used only by the thread that runs collectives.
  uint64_t ticket = uint64_t{1} << kRoundBits;
  // All other ranks have acknowledged this ticket.
  uint64_t consumed = 0;
  uint64_t posted[kPosts] = {};  // the ticket in each slot of this rank
  Stage stage;
  Distances distances;
  Pace pace;
  Staging staging = Staging::kUnknown;
  // By rank, once the way through other ranks' memory has been tried: access to
  // its memory, and the pieces that this rank exchanges with it. All ranks can
  // reach all others, or none uses this.
  std::vector<Reach> reaches;
  std::vector<PeerTransfers> ways;
  std::vector<Pair> pairs;
  std::vector<RowsFrom> rows_from;  // by rank, for the running operation
  RowListMemory row_lists;
  // Sums of rows that others lend, and their operands.
  std::vector<char> row_sums;
  std::vector<dw_moe_operand> operands;
  size_t pair_part = 0;  // bytes of a pair's piece that go in one round
  bool straight = false;
  Tuning tuning;  // the group segment's
  Direct direct;
  std::unique_ptr<Choices> choices;  // only where `straight`
  Lease lease;
  KnownKernel kernel;

  // For operations outside of a set. One thread may use each of the two at a
  // time: calls that wait, and calls that do not.
  CallReaders waiting_calls, other_calls;
  OperationThread operation_thread{
      this};  // the thread of asynchronous operations

  // Whether `bytes` for other ranks are written with non-temporal stores.
  bool goes_past(size_t bytes) const {
    return distances.most_are_far() && bytes >= Distances::kLeast;
  }
  // Copies into staging.
  void stage_copy(void* to, const void* from, size_t bytes) const {
    copy_for_peers(to, from, bytes, goes_past(bytes));
  }

  // Tells the host that this rank's part of the call is published, or that the
  // call is about to wait.
  void under_way(const EngineOp& call) const { dw_under_way(host, call.trace); }
  // Tells the host that the call waits for other ranks.
  void waits(const EngineOp& call) const { dw_waits(host, call.trace); }
};

inline Backend* of(dw_backend* backend) {
  return reinterpret_cast<Backend*>(backend);
}
inline Comm* of(dw_comm* comm) { return reinterpret_cast<Comm*>(comm); }

// backend.cc
int32_t open(const dw_host_api* host, const dw_open_info* info,
             dw_backend** backend, dw_error* error);
void close(dw_backend* backend);
int32_t caps(dw_backend* backend, const dw_caps_row** rows, uint64_t* n_rows,
             dw_error* error);

inline constexpr dw_str kHints[] = {{"tuning", 6}};

// setup.cc
int32_t setup_begin(dw_backend* backend, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error);
int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error);
void setup_cancel(dw_setup* setup);
int32_t window_create(dw_comm* comm, const dw_setup_info* info,
                      dw_setup** setup, dw_blob* out, dw_error* error);
int32_t comm_abort(dw_comm* comm, const dw_error* why);
int32_t comm_destroy(dw_comm* comm, int64_t deadline_ns, dw_error* error);

// memory.cc
int32_t mem_alloc(dw_backend* backend, uint64_t bytes, dw_mem** memory,
                  void** address, dw_error* error);
int32_t mem_release(dw_backend* backend, dw_mem* memory, dw_error* error);

// submit.cc
int32_t query(dw_comm* comm, const dw_op* op, dw_error* error);
int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error);
// Submits a call that was read.
int32_t submit_read(Comm* comm, EngineOp& call, const ShortCall& as_short,
                    uint64_t seq, dw_work* work, dw_error* error);
int32_t run_queued(dw_comm* comm, uint64_t seq);
int32_t submit_group(dw_backend* backend, const dw_group_item* items,
                     uint64_t n, dw_error* error);

// plan.cc
int32_t plan_create(dw_comm* comm, const dw_op* ops, uint64_t n, dw_plan** plan,
                    dw_error* error);
int32_t plan_run(dw_plan* plan, const dw_start* start, dw_work* work,
                 dw_error* error);
int32_t plan_destroy(dw_plan* plan, dw_error* error);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_BACKEND_H_
