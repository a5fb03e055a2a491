// The door before a real MPI: while a session guards, what sends is refused
// with the call to use instead and does nothing, and MPI's own creation,
// questions and end pass. Ends with 0, or with a line that says what is wrong.
#include "distwrap/distwrap.h"
#include "distwrap/guard.h"
#include "mpi_functions.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <utility>
// Without MPI's old C++ interface, which would want a library of its own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::_Exit(1);
}

// The mean of a number over all processes, 7; -1 for a call that did nothing.
// `*result` is MPI's.
int mean(MPI_Comm comm, int* result) {
  int mine = 7, made = -1, size = 0;
  *result = MPI_Allreduce(&mine, &made, 1, MPI_INT, MPI_SUM, comm);
  MPI_Comm_size(comm, &size);
  return made < 0 ? made : made / size;
}

// A handle, as all arguments of a function at once: an error of its own that
// every real function finds, and that none of the door's is.
Word wrong_handle(const std::string& name) {
  const auto has = [&](const char* part) {
    return name.find(part) != std::string::npos;
  };
  for (const char* of_request : {"MPI_Start", "mrecv", "Mrecv", "Pready"})
    if (has(of_request)) return has("MPI_Startall") ? -1 : 0;
  for (const char* of_window :
       {"MPI_Put", "MPI_Get_c", "MPI_Rput", "MPI_Rget", "ccumulate", "_and_"})
    if (has(of_window) || name == "MPI_Get") return (Word)MPI_WIN_NULL;
  return (Word)MPI_COMM_NULL;
}

bool has_open_mpi() {
  return dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != nullptr;
}

// Functions of Open MPI 4.1 that go on, or end the
// program, after they have found a wrong handle.
bool is_careless(const std::string& name) {
  for (const char* one :
       {"MPI_Allgather", "MPI_Neighbor_allgather", "MPI_Ineighbor_allgather",
        "MPI_Mrecv", "MPI_Imrecv", "MPI_Sendrecv", "MPI_Get_accumulate",
        "MPI_Rget_accumulate", "MPI_Iallgather"})
    if (name == one) return true;
  return false;
}

// Whether this MPI has the function.
bool exists(const std::string& name) {
  return dlsym(RTLD_DEFAULT, ("P" + name).c_str()) != nullptr;
}

// Calls some of these properly.
void call_careless(MPI_Comm comm) {
  const int mine[] = {3};
  int got[] = {0};
  const auto expect_three = [&](int code, const char* what) {
    expect(code == MPI_SUCCESS && std::exchange(got[0], 0) == 3, what);
  };
  expect_three(MPI_Allgather(mine, 1, MPI_INT, got, 1, MPI_INT, comm),
               "MPI_Allgather");
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(mine, 1, MPI_INT, got, 1, MPI_INT, comm, &request);
  expect_three(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Iallgather");
  expect_three(MPI_Sendrecv(mine, 1, MPI_INT, 0, 1, got, 1, MPI_INT, 0, 1, comm,
                            MPI_STATUS_IGNORE),
               "MPI_Sendrecv");
  MPI_Isend(mine, 1, MPI_INT, 0, 2, comm, &request);
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Mprobe(0, 2, comm, &message, MPI_STATUS_IGNORE);
  expect_three(MPI_Mrecv(got, 1, MPI_INT, &message, MPI_STATUS_IGNORE),
               "MPI_Mrecv");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Calls each function; `refused`: whether the door has to refuse it.
void call_all(bool refused) {
  int called = 0;
  for (const MpiFunction& one : mpi_functions()) {
    const bool by_door = refused || !exists(one.name);
    if (!by_door && has_open_mpi() && is_careless(one.name)) continue;
    const int code = one(wrong_handle(one.name));
    int kind = code;
    if (code != MPI_ERR_OTHER) MPI_Error_class(code, &kind);
    if (by_door != (code == MPI_ERR_OTHER))
      std::fprintf(stderr, "%s gave %d of class %d\n", one.name, code, kind);
    expect(by_door == (code == MPI_ERR_OTHER), one.name);
    expect(kind != MPI_SUCCESS, one.name);
    ++called;
  }
  expect(called > 90, "all functions were called");
}

}  // namespace

int main(int argc, char** argv) {
  expect(!distwrap::guard_status().door.empty(), "the door is not preloaded");
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  call_all(false);
  int result = MPI_SUCCESS;
  expect(mean(MPI_COMM_WORLD, &result) == 7 && result == MPI_SUCCESS,
         "MPI's sum before the session");
  const auto session = distwrap::Session::create(
      {.rank = 0, .world_size = 1, .guard = distwrap::GuardMode::kRequire});
  expect(session.ok(), "the session starts");

  expect(mean(MPI_COMM_WORLD, &result) == -1, "a refused sum writes nothing");
  expect(result == MPI_ERR_OTHER, "a refused sum returns MPI_ERR_OTHER");
  expect(MPI_Barrier(MPI_COMM_WORLD) == MPI_ERR_OTHER, "a refused barrier");
  MPI_Request request = MPI_REQUEST_NULL;
  int one = 1;
  expect(MPI_Isend(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request) ==
             MPI_ERR_OTHER,
         "a refused message");

  call_all(true);

  // Nothing of this sends what a program computes.
  MPI_Comm copy = MPI_COMM_NULL;
  expect(MPI_Comm_dup(MPI_COMM_WORLD, &copy) == MPI_SUCCESS, "a new group");
  int size = 0;
  expect(MPI_Comm_size(copy, &size) == MPI_SUCCESS && size > 0, "a question");
  {
    const distwrap::GuardAllow allow("a test");
    expect(mean(copy, &result) == 7 && result == MPI_SUCCESS,
           "MPI's sum in a scope");
    call_careless(MPI_COMM_SELF);
    call_all(false);
  }
  expect(mean(copy, &result) == -1, "the scope has ended");
  expect(MPI_Comm_free(&copy) == MPI_SUCCESS, "a group's end");

  expect(session->close().ok(), "the session ends");
  expect(mean(MPI_COMM_WORLD, &result) == 7 && result == MPI_SUCCESS,
         "MPI's sum after the session");
  call_all(false);
  MPI_Finalize();
  return 0;
}
