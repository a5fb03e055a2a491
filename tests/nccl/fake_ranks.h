// Ranks as threads over the nccl backend and the fakes, each with a device of
// its own: rank r has device r.
//
//   run_ranks({.size = 2}, [](FakeRank& rank) {
//     DeviceInts x(rank, {rank.rank + 1});
//     EXPECT_EQ(rank.call(rank.all_reduce(x)), DW_DONE);
//     EXPECT_EQ(x.values(), (Ints{3}));
//   });
#ifndef DISTWRAP_TESTS_NCCL_FAKE_RANKS_H_
#define DISTWRAP_TESTS_NCCL_FAKE_RANKS_H_

#include "fake_nccl.h"
#include "host.h"
#include "team.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace distwrap::nccl_test {

using Ints = std::vector<int64_t>;
using HintMap = std::map<std::string, std::string>;

struct Team {
  int size = 2;
  int version = 23203;
  HintMap hints = {};             // hints of the communicator
  std::vector<int> devices = {};  // device of each rank; empty: 0, 1, 2 ...
};

class FakeRank {
 public:
  FakeRank(const Team& team, int me, conformance::Meeting& meeting);
  ~FakeRank();
  FakeRank(const FakeRank&) = delete;
  FakeRank& operator=(const FakeRank&) = delete;

  const int rank, size, device;

  // `open` and `build` return the code, and leave the error in `error`.
  int32_t open(HintMap hints = {});
  // Runs the rounds of a communicator with the others, at most `rounds`.
  int32_t build(const HintMap& hints = {}, int rounds = 1000, uint64_t uid = 7);
  // Builds another communicator, with the ranks that meet there. `info` says
  // which one, of which parent.
  int32_t build(dw_setup_info info, conformance::Meeting& with, dw_comm** made,
                int rounds = 1000);
  // Builds a window of `comm` on this memory.
  int32_t build_window(void* at, int64_t bytes, dw_window** made);
  int32_t end_window(dw_window* window);
  void close();

  // Operations on device memory, in host order.
  dw_op op(uint16_t kind, void* in, void* out, int64_t count,
           int32_t peer = -1) const;
  dw_op on(dw_op op, CUstream_st& stream) const;
  // On a window: a put of `count` elements of 64 bits that signals, a signal,
  // or a wait for one.
  dw_op on_window(uint16_t kind, dw_window* window, int32_t peer,
                  void* in = nullptr, int64_t count = 0,
                  uint64_t offset = 0) const;
  // Waits for the end of an operation in host order.
  int32_t call(dw_op op);
  int32_t submit(const dw_op& op, dw_work* work);

  conformance::Meeting& meeting;
  dw_backend* backend = nullptr;
  dw_comm* comm = nullptr;
  dw_error error = {};

 private:
  // Runs the rounds of a setup that has begun with `code`.
  int32_t finish(int32_t code, dw_setup* setup, dw_blob blob, int me,
                 conformance::Meeting& with, int rounds,
                 dw_setup_result* result);

  const Team& team_;
};

// Values in memory of the rank's device.
class DeviceInts {
 public:
  DeviceInts(const FakeRank& rank, const Ints& values);
  ~DeviceInts();
  DeviceInts(const DeviceInts&) = delete;
  DeviceInts& operator=(const DeviceInts&) = delete;

  int64_t* data() const { return data_; }
  int64_t count() const { return static_cast<int64_t>(count_); }
  // Nothing may be in flight.
  Ints values() const;
  void set(const Ints& values) const;

 private:
  const size_t count_;
  int64_t* const data_;
};

// For suites in which every call of NCCL fails. The codes for the `nth` one:
// all over the newest version, and one of them over the others.
std::vector<int> codes_of(int nth, int version);
// The number of the call that is planned to fail after the `nth` one. Questions
// are many, and as many as the threads come to, so some of them fail: the first
// ones, and then fewer and fewer.
int next_call(int nth, fakes::gpu::Calls sort);
const char* name_of(fakes::gpu::Calls sort);
// Expects that a communicator on this device works, which nobody else uses.
void expect_goes_on(int device);
// Whether the text says what the fake NCCL has answered.
bool gives_nccls_reason(const dw_error& error);
// Waits until the threads that end communicators have let go of their devices.
void expect_nothing_left();

// A failure leaves nothing behind when the fakes have as much in use as before.
class InUse {
 public:
  // Expects what there was at first, and so many communicators that NCCL keeps,
  // perhaps with memory.
  void expect_same(int kept = 0) const;

 private:
  const size_t free_ = fakes::gpu::free_memory();
  const int communicators_ = fakes::gpu::communicators_in_use();
};

// The host's reason for an abort.
dw_error why_of(const char* text);

// Opens, builds, runs `body` and closes on every rank.
void run_ranks(const Team& team, const std::function<void(FakeRank&)>& body);

// Runs `body` on every rank, without more.
void run_unopened(const Team& team, const std::function<void(FakeRank&)>& body);

}  // namespace distwrap::nccl_test

#endif  // DISTWRAP_TESTS_NCCL_FAKE_RANKS_H_
