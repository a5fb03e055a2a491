// The objects behind the table: instance and communicator.
#ifndef DISTWRAP_BACKENDS_GLOO_BACKEND_H_
#define DISTWRAP_BACKENDS_GLOO_BACKEND_H_

#include "desk.h"
#include "device.h"
#include "distwrap/abi/plugin.h"
#include "mesh.h"
#include "operation_thread.h"
#include "sdk/kept_failure.h"
#include "sockets.h"
#include "watch.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>

// One for each session and device, made by `open`.
struct dw_backend {
  const dw_host_api* host = nullptr;
  gloo_backend::Place place;
  // Made by the first communicator that uses the place. [backend]
  std::map<gloo_backend::Place, std::shared_ptr<gloo_backend::Device>> devices;
};

// One for each group, made by the last setup round.
struct dw_comm {
  const dw_host_api* host = nullptr;
  int rank = 0;
  int size = 1;
  // Read when the group was built: whether SIGPIPE would end the process.
  bool guard_pipe_signal = false;

  std::shared_ptr<gloo_backend::Device> device;
  std::shared_ptr<gloo_backend::Mesh> mesh;  // NULL with one rank
  gloo_backend::Sockets sockets;
  std::unique_ptr<gloo_backend::Watch> watch;
  dw_sdk::KeptFailure failure{"gloo"};

  // Breaks all connections: all transfers end, here and at the peers.
  void end_transfers() {
    sockets.shut();
    if (mesh != nullptr) mesh->peers().end();
  }

  // Used by operations whose caller waits, one by one.
  gloo_backend::EngineOp call;
  gloo_backend::Desk desk;
  // Used by asynchronous messages and by those in sets.
  gloo_backend::LanePool messages;
  // For asynchronous operations; made on first use. [comm]
  std::unique_ptr<gloo_backend::OperationThread> operation_thread;
};

namespace gloo_backend {

// backend.cc
int32_t open(const dw_host_api* host, const dw_open_info* info,
             dw_backend** backend, dw_error* error);
void close(dw_backend* backend);
int32_t caps(dw_backend* backend, const dw_caps_row** rows, uint64_t* n_rows,
             dw_error* error);
inline constexpr dw_str kHints[] = {{"interface", 9}, {"address", 7}};

// setup.cc
int32_t setup_begin(dw_backend* backend, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error);
int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error);
void setup_cancel(dw_setup* setup);
int32_t comm_abort(dw_comm* comm, const dw_error* why);
int32_t comm_destroy(dw_comm* comm, int64_t deadline_ns, dw_error* error);

// submit.cc
int32_t query(dw_comm* comm, const dw_op* op, dw_error* error);
int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error);
// Starts an accepted operation, which the operation thread will complete.
// DW_OK, or an error when nothing has started.
int32_t start(dw_comm* comm, EngineOp&& call, dw_work* work, dw_error* error);
// Runs an operation that moves nothing between ranks. DW_DONE, or an error.
int32_t run_at_once(dw_comm* comm, const EngineOp& call, dw_error* error);

// group.cc
int32_t submit_group(dw_backend* backend, const dw_group_item* items,
                     uint64_t n, dw_error* error);

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_BACKEND_H_
