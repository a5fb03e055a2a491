// The objects behind the table: instance and communicator.
#ifndef DISTWRAP_BACKENDS_SHM_BACKEND_H_
#define DISTWRAP_BACKENDS_SHM_BACKEND_H_

#include "call.h"
#include "copy.h"
#include "direct.h"
#include "distances.h"
#include "distwrap/abi/plugin.h"
#include "failure.h"
#include "messages.h"
#include "moving.h"
#include "pace.h"
#include "pairs.h"
#include "reach.h"
#include "room.h"
#include "route.h"
#include "sdk/under_way.h"
#include "sdk/yielding.h"
#include "stage.h"
#include "straight.h"
#include "tuning.h"
#include "worker.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace shm_backend {

// The names of the ABI are shared by all backends of a program, so the objects
// have names of their own.

// One per session and device, made by `open`.
struct Backend {
  Backend(const dw_host_api* given_host, size_t given_stage,
          const Tuning& given_tuning)
      : host(given_host), stage_bytes(given_stage), tuning(given_tuning) {}
  const dw_host_api* const host;
  const size_t stage_bytes;  // of a rank
  const Tuning tuning;       // of groups whose rank 0 this is

  Moving moving;
  // memory.cc: what its groups have made, the first first.
  std::mutex mutex;
  std::vector<std::weak_ptr<Arena>> arenas;
  void know(const std::shared_ptr<Arena>& arena);
  int32_t find_arena(std::shared_ptr<Arena>* found, dw_error* error);
};

// What the host said last.
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
      : host(backend->host), moving(&backend->moving) {}
  const dw_host_api* const host;
  Moving* const moving;
  std::atomic<int> movers = 0;  // that are at its messages
  int rank = 0;
  int size = 1;
  bool crowded = false;  // more ranks than processors
  int looks = 2;         // at a word before the clock is read
  dw_sdk::Yielding yielding;

  Room room;  // not open with one rank
  // By rank, random: in what it says of its own memory, and not in the shared.
  std::vector<uint64_t> keys;
  FirstFailure failure;
  Messages messages;

  // Of the thread that runs collectives: one at a time.
  uint64_t ticket = uint64_t{1} << kRoundBits;
  // All others have read everything up to this one.
  uint64_t consumed = 0;
  uint64_t posted[kPosts] = {};  // what stands in each line
  Stage stage;
  Distances distances;
  Pace pace;
  Staging staging = Staging::kUnknown;
  // By rank, since that is known too: its memory, and what this rank moves to
  // and from there. All ranks reach all others', or none does.
  std::vector<Reach> reaches;
  std::vector<Way> ways;
  std::vector<Pair> pairs;
  size_t pair_part = 0;  // of their pieces, in a round
  bool straight = false;
  Tuning tuning;  // its arena's
  Direct direct;
  std::unique_ptr<Choices> choices;  // where `straight`
  Lease lease;
  KnownKernel kernel;

  // Of operations that are not in a set: one thread may be at each half.
  CallReaders waiting_calls, other_calls;
  Worker worker{this};  // of asynchronous operations

  // Whether so much is written past the caches, for others to read.
  bool goes_past(size_t bytes) const {
    return distances.most_are_far() && bytes >= Distances::kLeast;
  }
  // Into staging.
  void stage_copy(void* to, const void* from, size_t bytes) const {
    copy_for_peers(to, from, bytes, goes_past(bytes));
  }

  // What this call shows has been shown, or is going to be waited for.
  void under_way() const { dw_under_way(host); }
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
int32_t mem_release(dw_mem* memory, dw_error* error);

// submit.cc
int32_t query(dw_comm* comm, const dw_op* op, dw_error* error);
int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error);
int32_t submit_group(dw_backend* backend, const dw_group_item* items,
                     uint64_t n, dw_error* error);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_BACKEND_H_
