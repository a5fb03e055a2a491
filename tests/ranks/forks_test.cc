// The child of a fork, with groups of its parent.
#include "distwrap/abi/note.h"
#include "distwrap/distwrap.h"
#include "distwrap/memory.h"
#include "distwrap/redistribute.h"
#include "host_backends.h"
#include "ranks/hub_ranks.h"
#include "store/server_thread.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <signal.h>
#include <spawn.h>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap {
namespace {

using Ints = std::vector<int64_t>;

int64_t sum(int64_t mine, const Group& group = {}) {
  Ints x = {mine};
  const absl::StatusOr<Work> work =
      all_reduce(TensorView(x), ReduceOp::kSum, {.group = group});
  EXPECT_TRUE(work.ok()) << work.status();
  return x[0];
}

// The mistake that a child finds; a child that hangs is killed.
std::string in_a_child(const std::function<std::string()>& body) {
  int pipes[2];
  EXPECT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const std::string wrong = body();
    const ssize_t written = write(pipes[1], wrong.data(), wrong.size());
    _exit(written < 0);
  }
  close(pipes[1]);
  std::string wrong;
  char text[512];
  for (ssize_t n; (n = read(pipes[0], text, sizeof text)) > 0;)
    wrong.append(text, static_cast<size_t>(n));
  close(pipes[0]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (status != 0) absl::StrAppend(&wrong, "it ended with ", status);
  return wrong;
}

// Makes every kind of call in a child.
std::string all_are_refused(Group group, Work pending) {
  std::string wrong;
  const auto expect = [&](const char* what, const absl::Status& status) {
    if (error_reason(status) != Reason::kForkedChild)
      absl::StrAppend(&wrong, what, ": ", status.ToString(), "; ");
  };
  Ints x = {1};
  const OpOptions in{.group = group};
  OpOptions async = in;
  async.async = true;
  expect("all_reduce", all_reduce(TensorView(x), ReduceOp::kSum, in).status());
  expect("of the world", barrier().status());
  expect("async", all_reduce(TensorView(x), ReduceOp::kSum, async).status());
  expect("any form",
         scan(TensorView(x), TensorView(x), ReduceOp::kSum, in).status());
  expect("send", send(TensorView(x), Peer::group(1), 0, in));
  expect("recv", recv(TensorView(x), Peer::group(1), 0, in).status());
  Batch batch;
  batch.all_reduce(TensorView(x), ReduceOp::kSum, in);
  expect("batch", batch.submit().status());
  expect("object", all_gather_object(Object(1), in).status());
  expect("monitored", monitored_barrier(in).status());
  expect("split", split_group({.split_ranks = {{0, 1}}}).status());
  expect("color", split_group_by_color(0, 0).status());
  expect("new", new_group({}).status());
  expect("abort", distwrap::abort(group));
  expect("destroy a group", destroy_process_group(group));
  expect("wait", pending.wait());
  if (pending.test()) wrong += "a Work has ended; ";
  expect("destroy", destroy_process_group());
  expect("after the end", barrier(in).status());
  group = {};
  pending = {};
  return wrong;
}

class AFork : public ::testing::Test {
 protected:
  void SetUp() override {
    if (DW_SANITIZER != DW_SANITIZER_NONE)
      GTEST_SKIP() << "the child would wait for the sanitizer's locks, which "
                      "threads of the parent held";
  }
};

class Forks : public AFork, public ::testing::WithParamInterface<std::string> {
 protected:
  const InitOptions options_{.backend = GetParam(),
                             .timeout = absl::Seconds(60),
                             .init_timeout = absl::Seconds(60)};
};

TEST_P(Forks, AChildIsRefusedAndLeavesTheParentWhole) {
  testing::run_hub_ranks(2, options_, [](Session& session) {
    const absl::StatusOr<Group> group = split_group({.split_ranks = {{0, 1}}});
    ASSERT_TRUE(group.ok()) << group.status();
    // This thread has the biased lock of the two groups.
    EXPECT_EQ(sum(1), 2);
    EXPECT_EQ(sum(1, *group), 2);
    Ints late = {0};
    const absl::StatusOr<Work> pending =
        irecv(TensorView(late), Peer::group(1 - session.rank()), 7);
    ASSERT_TRUE(pending.ok()) << pending.status();
    if (session.rank() == 0) {
      EXPECT_EQ(in_a_child([&] { return all_are_refused(*group, *pending); }),
                "");
    }
    EXPECT_EQ(sum(2), 4);
    EXPECT_EQ(sum(2, *group), 4);
    Ints now = {5};
    EXPECT_TRUE(send(TensorView(now), Peer::group(1 - session.rank()), 7).ok());
    EXPECT_TRUE(pending->wait().ok());
    EXPECT_EQ(late[0], 5);
  });
}

// The thread of a mesh's asynchronous redistributions is the parent's alone.
TEST_F(AFork, MeshesStayTheParents) {
  testing::run_hub_ranks(2, {.backend = "shm"}, [](Session& session) {
    const MeshShape shape{{2}};
    absl::StatusOr<DeviceMesh> mesh = DeviceMesh::create(shape);
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const Layout& rows = **Layout::parse(shape, "S(0)");
    const Layout& columns = **Layout::parse(shape, "S(1)");
    std::vector<float> in(8, 1), out(8), again(8);
    const auto start = [&] {
      return redistribute_async(*mesh, TensorView(out), columns, TensorView(in),
                                rows, {4, 4});
    };
    absl::StatusOr<Work> first = start();
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(first->wait().ok());
    // Rank 1 comes only after the fork, so one is under way.
    if (session.rank() == 1) {
      EXPECT_EQ(sum(1), 2);
    }
    const absl::StatusOr<Work> pending = start();
    if (session.rank() == 0) {
      EXPECT_EQ(in_a_child([&]() -> std::string {
                  const absl::Status waiting =
                      redistribute(*mesh, TensorView(again), columns,
                                   TensorView(in), rows, {4, 4});
                  const absl::Status started = start().status();
                  mesh = absl::StatusOr<DeviceMesh>();  // waits for no thread
                  if (error_reason(waiting) != Reason::kForkedChild)
                    return waiting.ToString();
                  return error_reason(started) != Reason::kForkedChild
                             ? started.ToString()
                             : "";
                }),
                "");
      EXPECT_EQ(sum(1), 2);
    }
    EXPECT_TRUE(pending->wait().ok());
    EXPECT_EQ(out, in);
  });
}

// Handles that end in a child free nothing.
TEST_F(AFork, MemoryOfABackendStaysTheParents) {
  testing::run_hub_ranks(1, {.backend = "shm"}, [](Session&) {
    const absl::StatusOr<MemAllocator> allocator = get_mem_allocator();
    ASSERT_TRUE(allocator.ok()) << allocator.status();
    absl::StatusOr<Memory> memory = allocator->allocate(4096);
    ASSERT_TRUE(memory.ok()) << memory.status();
    auto* const data = static_cast<char*>(memory->data());
    data[4095] = 7;
    EXPECT_EQ(in_a_child([&]() -> std::string {
                std::string wrong;
                const auto expect = [&](const char* what,
                                        const absl::Status& status) {
                  if (error_reason(status) != Reason::kForkedChild)
                    absl::StrAppend(&wrong, what, ": ", status.ToString());
                };
                expect("allocator", get_mem_allocator().status());
                expect("allocate", allocator->allocate(1).status());
                expect("release", memory->release());
                if (memory->data() != data || data[4095] != 7)
                  wrong += "the memory has gone";
                memory = Memory();
                return wrong;
              }),
              "");
    EXPECT_EQ(data[4095], 7);
    EXPECT_TRUE(memory->release().ok());
  });
}

// Objects of the library that an idle child would keep alive: sockets, which
// would hide the parent's end from peers, and memory of the ranks.
struct Kept {
  int sockets = 0, memory = 0;
  friend bool operator==(const Kept&, const Kept&) = default;

  static Kept of_this_process() {
    Kept kept;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target =
          std::filesystem::read_symlink(entry.path(), gone).string();
      kept.sockets += absl::StartsWith(target, "socket:");
      kept.memory += absl::StartsWith(target, "/memfd:distwrap board");
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      kept.memory += absl::StrContains(line, "/memfd:distwrap board");
    return kept;
  }
  std::string text() const {
    return absl::StrCat(sockets, " sockets, memory in ", memory, " places");
  }
};

class AnIdleChild : public Forks {};

TEST_P(AnIdleChild, KeepsNothingOfTheLibraryAlive) {
  const Kept before = Kept::of_this_process();
  std::string folder = ::testing::TempDir() + "/forksXXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/store";
  {
    const auto server = store::ServerThread::start(path);
    ASSERT_TRUE(server.ok()) << server.status();
    const auto store =
        Store::connect("unix:" + path, Deadline::after(absl::Seconds(60)));
    ASSERT_TRUE(store.ok()) << store.status();
    testing::run_hub_ranks(
        2, options_,
        [&](Session& session) {
          EXPECT_EQ(sum(1), 2);
          if (session.rank() == 0) {
            const Kept here = Kept::of_this_process();
            // Sockets of the server, of its clients, of the boards, and of
            // Gloo.
            EXPECT_GT(here.sockets, before.sockets + 2);
            EXPECT_GT(here.memory, 2);
            EXPECT_EQ(in_a_child([&]() -> std::string {
                        const Kept kept = Kept::of_this_process();
                        return kept == before ? "" : kept.text();
                      }),
                      "");
          }
          EXPECT_EQ(sum(2), 4);
        },
        *store);
  }
  std::filesystem::remove_all(folder);
}

// A program that is started shares this process's memory for a moment, or
// bypasses the handlers of fork: nothing here is closed.
TEST_F(AFork, ProgramsThatAreStartedOtherwiseHarmNothing) {
  testing::run_hub_ranks(2, {.backend = "messages"}, [](Session& session) {
    EXPECT_EQ(sum(1), 2);
    if (session.rank() == 0) {
      const Kept before = Kept::of_this_process();
      const pid_t child = vfork();
      if (child == 0) {
        execl("/bin/true", "true", nullptr);
        _exit(1);
      }
      int status = -1;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
      pid_t spawned = 0;
      char name[] = "true";
      char* const arguments[] = {name, nullptr};
      EXPECT_EQ(posix_spawn(&spawned, "/bin/true", nullptr, nullptr, arguments,
                            environ),
                0);
      EXPECT_EQ(waitpid(spawned, &status, 0), spawned);
      EXPECT_EQ(status, 0);
      // Forks without the handlers; the child stays for a while.
      const auto raw = static_cast<pid_t>(
          syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
      if (raw == 0) _exit(0);
      EXPECT_EQ(waitpid(raw, &status, 0), raw);
      EXPECT_EQ(status, 0);
      EXPECT_EQ(Kept::of_this_process(), before)
          << Kept::of_this_process().text();
    }
    EXPECT_EQ(sum(2), 4);
  });
}

// Another thread of the parent is in a call when it forks.
TEST_P(Forks, BesideACallThatWaits) {
  testing::run_hub_ranks(2, options_, [](Session& session) {
    const int other = 1 - session.rank();
    Ints in = {0}, out = {5};
    std::thread receiver([&] {
      bind_session(session);
      EXPECT_TRUE(recv(TensorView(in), Peer::group(other), 1).ok());
      bind_session({});
    });
    if (session.rank() == 0) {
      for (int i = 0; i < 100; ++i) std::this_thread::yield();
      EXPECT_EQ(in_a_child([&]() -> std::string {
                  const absl::Status sent =
                      send(TensorView(out), Peer::group(other), 1);
                  return error_reason(sent) == Reason::kForkedChild
                             ? ""
                             : sent.ToString();
                }),
                "");
    }
    EXPECT_TRUE(send(TensorView(out), Peer::group(other), 1).ok());
    receiver.join();
    EXPECT_EQ(in, out);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Backends, Forks,
    ::testing::ValuesIn(testing::host_backends<std::string>({"messages"})),
    [](const auto& test) { return test.param; });

// UCX does not expose its sockets.
INSTANTIATE_TEST_SUITE_P(Backends, AnIdleChild,
                         ::testing::Values("gloo", "messages", "shm"),
                         [](const auto& test) { return test.param; });

// Like a data loader: the child works in a job of its own.
TEST_F(AFork, AChildMayStartASessionOfItsOwn) {
  const InitOptions alone{.backend = "loopback",
                          .rank = 0,
                          .world_size = 1,
                          .store = Store::in_memory()};
  ASSERT_TRUE(init_process_group(alone).ok());
  EXPECT_EQ(sum(3), 3);
  EXPECT_EQ(in_a_child([]() -> std::string {
              const InitOptions own{.backend = "loopback",
                                    .rank = 0,
                                    .world_size = 1,
                                    .store = Store::in_memory()};
              const absl::Status begun = init_process_group(own).status();
              if (!begun.ok()) return begun.ToString();
              Ints x = {4};
              const absl::Status summed =
                  all_reduce(TensorView(x), ReduceOp::kSum).status();
              if (!summed.ok()) return summed.ToString();
              const absl::Status ended = destroy_process_group();
              return ended.ok() ? "" : ended.ToString();
            }),
            "");
  EXPECT_EQ(sum(5), 5);
  EXPECT_TRUE(destroy_process_group().ok());
}

}  // namespace
}  // namespace distwrap
