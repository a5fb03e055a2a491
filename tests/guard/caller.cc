// A module that calls engines: one that is visible to all, and two of its own.
extern "C" {
long ncclSend(long, long, long);
long ncclWaitSignal(long, long, long);
long call_itself();
int MPI_Psend_init(long, long, long);

#define EXPORT __attribute__((visibility("default")))

EXPORT long call_send() {
  const long result = ncclSend(1, 2, 3);
  return result + 0;  // no tail call: the return address is in this module
}
EXPORT long call_local() {
  const long result = ncclWaitSignal(1, 2, 3);
  return result + 0;
}
EXPORT long call_local_mpi() {
  const long result = MPI_Psend_init(1, 2, 3);
  return result + 0;
}
// An engine's call of its own function.
EXPORT long call_engine() {
  const long result = call_itself();
  return result + 0;
}
// A call of somebody else's function from this module.
EXPORT long call_through(long (*function)()) {
  const long result = function();
  return result + 0;
}
}
