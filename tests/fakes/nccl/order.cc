#include "fakes/nccl/order.h"

#include "fakes/gpu/rules.h"

#include <algorithm>
#include <set>

namespace fakes::nccl {

std::shared_ptr<Launched> LaunchOrder::add(
    std::vector<Call> calls, const std::vector<CUstream_st*>& streams,
    const std::shared_ptr<Launched>& previous) {
  const auto kernel = std::make_shared<Launched>();
  kernel->calls = std::move(calls);
  if (previous != nullptr) kernel->before.push_back(previous);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (CUstream_st* const stream : streams) {
    std::weak_ptr<Launched>& last = last_[stream];
    const std::shared_ptr<Launched> before = last.lock();
    if (before != nullptr && before != kernel) kernel->before.push_back(before);
    last = kernel;
  }
  for (const Call& call : kernel->calls) ranks_[call].push_back(kernel);
  if (waits_for_itself(*kernel)) {
    const auto& all = kernel->calls;
    const auto other = [&](const std::shared_ptr<Launched>& one) {
      return one->calls.empty() || one->calls[0].first != all[0].first;
    };
    const bool across =
        std::any_of(kernel->before.begin(), kernel->before.end(), other);
    gpu::broken(
        across ? "other order across communicators" : "other order on ranks",
        "a rank has launched a kernel behind one that another rank "
        "has launched behind the same kernel");
  }
  return kernel;
}

void LaunchOrder::end(const std::shared_ptr<Launched>& kernel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  kernel->ended = true;
  kernel->before.clear();
  for (const Call& call : kernel->calls) {
    auto& ranks = ranks_[call];
    ranks.erase(std::remove(ranks.begin(), ranks.end(), kernel), ranks.end());
    if (ranks.empty()) ranks_.erase(call);
  }
}

bool LaunchOrder::waits_for_itself(const Launched& kernel) const {
  const auto is_its_own = [&](const Call& call) {
    return std::find(kernel.calls.begin(), kernel.calls.end(), call) !=
           kernel.calls.end();
  };
  // Nobody waits for a kernel whose calls no other rank has launched.
  const auto is_first = [&](const Call& call) {
    const auto& ranks = ranks_.at(call);
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](const auto& rank) { return rank.get() == &kernel; });
  };
  if (std::all_of(kernel.calls.begin(), kernel.calls.end(), is_first))
    return false;
  std::set<const Launched*> seen;
  std::vector<const Launched*> open = {&kernel};
  while (!open.empty()) {
    const Launched* const one = open.back();
    open.pop_back();
    // This kernel ends when those of the same calls on other ranks have begun.
    std::vector<const Launched*> begins = {one};
    for (const Call& call : one->calls)
      for (const auto& rank : ranks_.at(call)) begins.push_back(rank.get());
    for (const Launched* const rank : begins)
      for (const auto& before : rank->before) {
        if (before->ended || !seen.insert(before.get()).second) continue;
        if (std::any_of(before->calls.begin(), before->calls.end(), is_its_own))
          return true;
        open.push_back(before.get());
      }
  }
  return false;
}

}  // namespace fakes::nccl
