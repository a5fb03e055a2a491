// The fakes catch mistakes in the use of CUDA and NCCL: each test plants one,
// by calls of the libraries, and names the rule that it breaks.
#include "fake_nccl.h"
#include "fakes/gpu/driver.h"
#include "nccl/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::nccl_test {
namespace {

using fakes::gpu::Collected;
using fakes::gpu::Graph;
using fakes::gpu::Moment;
using nccl_backend::Driver;
using nccl_backend::Nccl;
using ::testing::Contains;

constexpr int kVersion = 23203;
constexpr int kBytes = 64;

ncclConfig good_config() {
  ncclConfig config = {};
  config.size = sizeof config;
  config.magic = nccl_backend::kConfigMagic;
  config.version = 23100;
  config.launchOrderImplicit = nccl_backend::kUnset;
  config.cgaClusterSize = config.minCTAs = config.maxCTAs =
      nccl_backend::kUnset;
  return config;
}

// One rank on device 0, as a program of NCCL alone would have it.
class NcclRules : public testing::Test {
 protected:
  NcclRules() {
    fakes::gpu::allow_host_memory(false);
    dw_error error = {};
    EXPECT_EQ(nccl_backend::open_driver(fake_driver(), &cuda, &error), DW_OK)
        << error.text;
    EXPECT_EQ(nccl_backend::open_nccl(fake_nccl(kVersion), &nccl, &error),
              DW_OK)
        << error.text;
    cuda.cuCtxPushCurrent_v2(fakes::gpu::context_of(0));
    x = fakes::gpu::allocate(0, kBytes);
  }
  ~NcclRules() override {
    CUctx_st* popped;
    stream.synchronize();
    fakes::gpu::release(x);
    cuda.cuCtxPopCurrent_v2(&popped);
  }

  ncclComm* begin(int ranks, int rank, const ncclUniqueId& id,
                  ncclConfig config = good_config()) const {
    ncclComm* made = nullptr;
    nccl.ncclCommInitRankConfig(&made, ranks, id, rank, &config);
    return made;
  }
  void wait(ncclComm* comm) const {
    int state = ncclInProgress;
    while (state == ncclInProgress) {
      nccl.ncclCommGetAsyncError(comm, &state);
      std::this_thread::yield();
    }
  }
  ncclComm* make() const {
    ncclUniqueId id;
    nccl.ncclGetUniqueId(&id);
    ncclComm* const made = begin(1, 0, id);
    wait(made);
    return made;
  }
  void destroy(ncclComm* comm) const {
    nccl.ncclCommFinalize(comm);
    wait(comm);
    nccl.ncclCommDestroy(comm);
  }
  int all_reduce(ncclComm* comm, CUstream_st* on, void* memory,
                 size_t count = kBytes) const {
    return nccl.ncclAllReduce(memory, memory, count, ncclUint8, ncclMax, comm,
                              on);
  }
  // In a group, and launched.
  void grouped(ncclComm* comm, CUstream_st* on, void* memory,
               size_t count = kBytes) const {
    nccl.ncclGroupStart();
    all_reduce(comm, on, memory, count);
    nccl.ncclGroupEnd();
    wait(comm);
  }
  // Two ranks, on devices 0 and 1, each of which makes one call.
  void two_ranks(const std::function<void(int, ncclComm*, CUstream_st*, void*)>&
                     call) const {
    ncclUniqueId id;
    nccl.ncclGetUniqueId(&id);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        CUctx_st* popped;
        cuda.cuCtxPushCurrent_v2(fakes::gpu::context_of(rank));
        CUstream_st own(rank);
        void* const memory = fakes::gpu::allocate(rank, kBytes);
        ncclComm* const comm = begin(2, rank, id);
        wait(comm);
        nccl.ncclGroupStart();
        call(rank, comm, &own, memory);
        nccl.ncclGroupEnd();
        wait(comm);
        own.synchronize();
        fakes::gpu::release(memory);
        destroy(comm);
        cuda.cuCtxPopCurrent_v2(&popped);
      });
    for (std::thread& thread : threads) thread.join();
  }

  // Two ranks of two communicators that have connected, each rank with one
  // stream. What `launch` launches never ends, and is aborted.
  void two_stuck_ranks(
      const std::function<void(int, ncclComm* const*, CUstream_st*, void*)>&
          launch) const {
    ncclUniqueId ids[2];
    for (ncclUniqueId& id : ids) nccl.ncclGetUniqueId(&id);
    std::atomic<int> launched = 0;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        CUctx_st* popped;
        cuda.cuCtxPushCurrent_v2(fakes::gpu::context_of(rank));
        CUstream_st own(rank);
        void* const memory = fakes::gpu::allocate(rank, kBytes);
        ncclComm* comms[2];
        for (int i = 0; i < 2; ++i) {
          comms[i] = begin(2, rank, ids[i]);
          wait(comms[i]);
          grouped(comms[i], &own, memory);
        }
        own.synchronize();
        launch(rank, comms, &own, memory);
        ++launched;
        while (launched < 2) std::this_thread::yield();
        for (ncclComm* const comm : comms) nccl.ncclCommAbort(comm);
        own.synchronize();
        fakes::gpu::release(memory);
        cuda.cuCtxPopCurrent_v2(&popped);
      });
    for (std::thread& thread : threads) thread.join();
  }

  Driver cuda;
  Nccl nccl;
  CUstream_st stream{0};
  void* x = nullptr;
};

TEST_F(NcclRules, GoodManners) {
  ncclComm* const comm = make();
  grouped(comm, &stream, x);
  stream.synchronize();
  destroy(comm);
}

TEST_F(NcclRules, AGroupLeftOpenByItsThread) {
  const Collected collected;
  std::thread([this] { nccl.ncclGroupStart(); }).join();
  EXPECT_THAT(collected.rules(), Contains("group left open"));
}

TEST_F(NcclRules, AGroupThatIsNotOpen) {
  const Collected collected;
  nccl.ncclGroupEnd();
  EXPECT_THAT(collected.rules(), Contains("no group to end"));
}

TEST_F(NcclRules, ACallWithoutAGroup) {
  ncclComm* const comm = make();
  {
    const Collected collected;
    all_reduce(comm, &stream, x);
    EXPECT_THAT(collected.rules(), Contains("call without a group"));
  }
  stream.unlaunched = 0;
  destroy(comm);
}

TEST_F(NcclRules, ACallBeforeTheCommunicatorIsReady) {
  ncclUniqueId id;
  nccl.ncclGetUniqueId(&id);
  ncclComm* const comm = begin(2, 0, id);  // rank 1 never comes
  {
    const Collected collected;
    nccl.ncclGroupStart();
    all_reduce(comm, &stream, x);
    nccl.ncclGroupEnd();
    EXPECT_THAT(collected.rules(), Contains("call while in progress"));
  }
  nccl.ncclCommAbort(comm);
}

TEST_F(NcclRules, AUseAfterAnAbort) {
  ncclComm* const comm = make();
  nccl.ncclCommAbort(comm);
  const Collected collected;
  int state;
  nccl.ncclCommGetAsyncError(comm, &state);
  EXPECT_THAT(collected.rules(), Contains("use after the end"));
}

TEST_F(NcclRules, TwoAborts) {
  ncclComm* const comm = make();
  nccl.ncclCommAbort(comm);
  const Collected collected;
  nccl.ncclCommAbort(comm);
  EXPECT_THAT(collected.rules(), Contains("use after the end"));
}

TEST_F(NcclRules, AUseAfterDestroy) {
  ncclComm* const comm = make();
  destroy(comm);
  const Collected collected;
  nccl.ncclCommFinalize(comm);
  EXPECT_THAT(collected.rules(), Contains("use after the end"));
}

TEST_F(NcclRules, ACallAfterFinalize) {
  ncclComm* const comm = make();
  nccl.ncclCommFinalize(comm);
  wait(comm);
  {
    const Collected collected;
    nccl.ncclGroupStart();
    all_reduce(comm, &stream, x);
    nccl.ncclGroupEnd();
    EXPECT_THAT(collected.rules(), Contains("use after finalize"));
  }
  nccl.ncclCommDestroy(comm);
}

TEST_F(NcclRules, DestroyWithoutFinalize) {
  ncclComm* const comm = make();
  const Collected collected;
  nccl.ncclCommDestroy(comm);
  EXPECT_THAT(collected.rules(), Contains("destroyed in progress"));
}

TEST_F(NcclRules, AnAddressThatIsNoCommunicator) {
  const Collected collected;
  int state;
  nccl.ncclCommGetAsyncError(static_cast<ncclComm*>(x), &state);
  EXPECT_THAT(collected.rules(), Contains("no communicator"));
}

TEST_F(NcclRules, AReductionThatIsNeverDestroyed) {
  ncclComm* const comm = make();
  int op;
  float factor = 2;
  nccl.ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32,
                                ncclScalarHostImmediate, comm);
  {
    const Collected collected;
    nccl.ncclCommFinalize(comm);
    EXPECT_THAT(collected.rules(), Contains("reduction left"));
  }
  wait(comm);
  nccl.ncclCommDestroy(comm);
}

TEST_F(NcclRules, AReductionAfterItsEnd) {
  ncclComm* const comm = make();
  int op;
  float factor = 2;
  nccl.ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32,
                                ncclScalarHostImmediate, comm);
  nccl.ncclRedOpDestroy(op, comm);
  {
    const Collected collected;
    nccl.ncclGroupStart();
    nccl.ncclAllReduce(x, x, 1, ncclFloat32, op, comm, &stream);
    nccl.ncclGroupEnd();
    EXPECT_THAT(collected.rules(), Contains("unknown reduction"));
  }
  {
    const Collected collected;
    nccl.ncclRedOpDestroy(op, comm);
    EXPECT_THAT(collected.rules(), Contains("unknown reduction"));
  }
  destroy(comm);
}

TEST_F(NcclRules, AReductionOfAnotherType) {
  ncclComm* const comm = make();
  int op;
  float factor = 2;
  nccl.ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32,
                                ncclScalarHostImmediate, comm);
  {
    const Collected collected;
    nccl.ncclGroupStart();
    nccl.ncclAllReduce(x, x, 1, ncclFloat64, op, comm, &stream);
    nccl.ncclGroupEnd();
    EXPECT_THAT(collected.rules(), Contains("unknown reduction"));
  }
  nccl.ncclRedOpDestroy(op, comm);
  destroy(comm);
}

TEST_F(NcclRules, MemoryFreedInFlight) {
  ncclComm* const comm = make();
  Moment gate;
  stream.put([&] { gate.wait(); });
  void* const memory = fakes::gpu::allocate(0, kBytes);
  grouped(comm, &stream, memory);
  {
    const Collected collected;
    cuda.cuMemFree_v2(reinterpret_cast<CUdeviceptr>(memory));
    EXPECT_THAT(collected.rules(), Contains("memory freed in flight"));
    gate.happen();
    stream.synchronize();
  }
  destroy(comm);
}

TEST_F(NcclRules, MemoryFreedWhileRegistered) {
  ncclComm* const comm = make();
  void *memory, *registration;
  nccl.ncclMemAlloc(&memory, kBytes);
  nccl.ncclCommRegister(comm, memory, kBytes, &registration);
  {
    const Collected collected;
    nccl.ncclMemFree(memory);
    EXPECT_THAT(collected.rules(), Contains("memory freed while registered"));
  }
  nccl.ncclCommDeregister(comm, registration);
  destroy(comm);
}

TEST_F(NcclRules, RegistrationsThatAreWrong) {
  ncclComm* const comm = make();
  void* registration;
  void* const there = fakes::gpu::allocate(3, kBytes);
  {
    const Collected collected;
    nccl.ncclCommRegister(comm, there, kBytes, &registration);
    EXPECT_THAT(collected.rules(),
                Contains("registered memory of another device"));
  }
  fakes::gpu::release(there);
  nccl.ncclCommRegister(comm, x, kBytes, &registration);
  {
    const Collected collected;
    nccl.ncclCommRegister(comm, x, kBytes, &registration);
    EXPECT_THAT(collected.rules(), Contains("registered twice"));
  }
  nccl.ncclCommDeregister(comm, registration);
  {
    const Collected collected;
    nccl.ncclCommDeregister(comm, registration);
    EXPECT_THAT(collected.rules(), Contains("unknown registration"));
  }
  destroy(comm);
}

TEST_F(NcclRules, MemoryThatIsRegisteredOnOneRankOnly) {
  const Collected collected;
  two_ranks([&](int rank, ncclComm* comm, CUstream_st* on, void* memory) {
    void* registration;
    if (rank == 0) nccl.ncclCommRegister(comm, memory, kBytes, &registration);
    all_reduce(comm, on, memory, 8);
  });
  EXPECT_THAT(collected.rules(), Contains("registered on some ranks only"));
}

TEST_F(NcclRules, UsesAfterRevoke) {
  ncclComm* const comm = make();
  nccl.ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
  wait(comm);
  {
    const Collected collected;
    nccl.ncclGroupStart();
    all_reduce(comm, &stream, x);
    nccl.ncclGroupEnd();
    nccl.ncclCommFinalize(comm);
    EXPECT_THAT(collected.rules(), Contains("use after revoke").Times(2));
  }
  {
    const Collected collected;
    nccl.ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
    EXPECT_THAT(collected.rules(), Contains("revoked in vain"));
  }
  nccl.ncclCommAbort(comm);
}

// One rank of two is left; an operation of it waits behind the gate.
TEST_F(NcclRules, ShrinkingBesideOperations) {
  ncclComm* const comm = make();
  Moment gate;
  stream.put([&] { gate.wait(); });
  grouped(comm, &stream, x);
  {
    const Collected collected;
    int nobody = 7;
    ncclComm* child = nullptr;
    ncclConfig config = good_config();
    nccl.ncclCommShrink(comm, &nobody, 0, &child, &config, NCCL_SHRINK_DEFAULT);
    EXPECT_THAT(collected.rules(), Contains("operations under way"));
  }
  gate.happen();
  stream.synchronize();
  destroy(comm);
}

TEST_F(NcclRules, MemoryOfTheHost) {
  ncclComm* const comm = make();
  char here[kBytes] = {};
  {
    const Collected collected;
    grouped(comm, &stream, here);
    stream.synchronize();
    EXPECT_THAT(collected.rules(), Contains("memory of the host"));
  }
  destroy(comm);
}

TEST_F(NcclRules, MemoryOfAnotherDevice) {
  ncclComm* const comm = make();
  void* const there = fakes::gpu::allocate(3, kBytes);
  {
    const Collected collected;
    grouped(comm, &stream, there);
    stream.synchronize();
    EXPECT_THAT(collected.rules(), Contains("memory of another device"));
  }
  fakes::gpu::release(there);
  destroy(comm);
}

TEST_F(NcclRules, MoreThanTheMemory) {
  ncclComm* const comm = make();
  {
    const Collected collected;
    grouped(comm, &stream, x, kBytes + 1);
    stream.synchronize();
    EXPECT_THAT(collected.rules(), Contains("behind the end of memory"));
  }
  destroy(comm);
}

TEST_F(NcclRules, TheHostTouchesDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(*static_cast<volatile char*>(x) = 1, "");
}

TEST_F(NcclRules, AnEventBeforeTheLaunch) {
  ncclComm* const comm = make();
  CUevent_st* event;
  cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  {
    const Collected collected;
    nccl.ncclGroupStart();
    all_reduce(comm, &stream, x);
    cuda.cuEventRecord(event, &stream);
    nccl.ncclGroupEnd();
    EXPECT_THAT(collected.rules(), Contains("event before launch"));
  }
  wait(comm);
  stream.synchronize();
  cuda.cuEventDestroy_v2(event);
  destroy(comm);
}

TEST_F(NcclRules, AnEventWithATimer) {
  const Collected collected;
  CUevent_st* event;
  cuda.cuEventCreate(&event, 0);
  EXPECT_THAT(collected.rules(), Contains("an event with a timer"));
  cuda.cuEventDestroy_v2(event);
}

TEST_F(NcclRules, AnEventOfAnotherDevice) {
  CUevent_st* event;
  cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  CUstream_st far(1);
  const Collected collected;
  cuda.cuEventRecord(event, &far);
  EXPECT_THAT(collected.rules(), Contains("wrong context"));
  cuda.cuEventDestroy_v2(event);
}

TEST_F(NcclRules, AStreamOfAnotherDevice) {
  ncclComm* const comm = make();
  CUstream_st far(1);
  {
    const Collected collected;
    nccl.ncclGroupStart();
    all_reduce(comm, &far, x);
    nccl.ncclGroupEnd();
    EXPECT_THAT(collected.rules(), Contains("wrong context"));
  }
  destroy(comm);
}

TEST_F(NcclRules, CallsWithoutAContext) {
  CUctx_st* popped;
  cuda.cuCtxPopCurrent_v2(&popped);
  const auto breaks = [](const std::function<void()>& call) {
    const Collected collected;
    call();
    EXPECT_THAT(collected.rules(), Contains("no context"));
  };
  CUstream_st* made;
  CUevent_st* event;
  CUdeviceptr memory;
  void* address;
  breaks([&] { cuda.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING); });
  breaks([&] { cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING); });
  breaks([&] { cuda.cuMemAlloc_v2(&memory, 8); });
  breaks([&] { nccl.ncclMemAlloc(&address, 8); });
  breaks([&] {
    ncclUniqueId id;
    nccl.ncclGetUniqueId(&id);
    begin(1, 0, id);
  });
  cuda.cuCtxPushCurrent_v2(popped);
}

TEST_F(NcclRules, TheNullStream) {
  ncclComm* const comm = make();
  {
    const Collected collected;
    nccl.ncclGroupStart();
    all_reduce(comm, nullptr, x);
    nccl.ncclGroupEnd();
    EXPECT_THAT(collected.rules(), Contains("null stream"));
  }
  destroy(comm);
}

// Calls that end captures: of the thread that captures unless that is relaxed,
// and of other threads where both are in the global mode.
TEST_F(NcclRules, ForbiddenCallsInACapture) {
  void *memory, *registration;
  nccl.ncclMemAlloc(&memory, kBytes);
  ncclComm* const comm = make();
  nccl.ncclCommRegister(comm, memory, kBytes, &registration);
  CUevent_st* event;
  cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  CUdeviceptr allocated;
  void* address;
  const std::function<int()> calls[] = {
      [&] { return cuda.cuEventQuery(event); },
      [&] { return cuda.cuMemAlloc_v2(&allocated, kBytes); },
      [&] { return cuda.cuMemFree_v2(reinterpret_cast<CUdeviceptr>(x)); },
      [&] { return cuda.cuMemHostAlloc(&address, kBytes, 0); },
      [&] { return cuda.cuMemFreeHost(nullptr); },
      [&] { return nccl.ncclMemAlloc(&address, kBytes); },
      [&] { return nccl.ncclMemFree(memory); },
      [&] { return nccl.ncclCommRegister(comm, x, kBytes, &address); },
      [&] { return nccl.ncclCommDeregister(comm, registration); },
      [&] { return nccl.ncclCommDestroy(comm); },
      [&] { return nccl.ncclCommAbort(comm); },
  };
  CUstream_st captured(0);
  Graph graph;
  for (const auto& call : calls) {
    const Collected collected;
    fakes::gpu::begin_capture(&captured, &graph,
                              CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    call();
    fakes::gpu::end_capture(&captured);
    fakes::gpu::begin_capture(&captured, &graph);
    call();
    std::thread([&] {
      cuda.cuCtxPushCurrent_v2(fakes::gpu::context_of(0));
      call();
    }).join();
    fakes::gpu::end_capture(&captured);
    EXPECT_EQ(collected.rules(),
              std::vector<std::string>(3, "forbidden call in a capture"));
  }
  cuda.cuEventDestroy_v2(event);
  nccl.ncclCommDeregister(comm, registration);
  nccl.ncclMemFree(memory);
  destroy(comm);
}

TEST_F(NcclRules, AllowedCallsInACapture) {
  CUevent_st* event;
  cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  CUstream_st captured(0);
  Graph graph;
  const auto ask = [&](int mode) {
    cuda.cuThreadExchangeStreamCaptureMode(&mode);
    EXPECT_EQ(cuda.cuEventQuery(event), CUDA_SUCCESS);
    cuda.cuThreadExchangeStreamCaptureMode(&mode);
  };
  for (const int mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED}) {
    fakes::gpu::begin_capture(&captured, &graph, mode);
    ask(CU_STREAM_CAPTURE_MODE_RELAXED);
    if (mode == CU_STREAM_CAPTURE_MODE_RELAXED)
      ask(CU_STREAM_CAPTURE_MODE_GLOBAL);
    std::thread([&] {
      ask(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
      if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
        ask(CU_STREAM_CAPTURE_MODE_GLOBAL);
    }).join();
    fakes::gpu::end_capture(&captured);
  }
  cuda.cuEventDestroy_v2(event);
}

TEST_F(NcclRules, AQuestionForACapturedEvent) {
  CUevent_st* event;
  cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  CUstream_st captured(0);
  Graph graph;
  fakes::gpu::begin_capture(&captured, &graph);
  cuda.cuEventRecord(event, &captured);
  fakes::gpu::end_capture(&captured);
  const Collected collected;
  cuda.cuEventQuery(event);
  EXPECT_THAT(collected.rules(), Contains("question for a captured event"));
  cuda.cuEventDestroy_v2(event);
}

TEST_F(NcclRules, ACaptureThatWaitsForOtherWork) {
  CUevent_st* event;
  cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  cuda.cuEventRecord(event, &stream);
  CUstream_st captured(0);
  Graph graph;
  fakes::gpu::begin_capture(&captured, &graph);
  {
    const Collected collected;
    cuda.cuStreamWaitEvent(&captured, event, 0);
    EXPECT_THAT(collected.rules(), Contains("a capture mixed with other work"));
  }
  fakes::gpu::end_capture(&captured);
  stream.synchronize();
  cuda.cuEventDestroy_v2(event);
}

TEST_F(NcclRules, ConfigsOfOtherVersions) {
  ncclUniqueId id;
  nccl.ncclGetUniqueId(&id);
  const auto breaks = [&](const std::function<void(ncclConfig&)>& change) {
    ncclConfig config = good_config();
    change(config);
    const Collected collected;
    begin(1, 0, id, config);
    EXPECT_THAT(collected.rules(), Contains("a config of another version"));
  };
  breaks([](ncclConfig& config) { config.size = 64; });
  breaks([](ncclConfig& config) { config.magic = 1; });
  breaks([](ncclConfig& config) { config.version = 29999; });
  breaks([](ncclConfig& config) { config.version = 22703; });
}

TEST_F(NcclRules, ABlockingCommunicator) {
  ncclUniqueId id;
  nccl.ncclGetUniqueId(&id);
  ncclConfig config = good_config();
  config.blocking = 1;
  ncclComm* comm;
  {
    const Collected collected;
    comm = begin(1, 0, id, config);
    EXPECT_THAT(collected.rules(), Contains("a blocking communicator"));
  }
  wait(comm);
  destroy(comm);
}

TEST_F(NcclRules, TwoThreadsOnADevice) {
  ncclComm* const first = make();
  ncclComm* const second = make();
  {
    const Collected collected;
    nccl.ncclGroupStart();
    all_reduce(first, &stream, x);
    std::thread([&] {
      cuda.cuCtxPushCurrent_v2(fakes::gpu::context_of(0));
      CUstream_st own(0);
      grouped(second, &own, x);
      own.synchronize();
    }).join();
    nccl.ncclGroupEnd();
    EXPECT_THAT(collected.rules(), Contains("two threads on a device"));
  }
  wait(first);
  stream.synchronize();
  destroy(first);
  destroy(second);
}

TEST_F(NcclRules, CallsThatDifferBetweenRanks) {
  const auto breaks = [&](const std::function<void(int, ncclComm*, CUstream_st*,
                                                   void*)>& call) {
    const Collected collected;
    two_ranks(call);
    EXPECT_THAT(collected.rules(), Contains("different calls"));
  };
  // Another count, reduction, root, operation.
  breaks([&](int rank, ncclComm* comm, CUstream_st* on, void* memory) {
    all_reduce(comm, on, memory, rank == 0 ? 8 : 16);
  });
  breaks([&](int rank, ncclComm* comm, CUstream_st* on, void* memory) {
    nccl.ncclAllReduce(memory, memory, 8, ncclUint8,
                       rank == 0 ? ncclMax : ncclMin, comm, on);
  });
  breaks([&](int rank, ncclComm* comm, CUstream_st* on, void* memory) {
    nccl.ncclBroadcast(memory, memory, 8, ncclUint8, rank, comm, on);
  });
  breaks([&](int rank, ncclComm* comm, CUstream_st* on, void* memory) {
    if (rank == 0)
      all_reduce(comm, on, memory, 8);
    else
      nccl.ncclBroadcast(memory, memory, 8, ncclUint8, 0, comm, on);
  });
  // A message of another size, and of another type.
  breaks([&](int rank, ncclComm* comm, CUstream_st* on, void* memory) {
    if (rank == 0)
      nccl.ncclSend(memory, 8, ncclUint8, 1, comm, on);
    else
      nccl.ncclRecv(memory, 4, ncclUint8, 0, comm, on);
  });
  breaks([&](int rank, ncclComm* comm, CUstream_st* on, void* memory) {
    if (rank == 0)
      nccl.ncclSend(memory, 2, ncclFloat32, 1, comm, on);
    else
      nccl.ncclRecv(memory, 2, ncclInt32, 0, comm, on);
  });
}

TEST_F(NcclRules, AnotherOrderAcrossCommunicators) {
  const Collected collected;
  two_stuck_ranks(
      [&](int rank, ncclComm* const* comms, CUstream_st* on, void* memory) {
        grouped(comms[rank], on, memory);
        grouped(comms[1 - rank], on, memory);
      });
  EXPECT_THAT(collected.rules(),
              testing::ElementsAre("other order across communicators"));
}

// Each rank sends first, and no group of NCCL has both halves of a message.
TEST_F(NcclRules, AnotherOrderOnRanks) {
  const Collected collected;
  two_stuck_ranks(
      [&](int rank, ncclComm* const* comms, CUstream_st* on, void* memory) {
        for (const bool sends : {true, false}) {
          nccl.ncclGroupStart();
          if (sends)
            nccl.ncclSend(memory, 8, ncclUint8, 1 - rank, comms[0], on);
          else
            nccl.ncclRecv(memory, 8, ncclUint8, 1 - rank, comms[0], on);
          nccl.ncclGroupEnd();
          wait(comms[0]);
        }
      });
  EXPECT_THAT(collected.rules(), testing::ElementsAre("other order on ranks"));
}

// The fakes export what the libraries have that they imitate, as far as the
// backend uses it.
TEST(NcclFakes, ExportWhatTheRealLibrariesDo) {
  for (const int version : versions()) {
    const std::string name = nccl_backend::version_text(version);
    std::ifstream list(GOLDEN_NCCL "/" + name + ".txt");
    const std::set<std::string> real{std::istream_iterator<std::string>(list),
                                     {}};
    ASSERT_THAT(real, Contains("ncclAllReduce")) << name;
    void* const fake = dlopen(fake_nccl(version).c_str(), RTLD_NOW);
#define NCCL_SYMBOL(type, name_of, parameters)                           \
  EXPECT_EQ(dlsym(fake, #name_of) != nullptr, real.count(#name_of) == 1) \
      << #name_of " of " << name;
#define NCCL_OPTIONAL NCCL_SYMBOL
#include "nccl/symbols.def"
    dlclose(fake);
  }
}

// One rank with memory of NCCL, which may become a window.
class NcclWindowRules : public NcclRules {
 protected:
  static constexpr size_t kWindow = 4096;
  NcclWindowRules() {
    void* made = nullptr;
    nccl.ncclMemAlloc(&made, 2 * kWindow);
    memory = static_cast<char*>(made);
    comm = make();
  }
  ~NcclWindowRules() override {
    stream.synchronize();
    nccl.ncclCommAbort(comm);
    nccl.ncclMemFree(memory);
  }

  int add_window(void* at, size_t bytes = kWindow) {
    const int result = nccl.ncclCommWindowRegister(comm, at, bytes, &window,
                                                   NCCL_WIN_COLL_SYMMETRIC);
    wait(comm);
    return result;
  }
  // In a group, and launched.
  void call(const std::function<int()>& of_nccl) {
    nccl.ncclGroupStart();
    of_nccl();
    nccl.ncclGroupEnd();
    wait(comm);
    stream.synchronize();
  }
  void put(const void* from, size_t bytes, size_t offset) {
    call([&] {
      return nccl.ncclPutSignal(from, bytes, ncclUint8, 0, window, offset, 0, 0,
                                0, comm, &stream);
    });
  }
  void signal(int index = 0, int context = 0, unsigned flags = 0) {
    call([&] {
      return nccl.ncclSignal(0, index, context, flags, comm, &stream);
    });
  }

  // The backend aborts the communicators of windows, and so does not call it.
  static int deregister(ncclComm* of, ncclWindow_vidmem* ended) {
    void* const library = dlopen(fake_nccl(kVersion).c_str(), RTLD_NOW);
    return reinterpret_cast<int (*)(ncclComm*, ncclWindow_vidmem*)>(
        dlsym(library, "ncclCommWindowDeregister"))(of, ended);
  }

  char* memory = nullptr;
  ncclComm* comm = nullptr;
  ncclWindow_vidmem* window = nullptr;
};

TEST_F(NcclWindowRules, OnMemoryThatCannotBeShared) {
  const Collected collected;
  EXPECT_EQ(add_window(memory + 8), ncclInvalidArgument);
  EXPECT_EQ(add_window(memory, 0), ncclInvalidArgument);
  EXPECT_THAT(collected.rules(),
              Contains("a window that is not aligned").Times(2));
  void* const other = fakes::gpu::allocate(0, kWindow);
  EXPECT_EQ(add_window(other), ncclInvalidArgument);
  EXPECT_THAT(collected.rules(),
              Contains("a window on memory that cannot be shared"));
  fakes::gpu::release(other);
}

TEST_F(NcclWindowRules, SignalsBeforeAWindow) {
  const Collected collected;
  signal();
  EXPECT_THAT(collected.rules(), Contains("a signal before a window"));
}

TEST_F(NcclWindowRules, SignalsWithAnIndex) {
  add_window(memory);
  const Collected collected;
  signal(1);
  signal(0, 1);
  signal(0, 0, 1);
  EXPECT_THAT(collected.rules(), Contains("a signal with an index").Times(3));
}

TEST_F(NcclWindowRules, PutsFromElsewhere) {
  add_window(memory);
  const Collected collected;
  put(x, 8, 0);
  put(memory + kWindow, 8, 0);
  EXPECT_THAT(collected.rules(),
              Contains("a put from outside of a window").Times(2));
}

TEST_F(NcclWindowRules, PutsBeyondTheEnd) {
  add_window(memory);
  const Collected collected;
  put(memory, 8, kWindow - 4);
  EXPECT_THAT(collected.rules(), Contains("put beyond the window"));
}

TEST_F(NcclWindowRules, UsesAfterTheEndOfAWindow) {
  add_window(memory);
  deregister(comm, window);
  const Collected collected;
  ncclWindow_vidmem* const ended = window;
  EXPECT_EQ(deregister(comm, ended), ncclInvalidArgument);
  add_window(memory);
  window = ended;
  put(memory, 8, 0);
  EXPECT_THAT(collected.rules(), Contains("unknown window").Times(2));
}

TEST_F(NcclWindowRules, MemoryFreedUnderAWindow) {
  add_window(memory);
  const Collected collected;
  void* const old = std::exchange(memory, nullptr);
  nccl.ncclMemFree(old);
  EXPECT_THAT(collected.rules(), Contains("memory freed while registered"));
}

// Until 2.31.2 NCCL writes to the wrong one.
TEST_F(NcclWindowRules, TwoWindowsOnOneAllocation) {
  EXPECT_EQ(add_window(memory), ncclInProgress);
  EXPECT_EQ(add_window(memory + kWindow), ncclInProgress);
  Nccl old;
  dw_error error = {};
  ASSERT_EQ(nccl_backend::open_nccl(fake_nccl(22902), &old, &error), DW_OK);
  std::swap(old, nccl);
  ncclConfig config = good_config();
  config.size = 80;
  config.version = 22803;
  ncclUniqueId id;
  nccl.ncclGetUniqueId(&id);
  ncclComm* made = begin(1, 0, id, config);
  wait(made);
  void* both = nullptr;
  nccl.ncclMemAlloc(&both, 2 * kWindow);
  std::swap(comm, made);
  EXPECT_EQ(add_window(both), ncclInProgress);
  {
    const Collected collected;
    EXPECT_EQ(add_window(static_cast<char*>(both) + kWindow),
              ncclInvalidArgument);
    EXPECT_THAT(collected.rules(), Contains("two windows on one allocation"));
  }
  nccl.ncclCommAbort(comm);
  nccl.ncclMemFree(both);
  std::swap(comm, made);
  std::swap(old, nccl);
}

// Two ranks: their parts differ in size, and one has ended when the other puts.
TEST_F(NcclWindowRules, OfTwoRanks) {
  const Collected collected;
  Moment ended;
  two_ranks([&](int rank, ncclComm* of, CUstream_st* on, void* /*memory*/) {
    void* mine = nullptr;
    nccl.ncclMemAlloc(&mine, 2 * kWindow);
    ncclWindow_vidmem* made = nullptr;
    nccl.ncclCommWindowRegister(of, mine, rank == 0 ? kWindow : 2 * kWindow,
                                &made, NCCL_WIN_COLL_SYMMETRIC);
    wait(of);
    if (rank == 1) {
      deregister(of, made);
      ended.happen();
      return;
    }
    ended.wait();
    nccl.ncclPutSignal(mine, 8, ncclUint8, 1, made, 0, 0, 0, 0, of, on);
  });
  EXPECT_THAT(collected.rules(), Contains("a window of another size"));
  EXPECT_THAT(collected.rules(), Contains("put to a window that has ended"));
}

}  // namespace
}  // namespace distwrap::nccl_test
