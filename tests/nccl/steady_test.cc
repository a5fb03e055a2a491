// Compares what an enqueued call costs with the same calls of NCCL and CUDA.
#include "distwrap/abi/note.h"
#include "facade_ranks.h"
#include "nccl/library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

namespace {

thread_local int g_allocations = 0;

}  // namespace

// Every way by which this thread gets memory comes past these, in the fakes as
// well.
void* operator new(size_t bytes) {
  ++g_allocations;
  if (void* const block = std::malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t /*bytes*/) noexcept {
  std::free(block);
}

namespace distwrap::nccl_test {
namespace {

// A communicator of one rank as a program would use it without distwrap.
class Raw {
 public:
  Raw() {
    dw_error error = {};
    EXPECT_EQ(nccl_backend::open_driver(fake_driver(), &cuda_, &error), DW_OK);
    EXPECT_EQ(nccl_backend::open_nccl(fake_nccl(23203), &nccl_, &error), DW_OK);
    cuda_.cuCtxPushCurrent_v2(fakes::gpu::context_of(0));
    ncclUniqueId id;
    nccl_.ncclGetUniqueId(&id);
    ncclConfig config = {};
    config.size = sizeof config;
    config.magic = nccl_backend::kConfigMagic;
    config.version = 23100;
    nccl_.ncclCommInitRankConfig(&comm_, 1, id, 0, &config);
    finish();
    for (CUevent_st*& event : events_)
      cuda_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  }
  ~Raw() {
    CUctx_st* popped;
    nccl_.ncclCommAbort(comm_);
    for (CUevent_st* const event : events_) cuda_.cuEventDestroy_v2(event);
    cuda_.cuCtxPopCurrent_v2(&popped);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  // With an event before and one behind, as the backend needs them.
  void all_reduce(const OnDevice& x, CUstream_st& stream) {
    void* const at = x.view().data();
    cuda_.cuEventRecord(events_[0], &stream);
    nccl_.ncclGroupStart();
    nccl_.ncclAllReduce(at, at, 1, ncclInt64, ncclSum, comm_, &stream);
    nccl_.ncclGroupEnd();
    finish();
    cuda_.cuEventRecord(events_[1], &stream);
  }

 private:
  void finish() {
    int state = ncclInProgress;
    while (state == ncclInProgress) nccl_.ncclCommGetAsyncError(comm_, &state);
  }

  nccl_backend::Driver cuda_;
  nccl_backend::Nccl nccl_;
  ncclComm* comm_ = nullptr;
  CUevent_st* events_[2] = {};
};

// The two calls that are compared, as functions whose instructions callgrind
// counts (--toggle-collect=enqueue_by_distwrap).
extern "C" [[gnu::noinline]] void enqueue_by_nccl(Raw* raw, const OnDevice* x,
                                                  CUstream_st* stream) {
  raw->all_reduce(*x, *stream);
}
extern "C" [[gnu::noinline]] void enqueue_by_distwrap(const OnDevice* x,
                                                      CUstream_st* stream) {
  const auto work =
      all_reduce(x->view(), ReduceOp::kSum, {.stream = handle(*stream)});
  EXPECT_TRUE(work.ok());
}

constexpr int kCalls = 60;
// Cells of works are used again only without a sanitizer.
constexpr int kCells = DW_SANITIZER == DW_SANITIZER_NONE ? 0 : kCalls;

template <class Call>
int allocations_of(const Call& call) {
  const int before = g_allocations;
  for (int i = 0; i < kCalls; ++i) call();
  return g_allocations - before;
}

// One rank, and what both sides need.
void run_both(const std::function<void(Raw& raw, const OnDevice& x,
                                       CUstream_st& stream)>& body) {
  run(1, [&](Session&) {
    CUstream_st stream(0);
    const OnDevice x(0, {1});
    Raw raw;
    body(raw, x, stream);
    stream.synchronize();
  });
}

// The fakes allocate for each call, and now and then for a queue.
TEST(NcclSteady, EnqueuedCallsAllocateNothing) {
  run_both([](Raw& raw, const OnDevice& x, CUstream_st& stream) {
    const auto ours = [&] { enqueue_by_distwrap(&x, &stream); };
    const auto theirs = [&] { enqueue_by_nccl(&raw, &x, &stream); };
    allocations_of(theirs);
    stream.synchronize();
    const int without = allocations_of(theirs);
    // More calls at once than are counted, so that enough of what they have
    // needed is free again, whenever the instance's thread frees the last.
    std::vector<Work> works;
    for (int i = 0; i < 3 * kCalls; ++i)
      works.push_back(
          *all_reduce(x.view(), ReduceOp::kSum, {.stream = handle(stream)}));
    for (const Work& work : works) EXPECT_TRUE(work.wait().ok());
    works.clear();
    stream.synchronize();
    EXPECT_LT(allocations_of(ours), without + kCells + kCalls / 2);
  });
}

// Prints the time in the caller's thread, both sides in turns; it decides
// nothing.
TEST(NcclSteady, EnqueuedCallsCost) {
  run_both([](Raw& raw, const OnDevice& x, CUstream_st& stream) {
    std::vector<int64_t> ours, theirs;
    const auto time = [](std::vector<int64_t>* into, const auto& call) {
      const auto begun = std::chrono::steady_clock::now();
      call();
      into->push_back(
          std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun)
              .count());
    };
    for (int i = 0; i < 3000; ++i) {
      time(&theirs, [&] { enqueue_by_nccl(&raw, &x, &stream); });
      time(&ours, [&] { enqueue_by_distwrap(&x, &stream); });
      if (i % 8 == 7) stream.synchronize();
    }
    const auto middle = [](std::vector<int64_t> times) {
      std::sort(times.begin(), times.end());
      return times[times.size() / 2];
    };
    std::printf("an enqueued all_reduce: %lld ns, of which the fakes %lld ns\n",
                static_cast<long long>(middle(ours)),
                static_cast<long long>(middle(theirs)));
  });
}

}  // namespace
}  // namespace distwrap::nccl_test
