// The objects behind the table: instance and communicator.
#ifndef DISTWRAP_BACKENDS_NCCL_BACKEND_H_
#define DISTWRAP_BACKENDS_NCCL_BACKEND_H_

#include "call_lock.h"
#include "device.h"
#include "distwrap/abi/plugin.h"
#include "ending.h"
#include "hints.h"
#include "library.h"
#include "registered.h"
#include "replays.h"
#include "sdk/buffers.h"
#include "sdk/kept_failure.h"
#include "watch.h"

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace nccl_backend {

// One for each session and device, made by `open`.
struct Backend {
  const dw_host_api* host = nullptr;
  Nccl nccl;
  std::shared_ptr<Device> device;
  Hints hints;
  std::vector<dw_caps_row> rows;
  std::string version;
  bool has_windows = false;
  Blocks blocks;
  Endings endings;
  std::unique_ptr<Watch> watch;
};

// NCCL's part of a communicator. Threads that end it, and a setup that makes
// another one of it, may outlive the communicator.
struct NcclPart {
  // Whether it was, or is being, ended. Precondition: `inside` is held.
  bool is_gone() const { return handle == nullptr && !revoking; }
  // Whether its end is over: NCCL touches no memory any more. Precondition:
  // `inside` is held.
  bool has_ended() {
    const std::shared_ptr<Ending> last = ending();
    return is_gone() && !is_kept && last != nullptr &&
           last->wait(std::chrono::seconds(0));
  }
  // The end that has begun: the abort, and behind it that of the host. Null
  // while there is none.
  std::shared_ptr<Ending> ending() {
    const std::lock_guard<std::mutex> lock(ending_mutex_);
    return ending_;
  }
  // Returns the one before.
  std::shared_ptr<Ending> set_ending(std::shared_ptr<Ending> next) {
    const std::lock_guard<std::mutex> lock(ending_mutex_);
    ending_.swap(next);
    return next;
  }

  // Held while a thread is inside NCCL with it. An abort waits for it, since
  // NCCL frees the communicator.
  CallLock inside;
  dw_sdk::KeptFailure failure{"nccl"};
  ncclComm* handle = nullptr;  // null once it was handed over to its end
  // Operations end without their results from here on, since NCCL aborts them.
  // One that the device had ended before has its result, whatever failed since.
  std::atomic<bool> cut{false};
  // By ncclCommRevoke: NCCL has let go of all buffers, and keeps what the
  // handle names. A thread that revokes has the handle meanwhile.
  bool revoking = false, revoked = false;
  // NCCL has refused to abort it, and may use its memory for ever.
  std::atomic<bool> is_kept{false};
  // Why NCCL has not ended it as it was told to.
  dw_sdk::KeptFailure end_failure{"nccl"};
  // NCCL's handles of the memory that is registered with it, by address.
  std::map<const void*, void*> registered;
  // Where a thread of NCCL puts the communicator that it makes of this one;
  // null while no setup wants that.
  std::unique_ptr<ncclComm*> child;
  // NCCL splits it: until that has ended nobody else may use it.
  bool splitting = false;
  bool captured = false;               // graphs may have operations of it
  std::atomic<bool> finalizes{false};  // NCCL has been told to end it in peace
  Replays replays;
  std::atomic<int> operations{0};  // in flight

 private:
  std::mutex ending_mutex_;
  std::shared_ptr<Ending> ending_;
};

// One for each group, made by the last setup round.
struct Comm {
  Comm(Backend* by, int my_rank, int ranks)
      : backend(by), rank(my_rank), size(ranks) {}

  Backend* const backend;
  const int rank, size;
  uint64_t uid = 0;  // equal on all ranks
  Hints hints;
  // Operations in host order, and those aside, run here.
  CUstream_st* stream = nullptr;
  CUdeviceptr scratch = 0;  // kScratchBytes, used by barriers
  int64_t last_end_ns = 0;  // when the Watch saw an operation end

  const std::shared_ptr<NcclPart> part = std::make_shared<NcclPart>();
  dw_sdk::KeptFailure& failure = part->failure;

  // The host has ended it, so it knows of any failure before.
  std::atomic<bool> host_aborted{false};

  // Used by one operation at a time.
  dw_sdk::Buffers buffers;

  // The communicators of its windows, which end with it.
  std::mutex windows_mutex;
  std::vector<Comm*> windows;
};
inline constexpr size_t kScratchBytes = 8;

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
int32_t progress(dw_backend* backend);

// setup.cc
int32_t setup_begin(dw_backend* backend, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error);
int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error);
void setup_cancel(dw_setup* setup);

// end.cc
int32_t comm_abort(dw_comm* comm, const dw_error* why);
int32_t comm_destroy(dw_comm* comm, int64_t deadline_ns, dw_error* error);
// Begins the abort of a broken communicator. False while a thread is inside it:
// the instance's thread then asks again. Precondition: it has failed.
bool abort_if_broken(Comm* comm);
// Waits until NCCL has aborted a broken communicator and touches none of its
// buffers any more. False: it has not by `limit`. Precondition: this thread is
// not inside it.
bool wait_for_abort(Comm* comm, std::chrono::steady_clock::time_point limit);

// submit.cc
int32_t query(dw_comm* comm, const dw_op* op, dw_error* error);
int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error);
int32_t submit_group(dw_backend* backend, const dw_group_item* items,
                     uint64_t n, dw_error* error);
int32_t stream_captured(dw_comm* comm, const dw_stream* stream,
                        int32_t* captured, dw_error* error);
int32_t work_wait_stream(dw_comm* comm, dw_work* work, const dw_stream* stream,
                         dw_error* error);

// window.cc; setup.cc has window_create.
int32_t window_create(dw_comm* comm, const dw_setup_info* info,
                      dw_setup** setup, dw_blob* out, dw_error* error);
int32_t window_map(dw_window* window, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error);
int32_t window_destroy(dw_window* window, int64_t deadline_ns, dw_error* error);

// memory.cc
int32_t mem_alloc(dw_backend* backend, uint64_t bytes, dw_mem** mem,
                  void** address, dw_error* error);
int32_t mem_release(dw_backend* backend, dw_mem* mem, dw_error* error);

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_BACKEND_H_
