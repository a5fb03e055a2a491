#include "bench/groups/planning.h"

#include "bench/statistics.h"
#include "distwrap/store.h"
#include "group/group_call.h"
#include "group/rank_map.h"
#include "group/split_plan.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>

namespace distwrap::bench {
namespace {

constexpr int kListSize = 8;

// Keeps the compiler from removing work.
volatile uint64_t sink;

double median_us(double seconds, const std::function<void()>& body) {
  constexpr size_t kLeast = 5;
  std::vector<double> times;
  const Deadline end = Deadline::after(absl::Seconds(seconds));
  while (times.size() < kLeast || !end.passed()) {
    const int64_t start = Deadline::now_ns();
    body();
    times.push_back(static_cast<double>(Deadline::now_ns() - start) / 1e3);
  }
  return median(std::move(times));
}

std::vector<int> numbers(int n) {
  std::vector<int> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

group::RankLists lists_of_eights(int n) {
  group::RankLists lists;
  for (int i = 0; i < n; i += kListSize) {
    lists.emplace_back(static_cast<size_t>(std::min(kListSize, n - i)));
    std::iota(lists.back().begin(), lists.back().end(), i);
  }
  return lists;
}

// Counts the requests of ranks that run one after the other. A decision that
// only the last rank can make comes from an earlier run: `decision`.
class OneThreadStore final : public Store {
 public:
  explicit OneThreadStore(std::string decision)
      : decision_(std::move(decision)) {}

  absl::Status set(absl::string_view key, absl::string_view value,
                   Deadline deadline) override {
    count(key.size() + value.size());
    return inner_->set(key, value, deadline);
  }
  absl::StatusOr<std::string> get(absl::string_view key,
                                  Deadline /*deadline*/) override {
    count(key.size() + decision_.size());
    return decision_;
  }
  absl::Status wait(const std::vector<std::string>& keys,
                    Deadline deadline) override {
    for (const std::string& key : keys) traffic_.bytes += size_of(key);
    ++traffic_.requests;
    return inner_->wait(keys, deadline);
  }
  absl::StatusOr<std::vector<std::string>> get_all(
      const std::vector<std::string>& keys, Deadline deadline) override {
    auto values = inner_->get_all(keys, deadline);
    ++traffic_.requests;
    for (const std::string& key : keys) traffic_.bytes += size_of(key);
    if (values.ok())
      for (const std::string& value : *values) traffic_.bytes += size_of(value);
    return values;
  }
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta,
                              Deadline deadline) override {
    count(key.size() + sizeof delta);
    return inner_->add(key, delta, deadline);
  }
  absl::StatusOr<std::string> compare_set(absl::string_view key,
                                          absl::string_view expected,
                                          absl::string_view desired,
                                          Deadline deadline) override {
    auto value = inner_->compare_set(key, expected, desired, deadline);
    if (!value.ok()) return value;
    count(key.size() + expected.size() + desired.size() + value->size());
    if (absl::EndsWith(key, "/decision")) made_ = *value;
    return value;
  }
  absl::StatusOr<bool> delete_key(absl::string_view key,
                                  Deadline deadline) override {
    count(key.size());
    return inner_->delete_key(key, deadline);
  }
  std::string address() const override { return "one thread"; }

  const StoreTraffic& traffic() const { return traffic_; }
  const std::string& decision_made() const { return made_; }

 private:
  static int64_t size_of(const std::string& text) {
    return static_cast<int64_t>(text.size());
  }
  void count(size_t bytes) {
    ++traffic_.requests;
    traffic_.bytes += static_cast<int64_t>(bytes);
  }

  const std::shared_ptr<Store> inner_ = Store::in_memory();
  const std::string decision_;
  std::string made_;
  StoreTraffic traffic_;
};

using Planning = std::function<void(group::GroupState&)>;

// Every rank makes the call on a world of `ranks` without a backend.
std::shared_ptr<OneThreadStore> run_ranks(int ranks, std::string decision,
                                          const Planning& call) {
  auto store = std::make_shared<OneThreadStore>(std::move(decision));
  const std::vector<int> all = numbers(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    group::GroupParts parts{.name = "world",
                            .description = "world",
                            .uid = 1,
                            .rank = rank,
                            .global_ranks = all,
                            .choices = {},
                            .store = store,
                            .key_prefix = "session/1/group/",
                            .channels = {}};
    parts.channels.push_back({kCpu.type, nullptr});
    const auto world = std::make_shared<group::GroupState>(std::move(parts));
    call(*world);
  }
  return store;
}

StoreTraffic traffic_of(int ranks, const Planning& call) {
  const std::string decision = run_ranks(ranks, "", call)->decision_made();
  return run_ranks(ranks, decision, call)->traffic();
}

}  // namespace

std::vector<int> planning_sizes(int most) {
  std::vector<int> sizes;
  for (int n = 2; n < most; n *= 4) sizes.push_back(n);
  sizes.push_back(most);
  return sizes;
}

PlanningRow measure_planning(int ranks, double seconds) {
  PlanningRow row;
  row.ranks = ranks;
  const std::vector<int> all = numbers(ranks);
  const std::vector<int> backwards(all.rbegin(), all.rend());
  row.own_us = median_us(seconds, [&] {
    const group::ChildPlan plan = group::plan_child(backwards, all);
    const group::RankMap map(plan.global_ranks);
    sink = group::child_uid(1, plan.members_hash, "half", 0) +
           static_cast<uint64_t>(map.find(1));
  });
  const group::RankLists lists = lists_of_eights(ranks);
  row.lists_us = median_us(seconds, [&] {
    sink = group::hash_lists(lists) +
           static_cast<uint64_t>(
               group::check_lists(lists, ranks, ranks / 2, "split_group")
                   ->position);
  });
  const group::CallTerms terms{"split_group", group::hash_lists(lists),
                               group::show_lists(lists)};
  const Deadline never;
  row.split = traffic_of(ranks, [&](group::GroupState& world) {
    group::meet_for_call(world, terms, never).IgnoreError();
  });
  const group::CallTerms colors{"split_group_by_color", 0, "by colour"};
  row.by_color = traffic_of(ranks, [&](group::GroupState& world) {
    const std::string color_and_key(2 * sizeof(int64_t), '\0');
    group::gather_for_call(world, colors, color_and_key, never)
        .status()
        .IgnoreError();
  });
  return row;
}

}  // namespace distwrap::bench
