#include "fake_contestant.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

namespace distwrap::bench {
namespace {

// Only floats, with which the tests measure.
float value(int rank, int64_t i) {
  return static_cast<float>((31 * int64_t{rank} + i) % 97);
}

// The inputs of all ranks one after the other, and where each starts.
float input(const Spec& spec, int rank, int64_t i) {
  EXPECT_LT(rank, spec.ranks);
  return value(rank, i);
}

int64_t below(const std::vector<int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

// The whole output, written piece by piece as a library would move it: computed
// differently than in Case.
std::vector<float> result(const Spec& spec) {
  const Layout mine = layout_of(spec);
  std::vector<float> out(static_cast<size_t>(mine.out_count), -1);
  const int me = spec.rank;
  const auto sum = [&](int64_t at, int end) {
    float total = 0;
    for (int rank = 0; rank < end; ++rank) total += input(spec, rank, at);
    return total;
  };
  // `count` elements from `at` of `rank`'s input to `to` of the output.
  const auto move = [&](int rank, int64_t at, int64_t to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      out[static_cast<size_t>(to + i)] = input(spec, rank, at + i);
    }
  };
  const auto reduce = [&](int64_t at, int end) {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = sum(at + static_cast<int64_t>(i), end);
    }
  };
  const int64_t block = mine.block;
  switch (spec.op) {
    case Operation::kReduce:
    case Operation::kAllReduce:
      reduce(0, spec.ranks);
      break;
    case Operation::kScan:
      reduce(0, me + 1);
      break;
    case Operation::kExscan:
      if (me > 0) reduce(0, me);
      break;
    case Operation::kReduceScatter:
      reduce(me * block, spec.ranks);
      break;
    case Operation::kReduceScatterV:
      reduce(below(mine.in_counts, me), spec.ranks);
      break;
    case Operation::kGather:
    case Operation::kAllGather:
      for (int rank = 0; rank < spec.ranks && !out.empty(); ++rank) {
        move(rank, 0, rank * block, block);
      }
      break;
    case Operation::kGatherV:
    case Operation::kAllGatherV:
      for (int rank = 0; rank < spec.ranks && !out.empty(); ++rank) {
        move(rank, 0, below(mine.out_counts, rank),
             mine.out_counts[static_cast<size_t>(rank)]);
      }
      break;
    case Operation::kScatter:
      move(spec.root, me * block, 0, block);
      break;
    case Operation::kScatterV:
      move(spec.root, below(mine.in_counts, me), 0, mine.out_count);
      break;
    case Operation::kAllToAll:
      for (int rank = 0; rank < spec.ranks; ++rank) {
        move(rank, me * block, rank * block, block);
      }
      break;
    case Operation::kAllToAllV:
      for (int rank = 0; rank < spec.ranks; ++rank) {
        Spec theirs = spec;
        theirs.rank = rank;
        const Layout sender = layout_of(theirs);
        move(rank, below(sender.in_counts, me), below(mine.out_counts, rank),
             sender.in_counts[static_cast<size_t>(me)]);
      }
      break;
    case Operation::kBroadcast:
      move(spec.root, 0, 0, mine.out_count);
      break;
    case Operation::kSendRecv:
    case Operation::kWinSignal:
      move(me ^ 1, 0, 0, mine.out_count);
      break;
    case Operation::kRing:
    case Operation::kWinPut:
    case Operation::kWinPutRate:
    case Operation::kWinGet:
    case Operation::kWinFetchAdd:
      move((me + spec.ranks - 1) % spec.ranks, 0, 0, mine.out_count);
      break;
    case Operation::kBarrier:
      break;
  }
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TimedCall>> FakeContestant::prepare(Case& c) {
  if (!behaviour_.has_operation) return std::unique_ptr<TimedCall>();
  return make_call([this, &c, right = result(c.spec())]() -> absl::Status {
    ++calls_;
    if (behaviour_.keeps_outputs) outputs_.push_back(c.out().data());
    if (!behaviour_.status.ok()) return behaviour_.status;
    const Spec& spec = c.spec();
    if (spec.op == Operation::kBarrier) {
      return behaviour_.waits_in_barrier ? side_->barrier() : absl::OkStatus();
    }
    auto* const out = static_cast<float*>(c.out().data());
    std::copy(right.begin(), right.end(), out);
    if (behaviour_.changes_input && c.in().count() > 0) {
      static_cast<float*>(c.in().data())[0] += 1;
    }
    if (behaviour_.takes_ns > 0) {
      const int64_t end = Deadline::now_ns() + behaviour_.takes_ns;
      while (Deadline::now_ns() < end) {
      }
    }
    if (behaviour_.corrupt_from_call > 0 &&
        calls_ >= behaviour_.corrupt_from_call) {
      if (!right.empty()) out[0] += 1;
    }
    return absl::OkStatus();
  });
}

void run_ranks(int ranks,
               const std::function<void(int, std::shared_ptr<Store>)>& body) {
  const std::shared_ptr<Store> store = Store::in_memory();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { body(rank, store); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace distwrap::bench
