#include "program.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace distwrap::programs {
namespace {

constexpr const char* kNames[kKinds] = {
    "barrier", "broadcast",  "reduce",         "all_reduce", "gather",
    "scatter", "all_gather", "reduce_scatter", "all_to_all", "scan",
    "exscan",  "ring",       "backward",
};
constexpr const char* kReductions[] = {"sum", "product", "min", "max"};
constexpr const char* kActs[] = {"operate", "split",     "color",
                                 "new",     "new local", "end"};
constexpr DType kTypes[] = {DType::kU8, DType::kI32, DType::kI64, DType::kF32,
                            DType::kF64};
constexpr int64_t kCounts[] = {0, 1, 3, 17, 1024, 5000};

class Maker {
 public:
  Maker(uint64_t seed, int most_ranks) : random_(seed) {
    program_.seed = seed;
    program_.ranks = below(most_ranks - 1) + 2;
    program_.members.emplace_back(static_cast<size_t>(program_.ranks));
    std::iota(program_.members[0].begin(), program_.members[0].end(), 0);
    open_ = {0};
  }

  void add_step() {
    const int what = below(10);
    if (what == 0)
      add_split();
    else if (what == 1)
      add_new_group();
    else if (what == 2 && open_.size() > 3)
      add_end();
    else
      add_operation();
  }

  Program take() { return std::move(program_); }

 private:
  int below(int end) { return static_cast<int>(random_() % unsigned(end)); }
  int any_group() { return open_[size_t(below(int(open_.size())))]; }

  // A new group gets the next number.
  void number(Step* step, bool of_parent) {
    step->first = static_cast<int>(program_.members.size());
    const std::vector<int> parent = program_.members[size_t(step->group)];
    for (const std::vector<int>& list : step->lists) {
      std::vector<int> members = list;
      if (of_parent)
        for (int& rank : members) rank = parent[size_t(rank)];
      open_.push_back(static_cast<int>(program_.members.size()));
      parents_.resize(program_.members.size() + 1, 0);
      parents_.back() = step->group;
      program_.members.push_back(std::move(members));
    }
  }

  void add_split() {
    Step step = {.act = below(2) == 0 ? Act::kSplit : Act::kColor,
                 .group = any_group()};
    std::vector<int> ranks(program_.members[size_t(step.group)].size());
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random_);
    const int lists = below(3) + 1;
    step.lists.resize(size_t(lists));
    for (int rank : ranks)
      if (const int list = below(lists + 1); list < lists)
        step.lists[size_t(list)].push_back(rank);
    step.lists.erase(
        std::remove_if(step.lists.begin(), step.lists.end(),
                       [](const auto& list) { return list.empty(); }),
        step.lists.end());
    if (step.lists.empty()) step.lists = {{ranks.front()}};
    number(&step, true);
    program_.steps.push_back(std::move(step));
  }

  void add_new_group() {
    Step step = {.act = below(2) == 0 ? Act::kNew : Act::kNewLocal};
    std::vector<int> ranks;
    for (int rank = 0; rank < program_.ranks; ++rank)
      if (below(3) != 0) ranks.push_back(rank);
    if (ranks.empty()) ranks.push_back(below(program_.ranks));
    step.lists = {ranks};
    number(&step, false);
    program_.steps.push_back(std::move(step));
  }

  // Ends a group and thereby its children.
  void add_end() {
    Step step = {.act = Act::kEnd, .group = any_group()};
    if (step.group == 0) return;
    std::vector<bool> ended(program_.members.size(), false);
    ended[size_t(step.group)] = true;
    for (size_t g = 1; g < ended.size(); ++g)
      if (ended[size_t(parents_[g])]) ended[g] = true;
    open_.erase(std::remove_if(open_.begin(), open_.end(),
                               [&](int g) { return ended[size_t(g)]; }),
                open_.end());
    program_.steps.push_back(std::move(step));
  }

  void add_operation() {
    Step step = {.act = Act::kOperate, .group = any_group()};
    const int size = int(program_.members[size_t(step.group)].size());
    Operation& o = step.operation;
    o.kind = static_cast<Kind>(below(kKinds));
    o.dtype = kTypes[below(std::size(kTypes))];
    o.reduction = below(4);
    o.n = kCounts[below(std::size(kCounts))];
    o.uneven = below(2) == 0;
    o.root = below(size);
    o.async = below(2) == 0;
    o.salt = uint32_t(random_());
    program_.steps.push_back(std::move(step));
  }

  std::mt19937_64 random_;
  Program program_;
  std::vector<int> open_;
  std::vector<int> parents_ = {0};
};

}  // namespace

int64_t Operation::piece(int from, int to, int size) const {
  if (!uneven) return n;
  return (from + 2 * to + static_cast<int>(salt % 3)) % (size + 1) * (n / 2);
}

int64_t Operation::value(int rank, int to, int64_t i) const {
  const auto mixed = static_cast<int64_t>(salt % 1000) + 7 * rank + 3 * to + i;
  return reduction == 1 ? 1 + mixed % 2 : 1 + mixed % 11;
}

int64_t Operation::reduce(int64_t a, int64_t b) const {
  switch (reduction) {
    case 0:
      return a + b;
    case 1:
      return a * b;
    case 2:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

std::string Operation::name() const {
  return absl::StrCat(kNames[static_cast<int>(kind)], " ", dtype_name(dtype),
                      " ", kReductions[reduction], " n=", n,
                      uneven ? " uneven" : "", " root=", root,
                      async ? " async" : "");
}

std::string Program::text() const {
  std::string text = absl::StrCat("seed ", seed, ", ", ranks, " ranks\n");
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    absl::StrAppend(
        &text, i, ": ", kActs[static_cast<int>(step.act)], " on group ",
        step.group, " {",
        absl::StrJoin(members[static_cast<size_t>(step.group)], ","), "} ");
    if (step.act == Act::kOperate) text += step.operation.name();
    for (size_t l = 0; l < step.lists.size(); ++l)
      absl::StrAppend(&text, " ", static_cast<size_t>(step.first) + l, "={",
                      absl::StrJoin(step.lists[l], ","), "}");
    text += '\n';
  }
  return text;
}

Program make_program(uint64_t seed, int most_ranks, int steps) {
  Maker maker(seed, most_ranks);
  for (int i = 0; i < steps; ++i) maker.add_step();
  return maker.take();
}

}  // namespace distwrap::programs
