// A killed job leaves entries in the store, and a later job uses the same
// store, the same ranks and the same names: the later job starts, and its ranks
// see only each other.
#include "distwrap/abi/note.h"
#include "distwrap/distwrap.h"
#include "distwrap/store.h"
#include "store/server_thread.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <iostream>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace distwrap {
namespace {

constexpr int kRanks = 2;
using Processes = std::array<pid_t, kRanks>;

enum class Job { kEarlier, kPresent };

absl::Status run(Job job, int rank, const std::string& address) {
  const auto store =
      Store::connect(address, Deadline::after(absl::Seconds(60)));
  if (!store.ok()) return store.status();
  const absl::StatusOr<Session> session =
      Session::create({.backend = "shm",
                       .rank = rank,
                       .world_size = kRanks,
                       .store = *store,
                       .timeout = absl::Seconds(60),
                       .init_timeout = absl::Seconds(60)});
  if (!session.ok()) return session.status();
  bind_session(*session);
  std::vector<int64_t> x(8, 1);
  absl::Status status = all_reduce(TensorView(x), ReduceOp::kSum).status();
  if (!status.ok()) return status;
  if (x[0] != kRanks) return absl::DataLossError("a wrong sum");
  if (job == Job::kEarlier) raise(SIGKILL);
  // Different calls are visible on the board only.
  x.resize(rank == 0 ? 8 : 4);
  status = all_reduce(TensorView(x), ReduceOp::kSum).status();
  return status;
}

// The present job's ranks begin with a byte of the gate each.
Processes start(Job job, const std::string& address, int gate) {
  Processes children = {};
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      char c;
      if (job == Job::kPresent && read(gate, &c, 1) != 1) _exit(1);
      const absl::Status status = run(job, rank, address);
      if (error_reason(status) != Reason::kCallMismatch)
        std::cerr << status << std::endl;
      _exit(static_cast<int>(error_reason(status)));
    }
    children[static_cast<size_t>(rank)] = child;
  }
  return children;
}

TEST(EarlierJob, IsNotTakenForThePresentOne) {
  if (DW_SANITIZER != DW_SANITIZER_NONE)
    GTEST_SKIP() << "children that are killed are no matter of a sanitizer's";
  std::string folder = ::testing::TempDir() + "/earlierXXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/store", address = "unix:" + path;
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const Processes earlier = start(Job::kEarlier, address, gate[0]);
  const Processes present = start(Job::kPresent, address, gate[0]);
  const auto server = store::ServerThread::start(path);
  ASSERT_TRUE(server.ok()) << server.status();
  for (const pid_t child : earlier) {
    int ended = 0;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
  }
  ASSERT_EQ(write(gate[1], "go", kRanks), kRanks);
  for (const pid_t child : present) {
    int ended = 0;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    ASSERT_TRUE(WIFEXITED(ended)) << "signal " << WTERMSIG(ended);
    EXPECT_EQ(WEXITSTATUS(ended), static_cast<int>(Reason::kCallMismatch));
  }
  close(gate[0]);
  close(gate[1]);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace distwrap
