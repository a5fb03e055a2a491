// Memory that the backend allocates: operations on it, and its end.
#include "backend.h"
#include "host.h"
#include "process_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace distwrap::shm_test {
namespace {

struct Buffer {
  dw_mem* memory = nullptr;
  std::vector<float> own;
  float* data = nullptr;
};

// From the backend's memory, or the process's.
bool make(Rank& rank, dw_backend* backend, bool shared, size_t count,
          Buffer* made) {
  if (!shared) {
    made->own.resize(count);
    made->data = made->own.data();
    return true;
  }
  void* data = nullptr;
  if (rank.api.mem_alloc(backend, count * sizeof(float), &made->memory, &data,
                         nullptr) != DW_OK)
    return false;
  made->data = static_cast<float*>(data);
  return true;
}

dw_buf view(float* data, size_t count) {
  dw_buf buf = {};
  buf.data = data;
  buf.count = static_cast<int64_t>(count);
  buf.dtype = {2, 32, 1};
  return buf;
}

float value(int rank, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 31) % 1009);
}

float sum(const Rank& rank, size_t i) {
  float all = 0;
  for (int r = 0; r < rank.size; ++r) all += value(r, i);
  return all;
}

int32_t all_reduce(Rank& rank, uint64_t seq, const Buffer& in,
                   const Buffer& out, size_t count, dw_error* error,
                   int64_t timeout_ns = 60'000'000'000) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = DW_OP_ALL_REDUCE;
  op.reduce = DW_REDUCE_SUM;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = -1;
  op.in = view(in.data, count);
  op.out = view(out.data, count);
  op.seq = seq;
  op.timeout_ns = timeout_ns;
  return rank.api.submit(rank.comm, &op, nullptr, error);
}

// Other ranks can map some, none or all of the two buffers of a rank, which
// may be one buffer.
int reduce_mixed(Rank& rank) {
  uint64_t seq = 0;
  for (const uint16_t kind :
       {DW_OP_ALL_REDUCE, DW_OP_REDUCE, DW_OP_REDUCE_SCATTER})
    for (const size_t count : {1u, 13u, 1000u, 16384u, 32769u, 70000u, 300001u})
      for (int mix = 0; mix < 8; ++mix) {
        const bool ins = mix == 0 || mix == 7 || mix % 3 == rank.rank;
        const bool outs = mix == 0 || mix == 7 || (mix + rank.rank) % 2 == 0;
        const bool scatters = kind == DW_OP_REDUCE_SCATTER;
        const bool in_place = mix == 7 && !scatters;
        const size_t all =
            scatters ? count * static_cast<size_t>(rank.size) : count;
        Buffer in, out;
        if (!make(rank, rank.backend, ins, all, &in) ||
            !make(rank, rank.backend, outs, count, &out))
          return 1;
        for (size_t i = 0; i < all; ++i) in.data[i] = value(rank.rank, i);
        for (size_t i = 0; i < count; ++i) out.data[i] = -1;
        float* const result = in_place ? in.data : out.data;
        dw_op op = {};
        op.struct_size = sizeof op;
        op.kind = kind;
        op.reduce = DW_REDUCE_SUM;
        op.flags = DW_FLAG_CALLER_WAITS;
        op.peer = kind == DW_OP_REDUCE ? 1 : -1;
        op.in = view(in.data, all);
        op.out = view(result, count);
        op.seq = ++seq;
        op.timeout_ns = 60'000'000'000;
        dw_error error = {};
        if (rank.api.submit(rank.comm, &op, nullptr, &error) != DW_DONE)
          return 2;
        const bool takes = kind != DW_OP_REDUCE || rank.rank == 1;
        const size_t from =
            scatters ? count * static_cast<size_t>(rank.rank) : 0;
        for (size_t i = 0; i < count && takes; ++i)
          if (result[i] != sum(rank, from + i)) return 3;
        for (size_t i = 0; i < all && !(in_place && takes); ++i)
          if (in.data[i] != value(rank.rank, i)) return 4;
        for (Buffer* one : {&in, &out})
          if (one->memory != nullptr &&
              rank.api.mem_release(nullptr, one->memory, &error) != DW_OK)
            return 5;
      }
  rank.words[0].fetch_add(1);
  while (rank.words[0].load() < rank.size) sched_yield();
  return 0;
}

TEST(ShmMemory, OfSomeRanksAndNotOfOthers) {
  for (const int size : {2, 3})
    for (const bool oversubscribed : {true, false}) {
      ProcessRanks ranks(size, [oversubscribed](Rank& rank) {
        shm_backend::of(rank.comm)->oversubscribed = oversubscribed;
        return reduce_mixed(rank);
      });
      for (int rank = 0; rank < size; ++rank)
        EXPECT_EQ(ranks.wait(rank), 0) << rank << " of " << size;
    }
}

// The kernel refuses to touch other processes' memory from now on, as it does
// in many containers.
void forbid_cross_memory_attach() {
  constexpr auto kNumber = static_cast<uint32_t>(offsetof(seccomp_data, nr));
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {std::size(rules), rules};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(99);
}

// Whether a rank may read the memory of others through the kernel.
enum class Kernel {
  kAllowed,         // the kernel's way is tried
  kForbidden,       // nothing is tried
  kOversubscribed,  // ranks that share processors try nothing
};

struct Reduction {
  uint16_t kind;
  size_t count;  // elements of the output
  bool in_place;
};

// The offset in this rank's staging moves with every staged byte, so a
// reduction that leaves it alone has copied nothing. In a reduce a rank that is
// not the root stages the results of its share, which have no other place.
bool has_copied(const Rank& rank, const Reduction& what, size_t before,
                size_t after) {
  if (what.kind != DW_OP_REDUCE || rank.rank == 0) return after != before;
  if (after < before) return false;  // at the front of the staging again
  const size_t share = what.count / static_cast<size_t>(rank.size) + 64;
  return after - before > share * sizeof(float);
}

int reduce_allocated(Rank& rank, Kernel kernel, const Reduction& what) {
  if (kernel == Kernel::kForbidden) forbid_cross_memory_attach();
  shm_backend::Comm& comm = *shm_backend::of(rank.comm);
  comm.oversubscribed = kernel == Kernel::kOversubscribed;
  const bool scatters = what.kind == DW_OP_REDUCE_SCATTER;
  const size_t all =
      scatters ? what.count * static_cast<size_t>(rank.size) : what.count;
  Buffer in, out;
  if (!make(rank, rank.backend, true, all, &in) ||
      !make(rank, rank.backend, true, what.count, &out))
    return 1;
  float* const result = what.in_place ? in.data : out.data;
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = what.kind;
  op.reduce = DW_REDUCE_SUM;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = what.kind == DW_OP_REDUCE ? 0 : -1;
  op.in = view(in.data, all);
  op.out = view(result, what.count);
  op.timeout_ns = 60'000'000'000;
  dw_error error = {};
  size_t staged = 0;
  // Trials begin with the kernel's way.
  const uint64_t calls = kernel == Kernel::kAllowed ? 40 : 4;
  for (op.seq = 1; op.seq <= calls; ++op.seq) {
    for (size_t i = 0; i < all; ++i) in.data[i] = value(rank.rank, i);
    if (rank.api.submit(rank.comm, &op, nullptr, &error) != DW_DONE) {
      fprintf(stderr, "rank %d, call %d: %s\n", rank.rank,
              static_cast<int>(op.seq), error.text);
      return 2;
    }
    if (op.seq > 1 && has_copied(rank, what, staged, comm.stage.next)) return 3;
    staged = comm.stage.next;
    if (what.kind == DW_OP_REDUCE && rank.rank != 0) continue;
    const size_t from =
        scatters ? what.count * static_cast<size_t>(rank.rank) : 0;
    for (size_t i = 0; i < what.count; ++i)
      if (result[i] != sum(rank, from + i)) return 4;
  }
  if (comm.straight != (kernel != Kernel::kForbidden)) return 6;
  for (const Buffer* one : {&in, &out})
    if (rank.api.mem_release(nullptr, one->memory, &error) != DW_OK) return 5;
  // Others may be in the last call still, for which this rank has not died.
  rank.api.comm_destroy(rank.comm, 0, nullptr);
  return 0;
}

// Reductions of allocated memory read every input and publish every result
// where it lies, with the kernel's help and without it. (An all_reduce in place
// that each rank reduces as a whole is the exception: a rank would overwrite
// what others still read.)
TEST(ShmMemory, IsReducedWithoutACopy) {
  for (const int size : {2, 3})
    for (const Kernel kernel :
         {Kernel::kAllowed, Kernel::kForbidden, Kernel::kOversubscribed})
      for (const Reduction& what :
           {Reduction{DW_OP_ALL_REDUCE, 6'000, false},
            Reduction{DW_OP_ALL_REDUCE, 100'000, false},
            Reduction{DW_OP_ALL_REDUCE, 100'000, true},
            Reduction{DW_OP_REDUCE, 6'000, false},
            Reduction{DW_OP_REDUCE, 100'000, false},
            Reduction{DW_OP_REDUCE_SCATTER, 40'000, false}}) {
        ProcessRanks ranks(size, [&](Rank& rank) {
          return reduce_allocated(rank, kernel, what);
        });
        for (int rank = 0; rank < size; ++rank)
          EXPECT_EQ(ranks.wait(rank), 0)
              << rank << " of " << size << ", operation " << what.kind << " of "
              << what.count << ", kernel " << static_cast<int>(kernel);
      }
}

// Somebody else's mistake is an error of the operation, and ends nobody. (A
// reduce_scatter, of which rank 1 does not touch rank 0's half itself: what is
// touched is there again.)
TEST(ShmMemory, ReleasedBeforeItIsNamedIsAnError) {
  ProcessRanks ranks(2, [](Rank& rank) {
    shm_backend::of(rank.comm)->oversubscribed = false;
    const size_t count = 150000;
    Buffer in, out;
    if (!make(rank, rank.backend, rank.rank == 1, 2 * count, &in) ||
        !make(rank, rank.backend, false, count, &out))
      return 1;
    dw_error error = {};
    if (rank.rank == 1 &&
        rank.api.mem_release(nullptr, in.memory, &error) != DW_OK)
      return 2;
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = DW_OP_REDUCE_SCATTER;
    op.reduce = DW_REDUCE_SUM;
    op.flags = DW_FLAG_CALLER_WAITS;
    op.peer = -1;
    op.in = view(in.data, 2 * count);
    op.out = view(out.data, count);
    op.seq = 1;
    op.timeout_ns = 60'000'000'000;
    const int32_t code = rank.api.submit(rank.comm, &op, nullptr, &error);
    rank.api.comm_abort(rank.comm, &error);
    if (code <= DW_OK) return 3;
    const bool told = std::string(error.text).find("released before the end") !=
                      std::string::npos;
    return rank.rank == 1 || (error.peer == 1 && told) ? 0 : 4;
  });
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(1), 0);
}

// Rank 0 gives up and uses its memory again, then rank 1 comes, and reads that:
// `shared` of them have memory that can be mapped.
void come_late(size_t count, const std::vector<bool>& shared) {
  ProcessRanks ranks(2, [count, &shared](Rank& rank) {
    shm_backend::of(rank.comm)->oversubscribed = false;
    Buffer in, out;
    if (!make(rank, rank.backend, shared[rank.rank == 0 ? 0 : 1], count, &in) ||
        !make(rank, rank.backend, false, count, &out))
      return 1;
    std::fill_n(in.data, count, 1.0f);
    dw_error error = {};
    // Once everything is agreed on, the next call is like all others.
    if (all_reduce(rank, 1, in, out, count, &error) != DW_DONE) return 2;
    while (rank.rank == 1 && rank.words[0].load() == 0) sched_yield();
    const int64_t timeout_ns = rank.rank == 0 ? 20'000'000 : 60'000'000'000;
    const int32_t code =
        all_reduce(rank, 2, in, out, count, &error, timeout_ns);
    if (rank.rank == 0) {
      if (in.memory != nullptr)
        std::fill_n(in.data, count, 50.0f);
      else
        std::vector<float>().swap(in.own);
      rank.words[0].store(1);
      // By then the other one has read there.
      usleep(30'000);
      rank.api.comm_abort(rank.comm, &error);
      while (rank.words[1].load() == 0) sched_yield();
      return code == DW_DEADLINE_EXCEEDED ? 0 : 3;
    }
    rank.words[1].store(1);
    // The copy that was published before is enough.
    if (code == DW_DONE)
      return std::all_of(out.data, out.data + count,
                         [](float one) { return one == 2; })
                 ? 0
                 : 4;
    return code == DW_UNAVAILABLE && error.reason == DW_REASON_PEER_LOST &&
                   error.peer == 0
               ? 0
               : 5;
  });
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(ranks.wait(rank), 0) << rank << ": " << count << " elements"
                                   << (shared[0] ? ", shared" : "");
}

TEST(ShmMemory, OfARankThatGaveUpIsNotTakenForItsElements) {
  for (const size_t count : {16384u, 70000u, 300001u, 1000000u})
    for (const bool first : {false, true})
      for (const bool second : {false, true}) come_late(count, {first, second});
}

// A rank whose memory others read is killed: the others report it, and their
// own memory stays usable and can be freed.
TEST(ShmMemory, OfARankThatIsKilled) {
  for (int moment = 0; moment < 6; ++moment) {
    ProcessRanks ranks(2, [](Rank& rank) {
      shm_backend::of(rank.comm)->oversubscribed = false;
      const size_t count = 1000000;
      Buffer in, out;
      if (!make(rank, rank.backend, true, count, &in) ||
          !make(rank, rank.backend, true, count, &out))
        return 1;
      std::fill_n(in.data, count, 1.0f);
      dw_error error = {};
      for (uint64_t seq = 1;; ++seq) {
        const int32_t code = all_reduce(rank, seq, in, out, count, &error);
        rank.words[0].store(1);
        if (code == DW_DONE) continue;
        if (code != DW_UNAVAILABLE || error.reason != DW_REASON_PEER_LOST ||
            error.peer != 1)
          return 2;
        break;
      }
      rank.api.comm_abort(rank.comm, &error);
      for (size_t i = 0; i < count; ++i)
        if (in.data[i] != 1) return 3;
      for (const Buffer* one : {&in, &out})
        if (rank.api.mem_release(nullptr, one->memory, &error) != DW_OK)
          return 4;
      Buffer again;
      return make(rank, rank.backend, true, count, &again) ? 0 : 5;
    });
    while (ranks.words()[0].load() == 0) sched_yield();
    const int64_t until = conformance::now_ns() + int64_t{137'000} * moment;
    while (conformance::now_ns() < until) sched_yield();
    kill(ranks.pid(1), SIGKILL);
    EXPECT_EQ(ranks.wait(1), -1);
    EXPECT_EQ(ranks.wait(0), 0) << moment;
  }
}

}  // namespace
}  // namespace distwrap::shm_test
