#include "bench/moe/simulate.h"

#include "bench/moe/fabric.h"
#include "moe/plan_parts.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace distwrap::bench {
namespace {

using moe::Crossing;
using moe::Lists;
using moe::PlanParts;
using moe::Topology;

size_t at(int64_t i) { return static_cast<size_t>(i); }

// The lowest (rank, token) of each expert stay.
int64_t drop(std::vector<std::vector<int64_t>>* ids, int64_t slots,
             int64_t experts, int64_t capacity) {
  std::vector<int64_t> counts(at(experts), 0);
  int64_t dropped = 0;
  for (std::vector<int64_t>& of_rank : *ids)
    for (size_t i = 0; i < of_rank.size(); ++i) {
      const size_t token = i - i % at(slots);
      if (of_rank[i] < 0 ||
          std::find(&of_rank[token], &of_rank[i], of_rank[i]) != &of_rank[i])
        continue;
      if (counts[at(of_rank[i])]++ < capacity) continue;
      ++dropped;
      const int64_t expert = of_rank[i];
      for (size_t j = i; j < token + at(slots); ++j)
        if (of_rank[j] == expert) of_rank[j] = -1;
    }
  return dropped;
}

// The rows of all ranks that one level moves.
class Level {
 public:
  Level(std::vector<PlanParts>& parts, const SimulateSpec& spec, MoeDedup level)
      : parts_(parts), spec_(spec), level_(level) {}

  SimulatedLevel measure();

 private:
  int ranks() const { return spec_.grid.ranks(); }
  const Topology& topology() const { return parts_[0].topology; }
  const Crossing& crossing(const PlanParts& one) const {
    return level_ == MoeDedup::kNone   ? one.crossings.none
           : level_ == MoeDedup::kRank ? one.crossings.rank
                                       : one.crossings.node;
  }
  void add_direct(Fabric* fabric);
  void add_forwarded(Fabric* fabric);
  double logical_rows() const;

  std::vector<PlanParts>& parts_;
  const SimulateSpec& spec_;
  const MoeDedup level_;
};

void Level::add_direct(Fabric* fabric) {
  for (int s = 0; s < ranks(); ++s)
    for (int r = 0; r < ranks(); ++r) {
      const Lists& lists = parts_[at(s)].wanted;
      fabric->add(
          s, r,
          level_ == MoeDedup::kNone ? lists.pairs_of(r) : lists.rows_of(r));
    }
}

void Level::add_forwarded(Fabric* fabric) {
  std::vector<int64_t> onward;
  for (int s = 0; s < ranks(); ++s) {
    PlanParts& mine = parts_[at(s)];
    moe::make_forward_lists(mine.wanted, mine.topology, s, &mine.scratch,
                            &mine.forward);
    for (int p = 0; p < ranks(); ++p) {
      const Lists& forward = mine.forward;
      if (forward.rows_of(p) == 0) continue;
      const auto members = topology().members(topology().node_of(p));
      onward.assign(members.size(), 0);
      for (int64_t i = forward.pair_first[at(p)];
           i < forward.pair_first[at(p) + 1]; ++i)
        ++onward[at(forward.pair_bucket[at(i)])];
      fabric->add_forwarded(s, p, forward.rows_of(p), members, onward);
    }
  }
}

double Level::logical_rows() const {
  int64_t rows = 0;
  for (const PlanParts& one : parts_) {
    if (level_ == MoeDedup::kNone) {
      rows += one.wanted.pairs();
    } else if (topology().nodes() == 1) {
      rows += one.wanted.rows();
    } else {
      // A row for each node: those of other nodes, and the tokens that stay.
      rows += one.crossings.node.inter;
      std::vector<uint8_t> stays(at(one.routing.tokens), 0);
      for (const int32_t r : topology().members(topology().node_of(one.rank)))
        for (int64_t i = one.wanted.row_first[at(r)];
             i < one.wanted.row_first[at(r) + 1]; ++i)
          stays[at(one.wanted.row_token[at(i)])] = 1;
      rows += std::count(stays.begin(), stays.end(), 1);
    }
  }
  return static_cast<double>(rows);
}

SimulatedLevel Level::measure() {
  SimulatedLevel out;
  out.name = level_ == MoeDedup::kNone   ? "none"
             : level_ == MoeDedup::kRank ? "rank"
                                         : "node";
  for (const PlanParts& one : parts_) {
    const Crossing& rows = crossing(one);
    out.inter += rows.inter;
    out.intra += rows.intra;
    out.local += rows.local;
  }
  const int hops = level_ == MoeDedup::kNode && topology().nodes() > 1 ? 2 : 1;
  Fabric fabric(spec_.grid, spec_.links, spec_.row_bytes);
  if (hops == 2)
    add_forwarded(&fabric);
  else
    add_direct(&fabric);
  // Each rank reads its tokens once and writes every row that it gets.
  std::vector<int64_t> touched(at(ranks()), 0);
  for (int s = 0; s < ranks(); ++s) {
    touched[at(s)] += parts_[at(s)].routing.tokens;
    for (int r = 0; r < ranks(); ++r)
      touched[at(r)] += parts_[at(s)].wanted.pairs_of(r);
  }
  const double memory_us =
      static_cast<double>(*std::max_element(touched.begin(), touched.end())) *
      static_cast<double>(spec_.row_bytes) / spec_.links.memory / 1e3;
  const double wait_us = hops * spec_.links.hop_us;
  out.limit_us = std::max(fabric.limit_us(), memory_us) + wait_us;
  out.us = std::max(fabric.run_us(), memory_us + wait_us);
  out.logical = logical_rows() / ranks() *
                static_cast<double>(spec_.row_bytes) / out.us / 1e3;
  return out;
}

}  // namespace

absl::StatusOr<MoeLinks> parse_links(absl::string_view text) {
  MoeLinks links;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    double* const value = words[0] == "net"      ? &links.net
                          : words[0] == "local"  ? &links.local
                          : words[0] == "memory" ? &links.memory
                          : words[0] == "hop"    ? &links.hop_us
                                                 : nullptr;
    if (value == nullptr || words.size() != 2 ||
        !absl::SimpleAtod(words[1], value) || !(*value > 0) || *value > 1e9)
      return absl::InvalidArgumentError(absl::StrCat(
          "'", part,
          "' is not net=GB/s, local=GB/s, memory=GB/s or hop=us, above 0"));
  }
  return links;
}

absl::StatusOr<MoeGrid> parse_grid(absl::string_view text) {
  constexpr int kMostRanks = 1024;
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::MaxSplits('x', 1));
  MoeGrid grid;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &grid.nodes) ||
      !absl::SimpleAtoi(words[1], &grid.lanes) || grid.nodes < 1 ||
      grid.lanes < 1 || grid.nodes > kMostRanks || grid.lanes > kMostRanks ||
      grid.ranks() > kMostRanks)
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is not NODESxRANKS, such as 8x8, of at most ", kMostRanks,
        " ranks"));
  return grid;
}

Simulated simulate(const SimulateSpec& spec,
                   std::vector<std::vector<int64_t>> ids) {
  Simulated out;
  if (spec.capacity > 0)
    out.dropped = drop(&ids, spec.topk, spec.experts, spec.capacity);
  std::vector<int32_t> node_of;
  for (int r = 0; r < spec.grid.ranks(); ++r)
    node_of.push_back(r / spec.grid.lanes);
  std::vector<PlanParts> parts(ids.size());
  std::vector<moe::Crossings> crossings;
  for (size_t r = 0; r < parts.size(); ++r) {
    PlanParts& mine = parts[r];
    mine.rank = static_cast<int>(r);
    mine.topology = Topology(node_of);
    mine.experts = moe::Experts(spec.experts, spec.grid.ranks(), {});
    const int64_t tokens = static_cast<int64_t>(ids[r].size()) / spec.topk;
    // The first time grows the plan's memory.
    mine.routing.read(ids[r].data(), tokens, spec.topk, spec.experts);
    mine.make_lists();
    double best = 0;
    for (int i = 0; i < 3; ++i) {
      const auto start = std::chrono::steady_clock::now();
      mine.routing.read(ids[r].data(), tokens, spec.topk, spec.experts);
      mine.make_lists();
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - start;
      best = i == 0 ? took.count() : std::min(best, took.count());
    }
    out.layout_ns += best;
    crossings.push_back(mine.crossings);
    out.tokens += tokens;
  }
  parts[0].choose_level(crossings);
  for (const MoeDedup level :
       {MoeDedup::kNone, MoeDedup::kRank, MoeDedup::kNode}) {
    if (level == MoeDedup::kNode && spec.grid.nodes == 1) continue;
    out.levels.push_back(Level(parts, spec, level).measure());
    out.levels.back().chosen = level == parts[0].level;
  }
  return out;
}

}  // namespace distwrap::bench
