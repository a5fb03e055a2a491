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

// All plans of a job.
class Job {
 public:
  Job(const JobOptions& options, const std::vector<Ids>& ids);

  int ranks() const { return static_cast<int>(parts_.size()); }
  moe::PlanParts& operator[](int rank) {
    return parts_[static_cast<size_t>(rank)];
  }
  bool forwards() const { return forwards_; }

  // The tokens (source, token) in each rank's output rows, as the moves deliver
  // them; {-1, -1} in padding.
  using Row = std::pair<int, int>;
  std::vector<std::vector<Row>> deliver(MoeDedup level);

 private:
  std::vector<moe::PlanParts> parts_;
  bool forwards_ = true;
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_UNIT_MOE_JOB_H_
