#include "fake_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <iterator>
#include <string_view>
#include <thread>

namespace distwrap::nccl_test {
namespace {

std::vector<dw_hint> abi_hints(const HintMap& hints) {
  std::vector<dw_hint> made;
  for (const auto& [key, value] : hints)
    made.push_back({{key.data(), key.size()}, {value.data(), value.size()}});
  return made;
}

}  // namespace

FakeRank::FakeRank(const Team& team, int me, conformance::Meeting& meeting_at)
    : rank(me),
      size(team.size),
      device(team.devices.empty() ? me : team.devices[static_cast<size_t>(me)]),
      meeting(meeting_at),
      team_(team) {}

FakeRank::~FakeRank() { close(); }

int32_t FakeRank::open(HintMap hints) {
  hints.emplace("nccl_library", fake_nccl(team_.version));
  hints.emplace("cuda_driver", fake_driver());
  const std::vector<dw_hint> given = abi_hints(hints);
  dw_open_info info = {};
  info.struct_size = sizeof info;
  info.device_type = DW_DEVICE_CUDA;
  info.device_id = device;
  info.hints = given.data();
  info.n_hints = given.size();
  error = {};
  return nccl().open(&conformance::host_table(), &info, &backend, &error);
}

int32_t FakeRank::build(const HintMap& hints, int rounds, uint64_t uid) {
  const std::vector<dw_hint> given = abi_hints(hints);
  dw_setup_info info = {};
  info.rank = rank;
  info.size = size;
  info.uid = uid;
  info.hints = given.data();
  info.n_hints = given.size();
  return build(info, meeting, &comm, rounds);
}

int32_t FakeRank::build(dw_setup_info info, conformance::Meeting& with,
                        dw_comm** made, int rounds) {
  info.struct_size = sizeof info;
  info.flags |= DW_SETUP_COMMUNICATOR;
  info.epoch = 1;
  error = {};
  dw_setup* setup = nullptr;
  dw_blob blob = {};
  const int32_t code =
      nccl().setup_begin(backend, &info, &setup, &blob, &error);
  dw_setup_result result = {};
  const int32_t ended =
      finish(code, setup, blob, info.rank, with, rounds, &result);
  if (ended == DW_OK) *made = result.comm;
  return ended;
}

int32_t FakeRank::build_window(void* at, int64_t bytes, dw_window** made) {
  dw_setup_info info = {};
  info.struct_size = sizeof info;
  info.flags = DW_SETUP_WINDOW;
  info.rank = rank;
  info.size = size;
  info.uid = 11;
  info.epoch = 1;
  info.parent = comm;
  info.memory.data = at;
  info.memory.count = bytes;
  info.memory.dtype = {1, 8, 1};
  error = {};
  dw_setup* setup = nullptr;
  dw_blob blob = {};
  const int32_t code = nccl().window_create(comm, &info, &setup, &blob, &error);
  dw_setup_result result = {};
  const int32_t ended = finish(code, setup, blob, rank, meeting, 1000, &result);
  if (ended == DW_OK) *made = result.window;
  return ended;
}

int32_t FakeRank::end_window(dw_window* window) {
  error = {};
  return nccl().window_destroy(window, conformance::now_ns() + 5'000'000'000,
                               &error);
}

int32_t FakeRank::finish(int32_t code, dw_setup* setup, dw_blob blob, int me,
                         conformance::Meeting& with, int rounds,
                         dw_setup_result* result) {
  bool failed = false;  // on some rank
  for (int round = 0; round < rounds && !failed; ++round) {
    // A failed rank still comes, with nothing, and all end with this round.
    std::string mine;
    if (code == DW_OK)
      mine.assign(static_cast<const char*>(blob.data), blob.size);
    const std::vector<std::string> all = with.swap(me, mine);
    if (code != DW_OK) return code;
    std::vector<dw_blob> blobs;
    for (const std::string& one : all) {
      blobs.push_back({one.data(), one.size(), nullptr, 0});
      failed |= one.empty();
    }
    code = nccl().setup_step(setup, blobs.data(), blobs.size(), &blob, result,
                             &error);
    if (code == DW_DONE) return DW_OK;
  }
  if (code == DW_OK) nccl().setup_cancel(setup);
  return code == DW_OK ? int32_t{DW_CANCELLED} : code;
}

void FakeRank::close() {
  if (comm != nullptr)
    nccl().comm_destroy(comm, conformance::now_ns() + 5'000'000'000, nullptr);
  comm = nullptr;
  if (backend != nullptr) nccl().close(backend);
  backend = nullptr;
}

dw_op FakeRank::op(uint16_t kind, void* in, void* out, int64_t count,
                   int32_t peer) const {
  dw_op made = {};
  made.struct_size = sizeof made;
  made.kind = kind;
  made.peer = peer;
  made.in.data = in;
  made.out.data = out;
  made.in.count = in == nullptr ? 0 : count;
  made.out.count = out == nullptr ? 0 : count;
  made.in.dtype = made.out.dtype = {0, 64, 1};
  if (kind == DW_OP_ALL_REDUCE || kind == DW_OP_REDUCE ||
      kind == DW_OP_REDUCE_SCATTER)
    made.reduce = DW_REDUCE_SUM;
  if (in == out && in != nullptr) made.flags |= DW_FLAG_IN_PLACE;
  made.timeout_ns = 10'000'000'000;
  return made;
}

dw_op FakeRank::on(dw_op op, CUstream_st& stream) const {
  op.stream = {DW_DEVICE_CUDA, device, &stream};
  return op;
}

dw_op FakeRank::on_window(uint16_t kind, dw_window* window, int32_t peer,
                          void* in, int64_t count, uint64_t offset) const {
  dw_op made = op(kind, in, nullptr, count, peer);
  if (kind == DW_OP_PUT) made.flags |= DW_FLAG_WITH_SIGNAL;
  made.window = window;
  made.window_offset = offset;
  made.signal_index = DW_SIGNAL_PAIR;
  made.signal_how = DW_SIGNAL_ADD;
  return made;
}

int32_t FakeRank::call(dw_op op) {
  op.flags |= DW_FLAG_CALLER_WAITS;
  return submit(op, nullptr);
}

int32_t FakeRank::submit(const dw_op& op, dw_work* work) {
  error = {};
  return nccl().submit(comm, &op, work, &error);
}

DeviceInts::DeviceInts(const FakeRank& rank, const Ints& values)
    : count_(values.size()),
      data_(static_cast<int64_t*>(
          fakes::gpu::allocate(rank.device, values.size() * sizeof(int64_t)))) {
  set(values);
}

DeviceInts::~DeviceInts() { fakes::gpu::release(data_); }

Ints DeviceInts::values() const {
  Ints read(count_);
  fakes::gpu::read(read.data(), data_, count_ * sizeof(int64_t));
  return read;
}

void DeviceInts::set(const Ints& values) const {
  fakes::gpu::write(data_, values.data(), values.size() * sizeof(int64_t));
}

std::vector<int> codes_of(int nth, int version) {
  // In progress, 7, is no error.
  constexpr int kCodes[] = {1, 2, 3, 4, 5, 6, 8};
  if (version == versions().back())
    return {std::begin(kCodes), std::end(kCodes)};
  return {kCodes[(nth + version) % 7]};
}

int next_call(int nth, fakes::gpu::Calls sort) {
  return sort == fakes::gpu::Calls::kQuestion ? nth + 1 + nth / 3 : nth + 1;
}

const char* name_of(fakes::gpu::Calls sort) {
  constexpr const char* kNames[] = {"", "Destroy", "Abort", "Revoke",
                                    "Question"};
  return kNames[static_cast<size_t>(sort)];
}

void expect_goes_on(int device) {
  run_ranks({.size = 1, .devices = {device}}, [](FakeRank& rank) {
    EXPECT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE)
        << rank.error.text;
  });
}

bool gives_nccls_reason(const dw_error& error) {
  const std::string_view text = error.text;
  return text.find("a fake NCCL's error") != text.npos ||
         text.find("remote process exited") != text.npos;
}

void expect_nothing_left() {
  const auto limit =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (fakes::gpu::contexts_in_use() != 0 &&
         std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(fakes::gpu::contexts_in_use(), 0);
}

void InUse::expect_same(int kept) const {
  EXPECT_EQ(fakes::gpu::communicators_in_use(), communicators_ + kept);
  if (kept == 0) {
    EXPECT_EQ(fakes::gpu::free_memory(), free_);
  }
}

dw_error why_of(const char* text) {
  dw_error why = {};
  why.code = DW_ABORTED;
  why.reason = DW_REASON_ABORTED;
  why.peer = -1;
  std::snprintf(why.text, sizeof why.text, "%s", text);
  return why;
}

void run_unopened(const Team& team,
                  const std::function<void(FakeRank&)>& body) {
  fakes::gpu::allow_host_memory(false);
  conformance::Meeting meeting(team.size);
  std::vector<std::thread> threads;
  for (int r = 0; r < team.size; ++r)
    threads.emplace_back([&, r] {
      FakeRank rank(team, r, meeting);
      body(rank);
    });
  for (std::thread& thread : threads) thread.join();
}

void run_ranks(const Team& team, const std::function<void(FakeRank&)>& body) {
  run_unopened(team, [&](FakeRank& rank) {
    ASSERT_EQ(rank.open(), DW_OK) << rank.error.text;
    ASSERT_EQ(rank.build(team.hints), DW_OK) << rank.error.text;
    body(rank);
    rank.close();
  });
}

}  // namespace distwrap::nccl_test
