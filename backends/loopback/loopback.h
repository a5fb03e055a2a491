// The declarations that the files of this backend share: the instance, the
// communicator and the slots of the table. promises.h has the promises.
//
// A communicator of one rank owns only the flag that it was aborted; every
// operation finishes inside `submit`.
#ifndef DISTWRAP_BACKENDS_LOOPBACK_LOOPBACK_H_
#define DISTWRAP_BACKENDS_LOOPBACK_LOOPBACK_H_

#include "distwrap/abi/plugin.h"

#include <atomic>

// One for each session and device, made by `open`. An engine keeps here what
// its communicators share; this one keeps the host's table.
struct dw_backend {
  const dw_host_api* host;
};

// One for each group, made by the last setup round. `submit` reads it;
// `comm_abort` writes it from any thread.
struct dw_comm {
  const dw_host_api* host;
  std::atomic<bool> aborted = false;
};

namespace loopback {

// backend.cc
int32_t open(const dw_host_api* host, const dw_open_info* info,
             dw_backend** backend, dw_error* error);
void close(dw_backend* backend);
int32_t caps(dw_backend* backend, const dw_caps_row** rows, uint64_t* n_rows,
             dw_error* error);

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

}  // namespace loopback

#endif  // DISTWRAP_BACKENDS_LOOPBACK_LOOPBACK_H_
