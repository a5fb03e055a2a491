// The decorator that completes a backend: what the backend below lacks is made
// of what it has.
//
// A table like any backend's. Its `open` takes one inner table and opens it
// itself, because what lies below has to call back into the decorator:
//
//   const dw_inner inner = {&table, nullptr};  // backend is NULL
//   info.inner = &inner;
//   info.n_inner = 1;
//   compose_api().open(&host, &info, &backend, &error);
//
// The hints of `open` and of groups are the inner backend's. An operation that
// the inner backend promises for its kind, dtype, reduction and flags is handed
// down as it is, but for its sequence number; any other goes by its recipe
// (recipes.h). Messages of a rank to itself are delivered here, and groups of
// operations are started so that they cannot wait for one another. Over a
// backend without messages there are those to oneself only. Windows are handed
// on where the backend has them, and made of its messages where it has not
// (algo/windows). Registered memory and plans are not handed on.
//
// Taken from those who did this before: Open MPI's libnbc, which makes a
// collective of rounds that post all their messages before they wait, and of
// local work between the rounds; UCC, which decides once, when a team is made,
// who serves which collective.
//
// Threads: as dw_backend_api says. Asynchronous operations that have to be
// composed run in one thread for each communicator, made at the first of them,
// in the order of submission; those whose caller waits run in the caller's
// thread unless others are under way.
// Ownership: the inner table must outlive the backend. The inner backend is
// closed with it.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_COMPOSE_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_COMPOSE_H_

#include "distwrap/abi/plugin.h"

namespace distwrap::algo {

// DW_BACKEND_DECORATOR, HOST_WATCHES, and SUBMIT_BESIDE when the inner one has
// that.
const dw_backend_api& compose_api();

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_COMPOSE_H_
