// A module that calls engines: one that is visible to all, and one of its own.
extern "C" {
long ncclSend(long, long, long);
long ncclWaitSignal(long, long, long);

__attribute__((visibility("default"))) long call_send() {
  const long result = ncclSend(1, 2, 3);
  return result + 0;  // no tail call: the return address is in this module
}
__attribute__((visibility("default"))) long call_local() {
  const long result = ncclWaitSignal(1, 2, 3);
  return result + 0;
}
}
