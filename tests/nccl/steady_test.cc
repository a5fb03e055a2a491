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
#include <thread>
#include <utility>
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

constexpr int kMessages = 16;

TensorView part_of(const OnDevice& y, int i) {
  return TensorView(static_cast<int64_t*>(y.view().data()) + i, 1, DType::kI64,
                    y.view().device());
}

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

  // Half of the messages are sent, the others receive them.
  void messages(const OnDevice& x, const OnDevice& y, CUstream_st& stream) {
    cuda_.cuEventRecord(events_[0], &stream);
    nccl_.ncclGroupStart();
    for (int i = 0; i < kMessages / 2; ++i) {
      nccl_.ncclSend(x.view().data(), 1, ncclInt64, 0, comm_, &stream);
      nccl_.ncclRecv(part_of(y, i).data(), 1, ncclInt64, 0, comm_, &stream);
    }
    nccl_.ncclGroupEnd();
    finish();
    cuda_.cuEventRecord(events_[1], &stream);
  }

  // Whether the device has ended the last call.
  bool has_ended() const {
    return cuda_.cuEventQuery(events_[1]) == CUDA_SUCCESS;
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
// counts (--toggle-collect='*enqueue_by_distwrap*').
extern "C" [[gnu::noinline]] void enqueue_by_nccl(Raw* raw, const OnDevice* x,
                                                  CUstream_st* stream) {
  raw->all_reduce(*x, *stream);
}
[[gnu::noinline]] absl::StatusOr<Work> enqueue_by_distwrap(
    const OnDevice* x, CUstream_st* stream) {
  return all_reduce(x->view(), ReduceOp::kSum, {.stream = handle(*stream)});
}

extern "C" [[gnu::noinline]] void messages_by_nccl(Raw* raw, const OnDevice* x,
                                                   const OnDevice* y,
                                                   CUstream_st* stream) {
  raw->messages(*x, *y, *stream);
}
[[gnu::noinline]] absl::StatusOr<Work> messages_by_distwrap(
    const OnDevice* x, const OnDevice* y, CUstream_st* stream) {
  Batch batch;
  const OpOptions on{.stream = handle(*stream)};
  for (int i = 0; i < kMessages / 2; ++i) {
    batch.send(x->view(), Peer::group(0), 0, on);
    batch.recv(part_of(*y, i), Peer::group(0), 0, on);
  }
  return batch.submit();
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
                                       CUstream_st& stream)>& body,
              const Settings& settings = {}) {
  run(
      1,
      [&](Session&) {
        CUstream_st stream(0);
        const OnDevice x(0, {1});
        Raw raw;
        body(raw, x, stream);
        stream.synchronize();
      },
      {}, settings);
}

// The fakes allocate for each call, and now and then, on either side, for a
// queue: one more or one less in a round.
TEST(NcclSteady, EnqueuedCallsAllocateNothing) {
  run_both([](Raw& raw, const OnDevice& x, CUstream_st& stream) {
    const auto ours = [&] {
      EXPECT_TRUE(enqueue_by_distwrap(&x, &stream).ok());
    };
    const auto theirs = [&] { enqueue_by_nccl(&raw, &x, &stream); };
    // More calls at once than are counted, so that enough of what they have
    // needed is free again, whenever the instance's thread frees the last.
    std::vector<Work> works;
    for (int i = 0; i < 3 * kCalls; ++i)
      works.push_back(
          *all_reduce(x.view(), ReduceOp::kSum, {.stream = handle(stream)}));
    for (const Work& work : works) EXPECT_TRUE(work.wait().ok());
    works.clear();
    std::vector<int> by_raw, by_ours;
    for (int round = 0; round < 9; ++round) {
      stream.synchronize();
      by_raw.push_back(allocations_of(theirs));
      stream.synchronize();
      by_ours.push_back(allocations_of(ours));
    }
    std::sort(by_raw.begin(), by_raw.end());
    // An allocation of the backend would be in every round.
    EXPECT_LE(*std::min_element(by_ours.begin(), by_ours.end()),
              by_raw[by_raw.size() / 2] + kCells);
  });
}

void print_quantiles(const char* what, std::vector<int64_t> ours,
                     std::vector<int64_t> theirs) {
  std::sort(ours.begin(), ours.end());
  std::sort(theirs.begin(), theirs.end());
  for (const size_t hundredths : {5U, 25U, 50U})
    std::printf(
        "%s, p%zu: %lld ns, the fakes alone %lld ns\n", what, hundredths,
        static_cast<long long>(ours[ours.size() * hundredths / 100]),
        static_cast<long long>(theirs[theirs.size() * hundredths / 100]));
}

// Prints what a call takes of its caller's time on both sides, which take
// turns, while the stream stands still: no thread has to be woken. Every third
// call is launched by another thread of the fakes, so p25 is of the others.
template <class Theirs, class Ours>
void compare(const char* what, CUstream_st& stream, const Theirs& theirs,
             const Ours& ours) {
  std::vector<int64_t> of_theirs, of_ours;
  std::vector<Work> works;
  for (int round = 0; round < 100; ++round) {
    fakes::gpu::Moment gate;
    stream.put([&] { gate.wait(); });
    for (int i = 0; i < 30; ++i) {
      const auto t0 = std::chrono::steady_clock::now();
      theirs();
      const auto t1 = std::chrono::steady_clock::now();
      absl::StatusOr<Work> work = ours();
      const auto t2 = std::chrono::steady_clock::now();
      ASSERT_TRUE(work.ok()) << work.status();
      works.push_back(*std::move(work));
      of_theirs.push_back(std::chrono::nanoseconds(t1 - t0).count());
      of_ours.push_back(std::chrono::nanoseconds(t2 - t1).count());
    }
    gate.happen();
    for (const Work& work : works) EXPECT_TRUE(work.wait().ok());
    works.clear();
    stream.synchronize();
  }
  print_quantiles(what, std::move(of_ours), std::move(of_theirs));
}

const Settings kOff = {{"DISTWRAP_CHECK", "off"}, {"DISTWRAP_RECORDER", "0"}};

// The figures decide nothing.
TEST(NcclSteady, EnqueuedCallsCost) {
  for (const bool off : {true, false})
    run_both(
        [&](Raw& raw, const OnDevice& x, CUstream_st& stream) {
          compare(
              off ? "all_reduce, check and recorder off" : "all_reduce", stream,
              [&] { enqueue_by_nccl(&raw, &x, &stream); },
              [&] { return enqueue_by_distwrap(&x, &stream); });
        },
        off ? kOff : Settings{});
}

TEST(NcclSteady, GroupsOfMessagesCost) {
  for (const bool off : {true, false})
    run_both(
        [&](Raw& raw, const OnDevice& x, CUstream_st& stream) {
          // A batch runs beside the stream, so each side has its own output.
          const OnDevice y(0, Ints(kMessages / 2, 0));
          const OnDevice z(0, Ints(kMessages / 2, 0));
          compare(
              off ? "16 messages, check and recorder off" : "16 messages",
              stream, [&] { messages_by_nccl(&raw, &x, &z, &stream); },
              [&] { return messages_by_distwrap(&x, &y, &stream); });
        },
        off ? kOff : Settings{});
}

// The time from the end of 5 ms of other work, behind which the stream has an
// operation, to the return of `wait`.
template <class Call, class Wait>
int64_t ns_to_return(CUstream_st& stream, const Call& call, const Wait& wait) {
  fakes::gpu::Moment gate;
  stream.put([&] { gate.wait(); });
  call();
  std::chrono::steady_clock::time_point opened;
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    opened = std::chrono::steady_clock::now();
    gate.happen();
  });
  wait();
  const auto back = std::chrono::steady_clock::now();
  opens.join();
  stream.synchronize();
  return std::chrono::nanoseconds(back - opened).count();
}

// The figures decide nothing.
TEST(NcclSteady, EndsOfLongOperationsAreSeen) {
  run_both([](Raw& raw, const OnDevice& x, CUstream_st& stream) {
    std::vector<int64_t> polled, waited;
    for (int i = 0; i < 100; ++i) {
      polled.push_back(ns_to_return(
          stream, [&] { enqueue_by_nccl(&raw, &x, &stream); },
          [&] {
            while (!raw.has_ended()) {
            }
          }));
      absl::StatusOr<Work> work;
      waited.push_back(ns_to_return(
          stream, [&] { work = enqueue_by_distwrap(&x, &stream); },
          [&] { EXPECT_TRUE(work->wait().ok()); }));
    }
    print_quantiles("end after 5 ms to the return of wait", waited, polled);
  });
}

// A group of one rank, which ends again at once.
TEST(NcclSteady, BuildingGroupsCosts) {
  run_both([](Raw& /*raw*/, const OnDevice& /*x*/, CUstream_st& /*stream*/) {
    std::vector<int64_t> ours, theirs;
    for (int i = 0; i < 100; ++i) {
      const auto t0 = std::chrono::steady_clock::now();
      { const Raw again; }
      const auto t1 = std::chrono::steady_clock::now();
      const auto group = new_group(NewGroupOptions{});
      ASSERT_TRUE(group.ok()) << group.status();
      EXPECT_TRUE(destroy_process_group(*group).ok());
      const auto t2 = std::chrono::steady_clock::now();
      theirs.push_back(std::chrono::nanoseconds(t1 - t0).count());
      ours.push_back(std::chrono::nanoseconds(t2 - t1).count());
    }
    print_quantiles("building and ending a group", ours, theirs);
  });
}

}  // namespace
}  // namespace distwrap::nccl_test
