// A library that only its loader sees, with functions that no other one has. It
// is an Open MPI for those who ask.
extern "C" {
#define EXPORT __attribute__((visibility("default")))

EXPORT int ompi_mpi_comm_world = 0;
EXPORT long ncclWaitSignal(long, long, long) { return 88; }
EXPORT int MPI_Psend_init(long, long, long) { return 99; }
EXPORT long call_itself() {
  const long result = ncclWaitSignal(1, 2, 3);
  return result + 0;
}
}
