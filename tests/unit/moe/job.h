// A job of ranks in one process: the plan's steps with messages that are handed
// over in memory, and calls over numbers, written as the tables of docs/moe.md
// say and as slowly as is easiest to read.
#ifndef DISTWRAP_TESTS_UNIT_MOE_JOB_H_
#define DISTWRAP_TESTS_UNIT_MOE_JOB_H_

#include "moe/options.h"
#include "moe/plan_parts.h"

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace distwrap::testing {

using Ids = std::vector<std::vector<int64_t>>;  // by token, the slots

struct JobOptions {
  std::vector<int32_t> node_of = {};  // by rank
  int64_t experts = 0;
  int64_t slots = 0;
  std::vector<int32_t> expert_to_rank = {};
  MoeLayout layout = MoeLayout::kRankMajor;
  MoeBases bases = MoeBases::kPacked;
  int64_t alignment = 1, expert_capacity = 0, row_capacity = 0;
  MoeDedup level = MoeDedup::kRank;
};

// The token (source, token) in each output row of a rank; {-1, -1} in padding.
using Row = std::pair<int, int>;

// The work that a dispatch and a combine of all ranks do with plans that are
// made. Rows of a hop arrive in pieces of random sizes, those of different
// ranks mixed.
class Movement {
 public:
  // Makes the moves of a level; `made` is false if lists contradict each other.
  Movement(std::vector<moe::PlanParts>& parts, MoeDedup level);

  bool made() const { return made_; }
  std::vector<std::vector<Row>> deliver(std::mt19937_64& random) const;
  // The sums of each rank's tokens, from the rows `y` of each rank's output.
  using Numbers = std::vector<std::vector<int64_t>>;
  Numbers combine(const Numbers& y, std::mt19937_64& random) const;

 private:
  std::vector<std::vector<Row>> deliver_at_once() const;
  template <class T>
  std::vector<std::vector<T>> hop(const std::vector<std::vector<T>>& sent,
                                  const std::vector<int64_t> moe::Hop::*from,
                                  const std::vector<int64_t> moe::Hop::*to,
                                  moe::Hop moe::Moves::*which,
                                  std::mt19937_64& random) const;
  int ranks() const { return static_cast<int>(parts_.size()); }

  std::vector<moe::PlanParts>& parts_;
  const MoeDedup level_;
  std::vector<moe::Moves> moves_;
  bool made_ = true;
};

// All plans of a job.
class Job {
 public:
  Job(const JobOptions& options, const std::vector<Ids>& ids);

  int ranks() const { return static_cast<int>(parts_.size()); }
  moe::PlanParts& operator[](int rank) {
    return parts_[static_cast<size_t>(rank)];
  }
  std::vector<moe::PlanParts>& parts() { return parts_; }
  // The rows that arrive at each rank.
  std::vector<std::vector<Row>> deliver(MoeDedup level);

 private:
  std::vector<moe::PlanParts> parts_;
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_UNIT_MOE_JOB_H_
