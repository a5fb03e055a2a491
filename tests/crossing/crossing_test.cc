// The path of a finished call allocates nothing, takes no lock, reads no clock
// and makes no system call. Calls that wait for other ranks allocate nothing
// and take no lock either, where they are prepared.
#include "crossing/crossing.h"

#include "crossing/board_crossing.h"
#include "distwrap/redistribute.h"
#include "ranks/rank_threads.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <functional>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {

struct Tally {
  int allocations = 0, locks = 0, clocks = 0;
  friend bool operator==(const Tally&, const Tally&) = default;
};

thread_local bool counting = false;
thread_local Tally counts;

}  // namespace

// These functions take precedence over the C library's; they count and then
// call the original.
extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t n, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

__attribute__((visibility("default"))) void* malloc(size_t size) {
  if (counting) ++counts.allocations;
  return __libc_malloc(size);
}
__attribute__((visibility("default"))) void* calloc(size_t n, size_t size) {
  if (counting) ++counts.allocations;
  return __libc_calloc(n, size);
}
__attribute__((visibility("default"))) void* realloc(void* memory,
                                                     size_t size) {
  if (counting) ++counts.allocations;
  return __libc_realloc(memory, size);
}
__attribute__((visibility("default"))) void* aligned_alloc(size_t alignment,
                                                           size_t size) {
  if (counting) ++counts.allocations;
  return __libc_memalign(alignment, size);
}
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                         timespec* time) {
  if (counting) ++counts.clocks;
  return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
}
}

extern "C" __attribute__((visibility("default"))) int pthread_mutex_lock(
    pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const Lock kReal =
      reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counting) ++counts.locks;
  return kReal(mutex);
}

namespace distwrap::testing {
namespace {

TEST(Crossing, CountersCount) {
  counts = {};
  counting = true;
  free(malloc(8));
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  Deadline::now_ns();
  delete new int;
  counting = false;
  EXPECT_GE(counts.allocations, 1);
  EXPECT_EQ(counts.locks, 1);
  EXPECT_EQ(counts.clocks, 1);
}

TEST(Crossing, AllocatesNothingLocksNothingReadsNoClock) {
  Crossing crossing;
  ASSERT_TRUE(crossing.through_facade());  // makes the thread's slot
  counts = {};
  counting = true;
  bool good = true;
  for (int i = 0; i < 1000; ++i)
    good = crossing.through_facade() && crossing.through_c() &&
           crossing.through_c_group() && good;
  counting = false;
  EXPECT_TRUE(good);
  EXPECT_EQ(counts, Tally{})
      << counts.allocations << " allocations, " << counts.locks << " locks, "
      << counts.clocks << " clock readings";
}

// The board adds none of these either; another thread reads the other ranks'
// pages.
TEST(Crossing, OnTheBoardItDoesNoneOfTheseEither) {
  BoardCrossing crossing;
  ASSERT_TRUE(crossing.shown());
  counts = {};
  counting = true;
  bool good = true;
  for (int i = 0; i < 1000; ++i) good = crossing.shown() && good;
  counting = false;
  EXPECT_TRUE(good);
  EXPECT_EQ(counts, Tally{})
      << counts.allocations << " allocations, " << counts.locks << " locks, "
      << counts.clocks << " clock readings";
}

// Makes a call of two ranks over shm until both have what it keeps for the next
// one, and counts what a thousand further ones do on each rank. Waiting for the
// other rank may read a clock.
void expect_no_allocations_and_locks(const std::function<bool()>& call) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(call());
  counts = {};
  counting = true;
  bool good = true;
  for (int i = 0; i < 1000; ++i) good = call() && good;
  counting = false;
  EXPECT_TRUE(good);
  EXPECT_EQ(counts.allocations, 0);
  EXPECT_EQ(counts.locks, 0);
}

// 4 KiB of each rank.
constexpr int64_t kRows = 32, kColumns = 32;

TEST(Crossing, AStartOfAPreparedOperationAllocatesAndLocksNothing) {
  run_ranks(2, {.backend = "shm"}, [](Session& session) {
    const OpOptions o{.group = session.world()};
    const int me = session.rank();
    std::vector<float> in(kRows * kColumns), out(in.size());
    const std::vector<int64_t> to = {me == 0 ? 24 : 1000, me == 0 ? 1000 : 24};
    Batch uneven;
    uneven.all_to_all_single(TensorView(out), TensorView(in), to, to, o);
    const auto exchange = uneven.prepare();
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    expect_no_allocations_and_locks([&] { return exchange->start().ok(); });
    expect_no_allocations_and_locks(
        [&] { return exchange->start(TensorView(out), TensorView(in)).ok(); });
    Batch reduction;
    reduction.all_reduce(TensorView(out), TensorView(in), ReduceOp::kSum, o);
    const auto sum = reduction.prepare();
    ASSERT_TRUE(sum.ok()) << sum.status();
    expect_no_allocations_and_locks([&] { return sum->start().ok(); });
  });
}

TEST(Crossing, ARedistributionAllocatesAndLocksNothing) {
  run_ranks(2, {.backend = "shm"}, [](Session& session) {
    bind_session(session);
    const auto mesh = DeviceMesh::create({.sizes = {2}});
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const std::vector<int64_t> shape = {2 * kRows, kColumns};
    std::vector<float> part(kRows * kColumns), other(part.size()),
        whole(2 * part.size());
    const auto layout = [&](const char* text) {
      return *Layout::parse(mesh->shape(), text);
    };
    const Layout &rows = *layout("S(0)"), &columns = *layout("S(1)"),
                 &all = *layout("R"), &sum = *layout("P");
    expect_no_allocations_and_locks([&] {
      return redistribute(*mesh, TensorView(other), columns, TensorView(part),
                          rows, shape)
          .ok();
    });
    expect_no_allocations_and_locks([&] {
      return redistribute(*mesh, TensorView(whole), all, TensorView(part), rows,
                          shape)
          .ok();
    });
    expect_no_allocations_and_locks([&] {
      return redistribute(*mesh, TensorView(part), rows, TensorView(whole), sum,
                          shape)
          .ok();
    });
  });
}

// Afterwards the kernel kills the process when this thread makes any system
// call except the one that ends it.
bool forbid_system_calls() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog program = {4, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Crossing, MakesNoSystemCall) {
  const auto exit_code_of = [](auto body) {
    const pid_t child = fork();
    if (child == 0) {
      Crossing crossing;
      BoardCrossing board;
      if (!crossing.through_facade() || !board.shown()) _exit(2);
      if (!forbid_system_calls()) _exit(77);
      const bool good = body(crossing, board);
      _exit(good ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  };
  EXPECT_EQ(exit_code_of([](Crossing& crossing, BoardCrossing&) {
              bool good = true;
              for (int i = 0; i < 1000; ++i)
                good = crossing.through_facade() && crossing.through_c() &&
                       crossing.through_c_group() && good;
              return good;
            }),
            0);
  EXPECT_EQ(exit_code_of([](Crossing&, BoardCrossing& board) {
              bool good = true;
              for (int i = 0; i < 1000; ++i) good = board.shown() && good;
              return good;
            }),
            0);
  // The trap itself works.
  EXPECT_EQ(exit_code_of([](Crossing&, BoardCrossing&) {
              return syscall(SYS_getppid) > 0;
            }),
            128 + SIGSYS);
}

}  // namespace
}  // namespace distwrap::testing
