// The door before a real MPI: while a session guards, what sends is refused
// with the call to use instead and does nothing, and MPI's own creation,
// questions and end pass. Ends with 0, or with a line that says what is wrong.
#include "distwrap/distwrap.h"
#include "distwrap/guard.h"

#include <cstdio>
#include <cstdlib>
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

// The sum of a number over this one process; `*result` is MPI's.
int sum(MPI_Comm comm, int* result) {
  int mine = 7, made = -1;
  *result = MPI_Allreduce(&mine, &made, 1, MPI_INT, MPI_SUM, comm);
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  expect(!distwrap::guard_status().door.empty(), "the door is not preloaded");
  MPI_Init(&argc, &argv);
  int result = MPI_SUCCESS;
  expect(sum(MPI_COMM_WORLD, &result) == 7 && result == MPI_SUCCESS,
         "MPI's sum before the session");
  const auto session = distwrap::Session::create(
      {.rank = 0, .world_size = 1, .guard = distwrap::GuardMode::kRequire});
  expect(session.ok(), "the session starts");

  expect(sum(MPI_COMM_WORLD, &result) == -1, "a refused sum writes nothing");
  expect(result == MPI_ERR_OTHER, "a refused sum returns MPI_ERR_OTHER");
  expect(MPI_Barrier(MPI_COMM_WORLD) == MPI_ERR_OTHER, "a refused barrier");
  MPI_Request request = MPI_REQUEST_NULL;
  int one = 1;
  expect(MPI_Isend(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request) ==
             MPI_ERR_OTHER,
         "a refused message");

  // Nothing of this sends what a program computes.
  MPI_Comm copy = MPI_COMM_NULL;
  expect(MPI_Comm_dup(MPI_COMM_WORLD, &copy) == MPI_SUCCESS, "a new group");
  int size = 0;
  expect(MPI_Comm_size(copy, &size) == MPI_SUCCESS && size == 1, "a question");
  {
    const distwrap::GuardAllow allow("a test");
    expect(sum(copy, &result) == 7 && result == MPI_SUCCESS,
           "MPI's sum in a scope");
  }
  expect(sum(copy, &result) == -1, "the scope has ended");
  expect(MPI_Comm_free(&copy) == MPI_SUCCESS, "a group's end");

  expect(session->close().ok(), "the session ends");
  expect(sum(MPI_COMM_WORLD, &result) == 7 && result == MPI_SUCCESS,
         "MPI's sum after the session");
  MPI_Finalize();
  return 0;
}
