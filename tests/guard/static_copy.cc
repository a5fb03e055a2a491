// A program that has an engine's function itself, as from a static library.
// Ends with 0 when its own call passes although a session guards.
#include "distwrap/distwrap.h"

extern "C" __attribute__((visibility("default"), noinline)) long ncclSend(
    long a, long b, long c) {
  return a + b + c;
}

int main() {
  const auto session = distwrap::Session::create(
      {.rank = 0, .world_size = 1, .guard = distwrap::GuardMode::kRequire});
  if (!session.ok()) return 1;
  const bool passes = ncclSend(1, 2, 3) == 6;
  return session->close().ok() && passes ? 0 : 1;
}
