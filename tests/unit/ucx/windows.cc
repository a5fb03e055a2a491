#include "windows.h"

#include <thread>

namespace distwrap::ucx_test {
namespace {

constexpr dw_dtype kU64 = {1, 64, 1};

void set_numbers(dw_buf& buf, const Numbers::Values& values) {
  buf.data = const_cast<uint64_t*>(values.data());
  buf.count = static_cast<int64_t>(values.size());
  buf.dtype = kU64;
}

}  // namespace

Numbers::Numbers(Rank& rank, int64_t least) : rank_(rank) {
  dw_buf memory = {};
  memory.count = least + rank.rank;
  memory.dtype = kU64;
  window_ = rank.make_window(memory, 1);
  void* part = nullptr;
  uint64_t bytes = 0;
  if (window_ != nullptr &&
      rank.api.window_map(window_, rank.rank, &part, &bytes, nullptr) ==
          DW_OK &&
      bytes == static_cast<uint64_t>(memory.count) * sizeof(uint64_t))
    part_ = static_cast<uint64_t*>(part);
}

dw_op Numbers::op_of(uint16_t kind, int target, int64_t at) const {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.peer = target;
  op.window = window_;
  op.window_offset = static_cast<uint64_t>(at) * sizeof(uint64_t);
  op.timeout_ns = 60'000'000'000;
  return op;
}

int32_t Numbers::run(dw_op op, dw_error* error) {
  op.flags |= DW_FLAG_CALLER_WAITS;
  return rank_.api.submit(rank_.comm, &op, nullptr, error);
}

int32_t Numbers::put(int target, int64_t at, const Values& values,
                     dw_error* error) {
  dw_op op = op_of(DW_OP_PUT, target, at);
  set_numbers(op.in, values);
  return run(op, error);
}

int32_t Numbers::put_signal(int target, int64_t at, const Values& values,
                            uint64_t value, dw_error* error) {
  dw_op op = op_of(DW_OP_PUT, target, at);
  set_numbers(op.in, values);
  op.flags = DW_FLAG_WITH_SIGNAL;
  op.value = value;
  op.signal_how = DW_SIGNAL_SET;
  return run(op, error);
}

int32_t Numbers::get(int target, int64_t at, Values& values, dw_error* error) {
  dw_op op = op_of(DW_OP_GET, target, at);
  set_numbers(op.out, values);
  return run(op, error);
}

int32_t Numbers::add(int target, int64_t at, uint64_t operand, uint64_t* before,
                     dw_error* error) {
  dw_op op = op_of(DW_OP_FETCH_OP, target, at);
  op.in.data = &operand;
  op.out.data = before;
  op.in.count = op.out.count = 1;
  op.in.dtype = op.out.dtype = kU64;
  op.reduce = DW_REDUCE_SUM;
  return run(op, error);
}

int32_t Numbers::flush(int target, dw_error* error) {
  return run(op_of(DW_OP_FLUSH, target, 0), error);
}

int32_t Numbers::wait_signal(uint64_t value, dw_error* error) {
  dw_op op = op_of(DW_OP_WAIT_SIGNAL, -1, 0);
  op.value = value;
  op.compare = DW_COMPARE_GE;
  return run(op, error);
}

int32_t Numbers::end(dw_error* error) {
  return rank_.api.window_destroy(window_, 0, error);
}

int write_around(Rank& rank) {
  constexpr int64_t kMost = 100'000;
  constexpr int kRounds = 30;
  Numbers numbers(rank, 2 * kMost + 1);
  if (!numbers.ok()) return 10;
  const int next = (rank.rank + 1) % rank.size;
  const int before = (rank.rank + rank.size - 1) % rank.size;
  const auto value = [](int from, int round, int64_t i) {
    return static_cast<uint64_t>(from * 1'000'003 + round * 1009 + i);
  };
  dw_error error = {};
  for (int round = 0; round < kRounds; ++round) {
    constexpr int64_t kCounts[] = {1, 50, 4096, kMost};
    const int64_t n = kCounts[round % 4];
    // Alternates between halves: received data are checked before they are
    // overwritten, provided that all ranks have met in between.
    const int64_t at = round % 2 * kMost;
    Numbers::Values values(static_cast<size_t>(n)), there(values.size());
    for (int64_t i = 0; i < n; ++i)
      values[static_cast<size_t>(i)] = value(rank.rank, round, i);
    const auto step = static_cast<uint64_t>(round + 1);
    if (round % 3 == 0) {
      if (numbers.put(next, at, values, &error) != DW_DONE) return 11;
      if (numbers.put_signal(next, at, {values[0]}, step, &error) != DW_DONE)
        return 12;
    } else if (numbers.put_signal(next, at, values, step, &error) != DW_DONE) {
      return 13;
    }
    if (numbers.wait_signal(step, &error) != DW_DONE) return 14;
    for (int64_t i = 0; i < n; ++i)
      if (numbers.part()[at + i] != value(before, round, i)) return 15;
    if (numbers.flush(next, &error) != DW_DONE) return 16;
    if (numbers.get(next, at, there, &error) != DW_DONE) return 17;
    if (there != values) return 18;
    uint64_t count = 0;
    if (numbers.add(0, 2 * kMost, 1, &count, &error) != DW_DONE) return 19;
    if (count >= static_cast<uint64_t>(kRounds * rank.size)) return 20;
    // A rank may be one round ahead of the previous rank, but not two.
    while (rank.words[1].load() < rank.size * round) std::this_thread::yield();
    ++rank.words[1];
  }
  while (rank.words[1].load() < rank.size * kRounds) std::this_thread::yield();
  if (rank.rank == 0 &&
      numbers.part()[2 * kMost] != static_cast<uint64_t>(kRounds * rank.size))
    return 21;
  // No rank needs another's progress any more.
  ++rank.words[2];
  while (rank.words[2].load() < rank.size) std::this_thread::yield();
  return numbers.end(&error) == DW_OK ? 0 : 22;
}

}  // namespace distwrap::ucx_test
