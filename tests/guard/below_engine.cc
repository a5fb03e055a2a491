// The library that a plugin is made over, and which itself uses an engine.
extern "C" {
long ncclSend(long, long, long);

__attribute__((visibility("default"))) long below_send() {
  const long result = ncclSend(1, 2, 3);
  return result + 0;
}
}
