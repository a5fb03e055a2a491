// One rank of a job on several hosts:
//
//   hosts_program sum [INIT_METHOD]      adds the ranks' numbers, once
//   hosts_program differ [INIT_METHOD]   adds them until a call fails; on the
//                                        last host they are whole numbers
//   hosts_program loop                   adds them until a call fails, and says
//                                        which process it is
//   hosts_program leave CODE             the last rank ends with CODE after all
//                                        have added; others wait to be ended
//
// It prints "rank R of N on HOSTS backend B sum S", where HOSTS are the numbers
// of all ranks' hosts, or "failed REASON TEXT" with exit code 3. BACKEND names
// the backend.
#include "distwrap/session.h"
#include "distwrap/status.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

int failed(const absl::Status& status) {
  const auto info = distwrap::error_info(status);
  std::string ranks;
  for (const int rank : info.value_or(distwrap::ErrorInfo{}).ranks)
    ranks += " " + std::to_string(rank);
  std::printf("failed %s ranks%s: %s\n",
              std::string(distwrap::reason_name(distwrap::error_reason(status)))
                  .c_str(),
              ranks.c_str(), std::string(status.message()).c_str());
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string what = argv[1];
  // One write for each line, because launchers mix the output of ranks.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  distwrap::InitOptions options;
  if (const char* const backend = std::getenv("BACKEND"))
    options.backend = backend;
  if ((what == "sum" || what == "differ") && argc > 2)
    options.init_method = argv[2];
  const absl::StatusOr<distwrap::Session> session =
      distwrap::Session::create(options);
  if (!session.ok()) return failed(session.status());
  const distwrap::Group world = session->world();
  std::string hosts;
  for (const int32_t host : world.host_of()) hosts += std::to_string(host);
  distwrap::Communicator& ranks = **world.communicator();
  double sum = world.rank();
  const auto add = [&] {
    return ranks
        .all_reduce(distwrap::TensorView(&sum, 1),
                    distwrap::TensorView(&sum, 1), distwrap::ReduceOp::kSum)
        .status();
  };
  absl::Status done = add();
  if (!done.ok()) return failed(done);
  std::printf("rank %d of %d on %s backend %s sum %g\n", world.rank(),
              world.size(), hosts.c_str(), std::string(ranks.backend()).c_str(),
              sum);
  if (what == "leave") {
    // A rank that left earlier would fail the call that others are still in.
    const int last = world.size() - 1;
    for (int from = 0; from < last; ++from) {
      if (world.rank() != last && world.rank() != from) continue;
      const distwrap::TensorView token(&sum, 1);
      done = world.rank() == last ? ranks.recv(token, from).status()
                                  : ranks.send(token, last).status();
      if (!done.ok()) return failed(done);
    }
    if (world.rank() == last) _exit(std::atoi(argv[2]));
    while (true) pause();
  }
  int64_t whole = 1;
  const bool differs = what == "differ" &&
                       world.host_of().back() ==
                           world.host_of()[static_cast<size_t>(world.rank())];
  while (what == "differ") {
    const distwrap::TensorView number = differs
                                            ? distwrap::TensorView(&whole, 1)
                                            : distwrap::TensorView(&sum, 1);
    done = ranks.all_reduce(number, number, distwrap::ReduceOp::kSum).status();
    if (!done.ok()) return failed(done);
  }
  if (what == "loop")
    std::printf("rank %d is process %d\n", world.rank(), getpid());
  while (what == "loop") {
    done = add();
    if (!done.ok()) return failed(done);
    sum = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  done = session->close();
  return done.ok() ? 0 : failed(done);
}
