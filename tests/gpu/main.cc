// Runs the tests, or says in one line why there is nothing to run on and ends
// with 77, which ctest counts as skipped.
#include "driver.h"
#include "world.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  using namespace distwrap::gpu_test;
  testing::InitGoogleTest(&argc, argv);
  if (const std::string why = why_no_gpu(); !why.empty()) {
    std::printf("no test of GPUs can run: %s\n", why.c_str());
    return 77;
  }
  // A test that finds this thread with a context has found a mistake; the tests
  // themselves make the device current when they use it.
  absl::StatusOr<distwrap::Session> session =
      distwrap::Session::create(session_options());
  if (!session.ok()) {
    const std::string why(session.status().message());
    std::fprintf(stderr, "no session: %s\n", why.c_str());
    // NCCL before 2.30.3 wants a GPU for each rank.
    return why.find("on the same GPU") != std::string::npos ? 77 : 1;
  }
  bind_session(*session);
  if (has_context()) {
    std::fprintf(stderr, "the start of a session leaves a context behind\n");
    return 1;
  }
  if (session->rank() == 0)
    std::printf("%d rank(s), %s\n", session->world_size(),
                device_text(device()).c_str());
  const int failed = RUN_ALL_TESTS();
  const absl::Status closed = session->close();
  if (!closed.ok())
    std::fprintf(stderr, "the end of the session: %s\n",
                 std::string(closed.message()).c_str());
  return failed != 0 || !closed.ok() ? 1 : 0;
}
