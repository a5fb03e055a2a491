#include "fake_contestant.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <thread>

namespace distwrap::bench {
namespace {

// Float only: what the tests measure with.
float value(int rank, int64_t i) {
  return static_cast<float>((31 * int64_t{rank} + i) % 97);
}

float expected(const Spec& spec, int64_t block, int64_t i) {
  const auto sum = [&](int64_t at) {
    float total = 0;
    for (int rank = 0; rank < spec.ranks; ++rank) total += value(rank, at);
    return total;
  };
  switch (spec.op) {
    case Operation::kAllReduce:
      return sum(i);
    case Operation::kReduceScatter:
      return sum(spec.rank * block + i);
    case Operation::kAllGather:
      return value(static_cast<int>(i / block), i % block);
    case Operation::kAllToAll:
      return value(static_cast<int>(i / block), spec.rank * block + i % block);
    case Operation::kBroadcast:
      return value(spec.root, i);
    case Operation::kSendRecv:
      return value(spec.rank ^ 1, i);
    case Operation::kBarrier:
      break;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Call>> FakeContestant::prepare(Case& c) {
  if (!behaviour_.has_operation) return std::unique_ptr<Call>();
  return make_call([this, &c]() -> absl::Status {
    ++calls_;
    if (!behaviour_.status.ok()) return behaviour_.status;
    const Spec& spec = c.spec();
    if (spec.op == Operation::kBarrier) {
      return behaviour_.waits_in_barrier ? side_->barrier() : absl::OkStatus();
    }
    auto* const out = static_cast<float*>(c.out().data());
    const int64_t in_count = c.in().count(), out_count = c.out().count();
    const int64_t block = in_count == out_count ? out_count / spec.ranks
                                                : std::min(in_count, out_count);
    for (int64_t i = 0; i < out_count; ++i) {
      out[i] = expected(spec, block, i);
    }
    if (behaviour_.corrupt_from_call > 0 &&
        calls_ >= behaviour_.corrupt_from_call) {
      out[0] += 1;
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
