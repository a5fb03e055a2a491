// The objects behind the table: instance and communicator.
#ifndef DISTWRAP_BACKENDS_UCX_BACKEND_H_
#define DISTWRAP_BACKENDS_UCX_BACKEND_H_

#include "context.h"
#include "distwrap/abi/plugin.h"
#include "library.h"
#include "progress_thread.h"
#include "sdk/kept_failure.h"
#include "sdk/yielding.h"
#include "worker.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ucx_backend {

// All backends of a program share the names of the ABI, so these objects have
// other names.

struct Comm;
struct Window;

// One for each session and device, made by `open`.
struct Backend {
  const dw_host_api* host = nullptr;
  Library library;
  std::string transports, host_name;  // hints
  // For TCP between hosts; "": UCX chooses.
  std::string interface;
  // By span of hosts and transports, as long as a communicator uses it.
  // [backend]
  struct Kept {
    HostSpan span;
    Context::Use use;
    std::string transports;
    std::weak_ptr<Context> context;
  };
  std::vector<Kept> contexts;
  // The communicators with a worker.
  std::mutex mutex;
  std::vector<Comm*> comms;
};

// One for each group, made by the last setup round.
struct Comm {
  Comm(Backend* by, int my_rank, int ranks)
      : backend(by),
        host(by->host),
        rank(my_rank),
        size(ranks),
        worker(by->host, my_rank, &failure) {}

  Backend* const backend;
  const dw_host_api* const host;
  const int rank, size;
  std::string transports;    // hint
  std::vector<uint8_t> far;  // by rank: whether it is on another host
  bool one_host = true;
  // Addresses of all ranks' hosts, when there are several.
  std::vector<dw_sdk::HostAddress> hosts;
  bool oversubscribed = false;  // more ranks than processors
  mutable dw_sdk::Yielding yielding;
  int looks = 0;  // polls of a transfer between two readings of the clock
  dw_sdk::KeptFailure failure{"ucx"};
  Worker worker;  // not open with one rank
  ProgressThread thread{&worker};

  std::mutex windows_mutex;
  std::vector<Window*> windows;
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
inline constexpr dw_str kHints[] = {
    {"library", 7}, {"transports", 10}, {"host", 4}, {"address", 7}};

// setup.cc
// The context is kept as long as it is used.
int32_t context_for(const Comm& comm, Context::Use use,
                    std::shared_ptr<Context>* context, dw_error* error);
int32_t setup_begin(dw_backend* backend, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error);
int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error);
void setup_cancel(dw_setup* setup);
int32_t window_create(dw_comm* comm, const dw_setup_info* info,
                      dw_setup** setup, dw_blob* out, dw_error* error);
int32_t comm_abort(dw_comm* comm, const dw_error* why);
int32_t comm_destroy(dw_comm* comm, int64_t deadline_ns, dw_error* error);

// submit.cc
int32_t query(dw_comm* comm, const dw_op* op, dw_error* error);
int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error);
int32_t submit_group(dw_backend* backend, const dw_group_item* items,
                     uint64_t n, dw_error* error);
int32_t progress(dw_backend* backend);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_BACKEND_H_
