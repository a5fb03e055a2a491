// Events of the operating system: signals, exec, exit, becoming a daemon.
#include "distwrap/abi/note.h"
#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/hub_ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <pthread.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap {
namespace {

using Ints = std::vector<int64_t>;

// The output of a body that runs in a child, and the child's end.
struct Ended {
  std::string text;
  int status = -1;
  absl::Duration took;
};

Ended in_a_child(const std::function<void(int output)>& body) {
  int pipes[2];
  EXPECT_EQ(pipe(pipes), 0);
  const int64_t start = Deadline::now_ns();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    close(pipes[0]);
    body(pipes[1]);
    _exit(77);
  }
  close(pipes[1]);
  Ended ended;
  char text[512];
  for (ssize_t n; (n = read(pipes[0], text, sizeof text)) > 0;)
    ended.text.append(text, static_cast<size_t>(n));
  close(pipes[0]);
  EXPECT_EQ(waitpid(child, &ended.status, 0), child);
  ended.took = absl::Nanoseconds(Deadline::now_ns() - start);
  return ended;
}

class Ends : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (DW_SANITIZER != DW_SANITIZER_NONE)
      GTEST_SKIP() << "the child would wait for the sanitizer's locks, which "
                      "threads of the parent held";
  }
  const InitOptions options_{.backend = GetParam(),
                             .timeout = absl::Seconds(60),
                             .init_timeout = absl::Seconds(60)};
};

// A handler without SA_RESTART: every waiting system call is interrupted, again
// and again.
TEST_P(Ends, AStormOfSignalsLosesNothing) {
  struct sigaction storm = {}, before = {};
  storm.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR2, &storm, &before), 0);
  std::atomic<int> sent{0};
  testing::run_hub_ranks(2, options_, [&](Session& session) {
    const pthread_t me = pthread_self();
    std::atomic<bool> over{false};
    std::thread sender([&] {
      while (!over) {
        pthread_kill(me, SIGUSR2);
        ++sent;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    const int rank = session.rank();
    for (int64_t i = 0; i < 100; ++i) {
      // The second rank waits in the kernel, and is interrupted there.
      if (i % 10 == rank)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      Ints x = {i}, in = {0}, out = {100 * i + rank};
      EXPECT_TRUE(all_reduce(TensorView(x)).ok());
      EXPECT_EQ(x[0], 2 * i);
      const auto received = irecv(TensorView(in), Peer::group(1 - rank));
      EXPECT_TRUE(received.ok()) << received.status();
      EXPECT_TRUE(send(TensorView(out), Peer::group(1 - rank)).ok());
      EXPECT_TRUE(received->wait().ok());
      EXPECT_EQ(in[0], 100 * i + 1 - rank);
    }
    const auto group = split_group({.split_ranks = {{0, 1}}});
    EXPECT_TRUE(group.ok()) << group.status();
    const auto objects = all_gather_object(Object(rank), {.group = *group});
    EXPECT_TRUE(objects.ok()) << objects.status();
    EXPECT_TRUE(monitored_barrier().ok());
    EXPECT_TRUE(destroy_process_group(*group).ok());
    over = true;
    sender.join();
  });
  EXPECT_GT(sent, 0);
  EXPECT_EQ(sigaction(SIGUSR2, &before, nullptr), 0);
}

// A program that a rank starts has none of the rank's connections.
TEST_P(Ends, AnotherProgramHasNoDescriptorOfTheJob) {
  const auto listed = [] {
    const Ended ended = in_a_child([](int output) {
      dup2(output, STDOUT_FILENO);
      close(output);
      execl("/bin/sh", "sh", "-c",
            "for f in /proc/$$/fd/*; do readlink $f; done; true", nullptr);
    });
    EXPECT_EQ(ended.status, 0) << ended.text;
    int jobs = 0;
    for (const char* const what : {"socket:", "memfd:", "distwrap"})
      for (size_t at = 0; (at = ended.text.find(what, at)) != std::string::npos;
           ++at)
        ++jobs;
    return jobs;
  };
  const int before = listed();
  testing::run_hub_ranks(2, options_, [&](Session& session) {
    Ints x = {1};
    EXPECT_TRUE(all_reduce(TensorView(x)).ok());
    if (session.rank() == 0) {
      EXPECT_EQ(listed(), before);
    }
    EXPECT_TRUE(barrier().ok());
  });
}

// A daemon is a child's child.
TEST_P(Ends, ADaemonIsRefusedAndTheRankGoesOn) {
  testing::run_hub_ranks(2, options_, [](Session& session) {
    Ints x = {1};
    EXPECT_TRUE(all_reduce(TensorView(x)).ok());
    if (session.rank() == 0) {
      const Ended ended = in_a_child([](int output) {
        setsid();
        if (fork() != 0) _exit(0);
        const std::string said(reason_name(error_reason(barrier().status())));
        _exit(write(output, said.data(), said.size()) < 0);
      });
      EXPECT_EQ(ended.text, "kForkedChild");
    }
    EXPECT_TRUE(all_reduce(TensorView(x)).ok());
    EXPECT_EQ(x[0], 4);
  });
}

// exit() runs the registered handlers, also in a child.
TEST_P(Ends, AChildMayExitSilently) {
  testing::run_hub_ranks(2, options_, [](Session& session) {
    if (session.rank() == 0) {
      const Ended ended = in_a_child([](int output) {
        dup2(output, STDERR_FILENO);
        close(output);
        std::exit(0);
      });
      EXPECT_EQ(ended.status, 0);
      EXPECT_EQ(ended.text, "");
    }
    EXPECT_TRUE(barrier().ok());
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends, Ends, ::testing::ValuesIn(testing::host_backends<std::string>()),
    [](const auto& test) { return test.param; });

// A rank that ends early, with an open session and an operation in flight.
TEST(Exit, InTheMiddleIsSilentAndSoon) {
  if (DW_SANITIZER != DW_SANITIZER_NONE) GTEST_SKIP() << "leaks are meant here";
  const Ended ended = in_a_child([](int output) {
    dup2(output, STDERR_FILENO);
    close(output);
    const auto session = init_process_group({.backend = "gloo",
                                             .rank = 0,
                                             .world_size = 1,
                                             .store = Store::in_memory()});
    if (!session.ok()) _exit(1);
    static Ints x = {0};
    static const auto pending = irecv(TensorView(x), Peer::group(0));
    if (!pending.ok()) _exit(2);
    std::exit(5);
  });
  EXPECT_EQ(ended.text, "");
  ASSERT_TRUE(WIFEXITED(ended.status)) << ended.status;
  EXPECT_EQ(WEXITSTATUS(ended.status), 5);
  // An end may take half a second; the rest is for a slow machine.
  EXPECT_LT(ended.took, absl::Seconds(5));
}

}  // namespace
}  // namespace distwrap
