// One rank of a job on several hosts:
//
//   hosts_program sum [INIT_METHOD]      adds the ranks' numbers, once
//   hosts_program differ [INIT_METHOD]   adds them until a call fails; on the
//                                        last host they are whole numbers
//   hosts_program loop [INIT_METHOD]     adds them until a call fails, and says
//                                        which process it is
//   hosts_program quit [INIT_METHOD]     as loop, and ends at the failure
//                                        without closing its session
//   hosts_program outlive [INIT_METHOD]  adds them until a call fails; then the
//                                        ranks from 2 on, which have a group
//                                        of their own, add theirs, and split it
//   hosts_program outlive_agents [INIT_METHOD]
//                                        adds them until a call fails; then the
//                                        ranks but rank 3 do so in a group of
//                                        their own, which they split before
//   hosts_program absent [INIT_METHOD]   all but the last rank split the world
//   hosts_program play INIT_METHOD       runs random programs of that many
//   ranks
//                                        (tests/programs), and prints "played"
//   hosts_program late [INIT_METHOD]     says that it is ready, and adds for
//   the
//                                        first time a second later
//   hosts_program leave CODE             the last rank ends with CODE after all
//                                        have added; others wait to be ended
//
// It prints "rank R of N on HOSTS backend B sum S", where HOSTS are the numbers
// of all ranks' hosts, or "failed REASON TEXT" with exit code 3. BACKEND names
// the backend.
#include "programs/program.h"

#include "distwrap/distwrap.h"
#include "distwrap/groups.h"
#include "distwrap/session.h"
#include "distwrap/status.h"
#include "programs/player.h"

#include <absl/strings/str_cat.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

// The seeds of this many programs for `ranks` ranks, the same on all of them.
constexpr int kPrograms = 6, kSteps = 40;

int play(const distwrap::Session& session) {
  namespace programs = distwrap::programs;
  distwrap::bind_session(session);
  int played = 0;
  for (uint64_t seed = 1; played < kPrograms; ++seed) {
    const programs::Program program =
        programs::make_program(seed, session.world_size(), kSteps);
    if (program.ranks != session.world_size()) continue;
    ++played;
    const std::string wrong = programs::Player(program, session, false).play();
    if (wrong.empty()) continue;
    std::printf("wrong: %s\n%s\n", wrong.c_str(), program.text().c_str());
    return 4;
  }
  const absl::Status closed = session.close();
  if (!closed.ok()) return 4;
  std::printf("played %d programs\n", played);
  return 0;
}

int failed(const absl::Status& status) {
  const auto info = distwrap::error_info(status);
  std::string ranks;
  for (const int rank : info.value_or(distwrap::ErrorInfo{}).ranks)
    absl::StrAppend(&ranks, " ", rank);
  std::printf("failed %s ranks%s: %s\n",
              std::string(distwrap::reason_name(distwrap::error_reason(status)))
                  .c_str(),
              ranks.c_str(), std::string(status.message()).c_str());
  return 3;
}

// The rest of a job goes on whose ranks 0 and 1, with the store, are gone.
int go_on(const distwrap::Session& session, const distwrap::Group& rest) {
  distwrap::Communicator& ranks = **rest.communicator();
  double sum = 0;
  for (int i = 0; i < 500; ++i) {
    sum = rest.rank();
    const absl::Status done =
        ranks
            .all_reduce(distwrap::TensorView(&sum, 1),
                        distwrap::TensorView(&sum, 1), distwrap::ReduceOp::kSum)
            .status();
    if (!done.ok()) return failed(done);
  }
  std::printf("the rest adds to %g\n", sum);
  const auto half =
      distwrap::split_group({.parent = rest, .split_ranks = {{0, 2}, {1, 3}}});
  if (!half.ok()) failed(half.status());
  const absl::Status closed = session.close();
  if (!closed.ok()) failed(closed);
  std::printf("closed\n");
  return 0;
}

// Rank 0 serves the store, and stays until the others have heard the news.
void stay_for_others() { std::this_thread::sleep_for(std::chrono::seconds(1)); }

// The rest of a job goes on whose rank 3 is gone, until another one is.
int go_on_without_agent(const distwrap::Session& session,
                        const distwrap::Group& rest) {
  const auto split =
      distwrap::split_group({.parent = rest, .split_ranks = {{0, 1, 2, 3, 4}}});
  if (!split.ok()) return failed(split.status());
  distwrap::Communicator& ranks = **split->communicator();
  double sum = 0;
  absl::Status done;
  for (int i = 0; done.ok(); ++i) {
    if (i == 1) std::printf("the rest is split\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    done =
        ranks
            .all_reduce(distwrap::TensorView(&sum, 1),
                        distwrap::TensorView(&sum, 1), distwrap::ReduceOp::kSum)
            .status();
  }
  failed(done);
  stay_for_others();
  const absl::Status closed = session.close();
  if (!closed.ok()) return failed(closed);
  std::printf("closed\n");
  return 0;
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
  if (what != "leave" && argc > 2) options.init_method = argv[2];
  const absl::StatusOr<distwrap::Session> session =
      distwrap::Session::create(options);
  if (!session.ok()) return failed(session.status());
  if (what == "play") return play(*session);
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
  if (what == "late") {
    std::printf("ready\n");
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
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
  if (what == "absent") {
    const bool is_last = world.rank() == world.size() - 1;
    std::printf("ready\n");
    while (is_last) pause();
    distwrap::bind_session(*session);
    const auto made = distwrap::split_group_by_color(0, world.rank());
    if (!made.ok()) stay_for_others();
    if (!made.ok()) return failed(made.status());
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
  distwrap::Group rest;
  const bool outlives = what == "outlive",
             without_agent = what == "outlive_agents";
  if (outlives || without_agent) {
    distwrap::bind_session(*session);
    const std::vector<int> left = outlives ? std::vector<int>{2, 3, 4, 5}
                                           : std::vector<int>{0, 1, 2, 4, 5};
    const auto made = distwrap::split_group({.split_ranks = {left}});
    if (!made.ok()) return failed(made.status());
    rest = *made;
  }
  const bool quits = what == "quit";
  const bool loops = what == "loop" || quits || outlives || without_agent;
  if (loops) std::printf("rank %d is process %d\n", world.rank(), getpid());
  while (loops) {
    done = add();
    if (!done.ok()) {
      const int code = failed(done);
      if (quits) _exit(code);
      if (!rest) return code;
      return outlives ? go_on(*session, rest)
                      : go_on_without_agent(*session, rest);
    }
    sum = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  done = session->close();
  return done.ok() ? 0 : failed(done);
}
