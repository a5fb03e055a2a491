// One rank of a job that some launcher started:
//
//   launch_program VALUE [INIT_METHOD]
//
// It adds VALUE over all ranks and prints "rank R of N sum S", so that a
// meeting of two jobs' ranks would be visible; or it prints "init REASON TEXT"
// with exit code 3 when it could not start. With GO_FILE set it waits after its
// start until that file exists, so that two jobs are known to have run at the
// same time. With START_FILE set it prints "waiting" and does not start before
// that file exists.
#include "distwrap/distwrap.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

int failed(const char* step, const absl::Status& status) {
  std::printf("%s %s %s\n", step,
              std::string(distwrap::reason_name(distwrap::error_reason(status)))
                  .c_str(),
              std::string(status.message()).c_str());
  return 3;
}

void wait_for_file(const char* path) {
  for (int i = 0; i < 6000 && access(path, F_OK) != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  // One write for each line, because launchers mix the output of ranks.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  if (const char* const start = std::getenv("START_FILE")) {
    std::printf("waiting\n");
    wait_for_file(start);
  }
  distwrap::InitOptions options{.backend = "gloo"};
  if (argc > 2) options.init_method = argv[2];
  const absl::StatusOr<distwrap::Session> session =
      distwrap::init_process_group(options);
  if (!session.ok()) return failed("init", session.status());
  std::printf("started %d of %d\n", session->rank(), session->world_size());
  if (const char* const go = std::getenv("GO_FILE")) wait_for_file(go);
  double sum = std::atof(argv[1]);
  const absl::Status done =
      distwrap::all_reduce(distwrap::TensorView(&sum, 1)).status();
  if (!done.ok()) return failed("all_reduce", done);
  std::printf("rank %d of %d sum %g\n", session->rank(), session->world_size(),
              sum);
  return distwrap::destroy_process_group().ok() ? 0 : 4;
}
