// Random programs of puts, gets and atomics, compared with a slow reference
// that runs them one after the other.
//
// A program is a sequence of phases. In a phase an element is either written by
// one put, or read, or accumulated into by any number of ranks with one
// commutative reduction, so its result does not depend on the order of ranks.
#include "ranks/window_ranks.h"

#include <random>

namespace distwrap::testing {
namespace {

class WindowPrograms : public WindowRanks {};
DISTWRAP_WINDOW_BACKENDS(WindowPrograms);

constexpr int kRanks = 3;

enum class What { kPut, kGet, kAccumulate, kFetch, kSwap };
struct Step {
  What what;
  int rank, target;
  int64_t offset, count;
  ReduceOp::Kind op;
  uint64_t value;
};
using Memory = std::vector<std::vector<uint64_t>>;  // by rank

uint64_t reduced(ReduceOp::Kind op, uint64_t a, uint64_t b) {
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    default:
      return a ^ b;
  }
}

struct Program {
  explicit Program(uint32_t seed) : random(seed) {
    for (int rank = 0; rank < kRanks; ++rank)
      counts.push_back(static_cast<int64_t>(random() % 40) + 24);
    for (int phase = 0; phase < 6; ++phase) add_phase();
  }

  void add_phase() {
    std::vector<Step> steps;
    for (int target = 0; target < kRanks; ++target) {
      int64_t at = 0;
      const int64_t count = counts[static_cast<size_t>(target)];
      while (at < count) {
        const int64_t n = std::min<int64_t>(
            count - at, static_cast<int64_t>(random() % 9) + 1);
        add_piece(target, at, n, &steps);
        at += n;
      }
    }
    std::shuffle(steps.begin(), steps.end(), random);
    phases.push_back(std::move(steps));
  }

  void add_piece(int target, int64_t at, int64_t n, std::vector<Step>* steps) {
    const auto rank = [&] { return static_cast<int>(random() % kRanks); };
    const auto value = [&] { return uint64_t{random()} << 20 | random(); };
    constexpr ReduceOp::Kind kOps[] = {ReduceOp::kSum, ReduceOp::kMax,
                                       ReduceOp::kMin, ReduceOp::kBxor};
    const ReduceOp::Kind op = kOps[random() % 4];
    switch (random() % 5) {
      case 0:
        return steps->push_back(
            {What::kPut, rank(), target, at, n, op, value()});
      case 1:
        for (int i = 0; i < 2; ++i)
          steps->push_back({What::kGet, rank(), target, at, n, op, 0});
        return;
      case 2:
        for (int i = 0; i < 3; ++i)
          steps->push_back(
              {What::kAccumulate, rank(), target, at, n, op, value()});
        return;
      case 3:
        for (int i = 0; i < 3; ++i)
          steps->push_back({What::kFetch, rank(), target, at, n, op, value()});
        return;
      default:
        // A value that differs from the expected one is not replaced.
        return steps->push_back(
            {What::kSwap, rank(), target, at, 1, op, value()});
    }
  }

  Memory empty() const {
    Memory memory;
    for (const int64_t count : counts)
      memory.emplace_back(static_cast<size_t>(count));
    return memory;
  }

  std::mt19937 random;
  std::vector<int64_t> counts;
  std::vector<std::vector<Step>> phases;
};

// Applies one step to the reference.
void apply(const Step& step, Memory* memory) {
  for (int64_t i = 0; i < step.count; ++i) {
    uint64_t& at = (*memory)[static_cast<size_t>(step.target)]
                            [static_cast<size_t>(step.offset + i)];
    const uint64_t operand = step.value + static_cast<uint64_t>(i);
    if (step.what == What::kPut) at = operand;
    if (step.what == What::kAccumulate || step.what == What::kFetch)
      at = reduced(step.op, at, operand);
    if (step.what == What::kSwap) at = operand;
  }
}

void make(const Step& step, const Window& window, const Memory& before) {
  const Peer target = Peer::group(step.target);
  const auto n = static_cast<size_t>(step.count);
  std::vector<uint64_t> x(n), old(n, 4711);
  for (size_t i = 0; i < n; ++i) x[i] = step.value + i;
  const auto begin = before[static_cast<size_t>(step.target)].begin() +
                     static_cast<std::ptrdiff_t>(step.offset);
  switch (step.what) {
    case What::kPut:
      return expect_ok(window.put(TensorView(x), target, step.offset));
    case What::kGet:
      expect_ok(window.get(TensorView(old), target, step.offset));
      EXPECT_TRUE(std::equal(old.begin(), old.end(), begin));
      return;
    case What::kAccumulate:
      return expect_ok(
          window.accumulate(TensorView(x), target, step.offset, step.op));
    case What::kFetch:
      return expect_ok(window.fetch_op(TensorView(old), TensorView(x), target,
                                       step.offset, step.op));
    case What::kSwap: {
      const auto found =
          window.compare_swap(*begin + 1, uint64_t{1}, target, step.offset);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, *begin);
      EXPECT_EQ(*window.compare_swap(*begin, step.value, target, step.offset),
                *begin);
    }
  }
}

TEST_P(WindowPrograms, AgreeWithASequentialReference) {
  for (const uint32_t seed : {1u, 2u, 3u, 4u, 5u, 6u}) {
    const Program program(seed);
    run(kRanks, [&](int me) {
      Memory memory = program.empty();
      const Window window =
          make_window({.count = program.counts[static_cast<size_t>(me)],
                       .dtype = DType::kU64});
      for (const std::vector<Step>& phase : program.phases) {
        const Memory before = memory;
        for (const Step& step : phase) {
          if (step.rank == me) make(step, window, before);
          apply(step, &memory);
        }
        expect_ok(window.flush());
        expect_ok(barrier());
        EXPECT_EQ(copy_of<uint64_t>(window), memory[static_cast<size_t>(me)])
            << "seed " << seed << " rank " << me;
        expect_ok(barrier());
      }
      expect_ok(window.destroy());
    });
  }
}

}  // namespace
}  // namespace distwrap::testing
