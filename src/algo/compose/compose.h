// The decorator that completes a backend: it makes the operations that the
// backend below lacks from those that it has.
//
// It is a table like any backend's. Its `open` takes one inner table and opens
// the backend itself, because that backend has to call back into the decorator:
//
//   const dw_inner inner = {&table, nullptr};  // backend is NULL
//   info.inner = &inner;
//   info.n_inner = 1;
//   compose_api().open(&host, &info, &backend, &error);
//
// The hints of `open` and of groups are the inner backend's. An operation that
// the inner backend promises for its kind, dtype, reduction and flags is passed
// down unchanged except for its sequence number; any other runs by its recipe
// (recipes.h). Messages of a rank to itself are delivered here. Sets of
// operations are started so that none waits for the start of another. On memory
// of a device there are only the recipes that need no memory of the host. Over
// a backend without messages, only messages to the same rank exist. Windows are
// passed down where the backend has them, and otherwise made of its messages
// (algo/windows). Registered memory and plans are not passed down.
//
// Two ideas come from other libraries: Open MPI's libnbc makes a collective of
// rounds that post all messages before they wait, with local work between the
// rounds; UCC decides once, when a team is made, which part serves which
// collective.
//
// Threads: as dw_backend_api says. Asynchronous composed operations run in one
// thread for each communicator, started at the first of them, in the order of
// submission. An operation whose caller waits runs in the caller's thread
// unless others are in flight.
// Ownership: the inner table must outlive the backend. The inner backend is
// closed with it.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_COMPOSE_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_COMPOSE_H_

#include "distwrap/abi/plugin.h"

namespace distwrap::algo {

// The flags are DW_BACKEND_DECORATOR, HOST_WATCHES, and SUBMIT_BESIDE when the
// inner backend has it.
const dw_backend_api& compose_api();

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_COMPOSE_H_
