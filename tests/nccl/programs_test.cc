// Random programs over each version of the fake NCCL: all ranks make the same
// calls and sets of calls in the same order, each in its own way: in host
// order, on one of its streams, or aside.
#include "fake_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace distwrap::nccl_test {
namespace {

constexpr uint16_t kKinds[] = {
    DW_OP_ALL_REDUCE,     DW_OP_BROADCAST,  DW_OP_REDUCE, DW_OP_ALL_GATHER,
    DW_OP_REDUCE_SCATTER, DW_OP_ALL_TO_ALL, DW_OP_GATHER, DW_OP_SCATTER};

// A call as all ranks know it.
struct Step {
  uint16_t kind = 0;
  int root = 0;
  int64_t count = 0;  // elements of a rank's part
  int64_t base = 0;   // added to all values
};

// The value that `from` has for `to` at `i`; operations without pieces for each
// rank ignore `to`.
int64_t value(const Step& step, int from, int to, int64_t i) {
  return step.base + 1000 * from + 100 * to + i;
}

// A call of one rank, with its memory and what it has to find there.
struct Made {
  std::string name;
  std::unique_ptr<DeviceInts> in, out;
  Ints wanted;
  dw_op op = {};
  dw_work work;
};

void append(const Step& step, int from, int to, Ints* to_values) {
  for (int64_t i = 0; i < step.count; ++i)
    to_values->push_back(value(step, from, to, i));
}
void append_sum(const Step& step, int ranks, int to, Ints* to_values) {
  for (int64_t i = 0; i < step.count; ++i) {
    int64_t sum = 0;
    for (int from = 0; from < ranks; ++from) sum += value(step, from, to, i);
    to_values->push_back(sum);
  }
}

void make(const FakeRank& rank, const Step& step, Made* made) {
  const int me = rank.rank, n = rank.size;
  const bool root = me == step.root;
  Ints in, wanted;
  switch (step.kind) {
    case DW_OP_ALL_REDUCE:
    case DW_OP_REDUCE:
      append(step, me, 0, &in);
      if (step.kind == DW_OP_ALL_REDUCE || root)
        append_sum(step, n, 0, &wanted);
      break;
    case DW_OP_BROADCAST:
      if (root) append(step, me, 0, &in);
      append(step, step.root, 0, &wanted);
      break;
    case DW_OP_ALL_GATHER:
    case DW_OP_GATHER:
      append(step, me, 0, &in);
      for (int r = 0; r < n && (root || step.kind == DW_OP_ALL_GATHER); ++r)
        append(step, r, 0, &wanted);
      break;
    case DW_OP_REDUCE_SCATTER:
      for (int r = 0; r < n; ++r) append(step, me, r, &in);
      append_sum(step, n, me, &wanted);
      break;
    case DW_OP_SCATTER:
      for (int r = 0; r < n && root; ++r) append(step, me, r, &in);
      append(step, step.root, me, &wanted);
      break;
    default:  // all_to_all
      for (int r = 0; r < n; ++r) append(step, me, r, &in);
      for (int r = 0; r < n; ++r) append(step, r, me, &wanted);
  }
  made->name = "kind " + std::to_string(step.kind);
  if (!in.empty()) made->in = std::make_unique<DeviceInts>(rank, in);
  if (!wanted.empty())
    made->out = std::make_unique<DeviceInts>(rank, Ints(wanted.size(), -1));
  made->op =
      rank.op(step.kind, made->in == nullptr ? nullptr : made->in->data(),
              made->out == nullptr ? nullptr : made->out->data(), 0, step.root);
  made->op.in.count = static_cast<int64_t>(in.size());
  made->op.out.count = static_cast<int64_t>(wanted.size());
  made->wanted = std::move(wanted);
}

class NcclPrograms : public testing::TestWithParam<int> {};

TEST_P(NcclPrograms, EachRankInItsOwnWay) {
  constexpr int kSteps = 60;
  for (const int size : {1, 2, 3, 5}) {
    const unsigned seed = seed_of(GetParam()) + static_cast<unsigned>(size);
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_ranks({.size = size, .version = GetParam()}, [&](FakeRank& rank) {
      std::minstd_rand common(seed);
      std::minstd_rand own(seed + 7919 * static_cast<unsigned>(rank.rank + 1));
      CUstream_st first(rank.device), second(rank.device);
      std::deque<Made> all;
      std::vector<Made*> set;
      const auto submit_set = [&] {
        std::vector<dw_group_item> items;
        for (Made* const one : set)
          items.push_back({rank.comm, &one->op, &one->work});
        ASSERT_EQ(nccl().submit_group(rank.backend, items.data(), items.size(),
                                      &rank.error),
                  set.empty() ? DW_DONE : DW_OK)
            << rank.error.text;
        set.clear();
      };
      for (int i = 0; i < kSteps; ++i) {
        const Step step = {kKinds[common() % std::size(kKinds)],
                           static_cast<int>(common()) % size,
                           static_cast<int64_t>(1 + common() % 40),
                           static_cast<int64_t>(common() % 100000)};
        Made& made = all.emplace_back();
        make(rank, step, &made);
        CUstream_st& stream = own() % 2 == 0 ? first : second;
        const auto way = own() % 3;
        if (way != 0) made.op = rank.on(made.op, stream);
        if (way == 2) made.op.flags |= DW_FLAG_ASIDE;
        // NCCL wants the same groups on all ranks.
        if (common() % 3 == 0) {
          set.push_back(&made);
          continue;
        }
        submit_set();
        ASSERT_EQ(rank.submit(made.op, &made.work), DW_OK) << rank.error.text;
      }
      submit_set();
      for (Made& made : all) {
        ASSERT_TRUE(made.work.wait(std::chrono::seconds(60))) << made.name;
        EXPECT_EQ(made.work.code(), DW_OK) << made.work.error().text;
        EXPECT_EQ(made.work.completions(), 1);
        EXPECT_LE(made.work.begins(), 1);
        if (made.out != nullptr) {
          EXPECT_EQ(made.out->values(), made.wanted) << made.name;
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclPrograms, testing::ValuesIn(versions()),
                         [](const auto& version) {
                           return std::to_string(version.param);
                         });

}  // namespace
}  // namespace distwrap::nccl_test
