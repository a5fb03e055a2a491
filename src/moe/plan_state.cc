#include "moe/plan_state.h"

#include "base/error.h"
#include "comm/board/group_board.h"
#include "distwrap/deadline.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

size_t index_of(MoeDedup level) {
  return static_cast<size_t>(level) - static_cast<size_t>(MoeDedup::kNone);
}

}  // namespace

int64_t next_plan_number() {
  static std::atomic<int64_t> numbers{0};
  return numbers.fetch_add(1, std::memory_order_relaxed) % 65536;
}

void PlanState::begin_anew() {
  base::MutexLock lock(mutex_);
  std::fill(std::begin(has_moves_), std::end(has_moves_), false);
  for (auto& row : has_program_)
    std::fill(std::begin(row), std::end(row), false);
  derived_.has_counts = derived_.has_token_in_rank = derived_.has_kept =
      derived_.has_serving_slots = derived_.has_recv_ids =
          derived_.has_pair_values = derived_.has_own_pair_slots = false;
  traffic_ = {};
  wait_ns_.clear();
  error_ = absl::OkStatus();
}

const Moves& PlanState::moves(MoeDedup level) {
  base::MutexLock lock(mutex_);
  return moves_locked(level);
}

bool PlanState::move_by_node() {
  base::MutexLock lock(mutex_);
  const size_t i = index_of(MoeDedup::kNode);
  has_moves_[i] =
      moe::move_by_node(parts.forward, parts.forwarded.lists(), parts.layout,
                        parts.topology, parts.rank, &parts.scratch, &moves_[i]);
  return has_moves_[i];
}

const Moves& PlanState::moves_locked(MoeDedup level) {
  const size_t i = index_of(level);
  Moves& moves = moves_[i];
  if (has_moves_[i]) return moves;
  switch (level) {
    case MoeDedup::kNone:
      move_pairs(parts.own, parts.layout, parts.rank, &moves);
      break;
    case MoeDedup::kNode:
      // A plan whose lists contradict each other is refused when it is made.
      moe::move_by_node(parts.forward, parts.forwarded.lists(), parts.layout,
                        parts.topology, parts.rank, &parts.scratch, &moves);
      break;
    default:
      move_rows(parts.own, parts.layout, parts.rank, &moves);
  }
  has_moves_[i] = true;
  return moves;
}

const Program& PlanState::program(Sum sum, MoeDedup level) {
  base::MutexLock lock(mutex_);
  const auto s = static_cast<size_t>(sum);
  const size_t i = index_of(level);
  Program& program = programs_[s][i];
  if (has_program_[s][i]) return program;
  const Moves& moves = moves_locked(level);
  const SumInput input = parts.sum_input();
  switch (sum) {
    case Sum::kBuckets:
      sum_buckets(input, moves, &sum_scratch_, &program);
      break;
    case Sum::kLanes:
      sum_lanes(input, moves, &sum_scratch_, &program);
      break;
    case Sum::kTree:
      sum_nodes(input, moves, &sum_scratch_, &program);
      break;
    case Sum::kSlots:
      sum_slots(input, moves, parts.routing, parts.experts, &sum_scratch_,
                &program);
      break;
  }
  has_program_[s][i] = true;
  return program;
}

const std::vector<int32_t>& PlanState::pair_values() {
  base::MutexLock lock(mutex_);
  if (!derived_.has_pair_values) {
    const Layout& layout = parts.layout;
    derived_.pair_values.resize(layout.pair_slot.size());
    for (int64_t i = 0; i < static_cast<int64_t>(layout.row_token.size()); ++i)
      for (int64_t j = layout.pair_row_first[at(i)];
           j < layout.pair_row_first[at(i) + 1]; ++j)
        derived_.pair_values[at(j)] =
            static_cast<int32_t>(i * slots() + layout.pair_slot[at(j)]);
    derived_.has_pair_values = true;
  }
  return derived_.pair_values;
}

const std::vector<int32_t>& PlanState::own_pair_slots() {
  base::MutexLock lock(mutex_);
  if (!derived_.has_own_pair_slots) {
    const Lists& own = parts.own;
    derived_.own_pair_slots.resize(own.pair_slot.size());
    int64_t pair = 0;
    for (size_t i = 0; i < own.row_token.size(); ++i)
      for (const int64_t last = pair + own.row_pairs[i]; pair < last; ++pair)
        derived_.own_pair_slots[at(pair)] = static_cast<int32_t>(
            own.row_token[i] * slots() + own.pair_slot[at(pair)]);
    derived_.has_own_pair_slots = true;
  }
  return derived_.own_pair_slots;
}

void PlanState::fill_counts() {
  if (derived_.has_counts) return;
  const Lists& own = parts.own;
  const auto ranks = at(parts.ranks());
  derived_.per_rank.resize(ranks);
  derived_.per_node.assign(at(parts.topology.nodes()), 0);
  derived_.per_expert.assign(at(parts.experts.count()), 0);
  // The tokens of a node are counted once: by node, the last token that
  // counted, over rows in the order of their tokens.
  std::vector<uint8_t>& counted = derived_.counted;
  counted.assign(at(tokens()) * at(parts.topology.nodes()), 0);
  int64_t pair = 0;
  for (size_t r = 0; r < ranks; ++r) {
    derived_.per_rank[r] = own.row_first[r + 1] - own.row_first[r];
    const auto node = at(parts.topology.node_of(static_cast<int>(r)));
    const absl::Span<const int32_t> experts =
        parts.experts.of_rank(static_cast<int>(r));
    for (int64_t i = own.row_first[r]; i < own.row_first[r + 1]; ++i) {
      uint8_t& seen =
          counted[at(own.row_token[at(i)]) * at(parts.topology.nodes()) + node];
      if (seen == 0) ++derived_.per_node[node];
      seen = 1;
      for (const int64_t last = pair + own.row_pairs[at(i)]; pair < last;
           ++pair)
        ++derived_.per_expert[at(experts[at(own.pair_bucket[at(pair)])])];
    }
  }
  derived_.has_counts = true;
}

TensorView PlanState::counts_per_rank() {
  base::MutexLock lock(mutex_);
  fill_counts();
  return TensorView(derived_.per_rank).as_read_only();
}

TensorView PlanState::counts_per_node() {
  base::MutexLock lock(mutex_);
  fill_counts();
  return TensorView(derived_.per_node).as_read_only();
}

TensorView PlanState::counts_per_expert() {
  base::MutexLock lock(mutex_);
  fill_counts();
  return TensorView(derived_.per_expert).as_read_only();
}

TensorView PlanState::token_in_rank() {
  base::MutexLock lock(mutex_);
  if (!derived_.has_token_in_rank) {
    const Lists& own = parts.own;
    const auto ranks = at(parts.ranks());
    derived_.token_in_rank.assign(at(tokens()) * ranks, 0);
    for (size_t r = 0; r < ranks; ++r)
      for (int64_t i = own.row_first[r]; i < own.row_first[r + 1]; ++i)
        derived_.token_in_rank[at(own.row_token[at(i)]) * ranks + r] = 1;
    derived_.tokens_by_ranks[0] = tokens();
    derived_.tokens_by_ranks[1] = parts.ranks();
    derived_.has_token_in_rank = true;
  }
  return TensorView(derived_.token_in_rank.data(), derived_.tokens_by_ranks,
                    DType::kBool)
      .as_read_only();
}

void PlanState::fill_kept() {
  if (derived_.has_kept) return;
  const Lists& own = parts.own;
  derived_.kept.assign(at(parts.routing.size()), 0);
  int64_t pair = 0;
  for (size_t i = 0; i < own.row_token.size(); ++i)
    for (const int64_t last = pair + own.row_pairs[i]; pair < last; ++pair)
      derived_.kept[at(own.row_token[i] * slots() + own.pair_slot[at(pair)])] =
          1;
  derived_.tokens_by_slots[0] = tokens();
  derived_.tokens_by_slots[1] = slots();
  derived_.has_kept = true;
}

TensorView PlanState::kept() {
  base::MutexLock lock(mutex_);
  fill_kept();
  return TensorView(derived_.kept.data(), derived_.tokens_by_slots,
                    DType::kBool)
      .as_read_only();
}

TensorView PlanState::serving_slots() {
  base::MutexLock lock(mutex_);
  fill_kept();
  if (!derived_.has_serving_slots) {
    derived_.serving_slots.assign(derived_.kept.size(), -1);
    for (int64_t i = 0; i < parts.routing.size(); ++i) {
      const int32_t expert = parts.routing.expert[at(i)];
      const int64_t slot =
          expert <= kRepeats ? int64_t{kRepeats} - expert : i % slots();
      if (expert != kUnused && derived_.kept[at(i - i % slots() + slot)] != 0)
        derived_.serving_slots[at(i)] = static_cast<int32_t>(slot);
    }
    derived_.has_serving_slots = true;
  }
  return TensorView(derived_.serving_slots.data(), derived_.tokens_by_slots)
      .as_read_only();
}

TensorView PlanState::recv_topk_idx() {
  base::MutexLock lock(mutex_);
  if (expert_major()) return {};
  const bool wide = id_type == DType::kI64;
  if (!derived_.has_recv_ids) {
    const Layout& layout = parts.layout;
    const size_t size = at(rows() * slots());
    const auto fill = [&](auto& ids) {
      ids.assign(size, -1);
      for (int64_t i = 0; i < rows(); ++i)
        for (int64_t j = layout.pair_row_first[at(i)];
             j < layout.pair_row_first[at(i) + 1]; ++j)
          ids[at(i * slots() + layout.pair_slot[at(j)])] =
              layout.pair_bucket[at(j)];
    };
    if (wide)
      fill(derived_.recv_ids64);
    else
      fill(derived_.recv_ids32);
    derived_.rows_by_slots[0] = rows();
    derived_.rows_by_slots[1] = slots();
    derived_.has_recv_ids = true;
  }
  return (wide ? TensorView(derived_.recv_ids64.data(), derived_.rows_by_slots)
               : TensorView(derived_.recv_ids32.data(), derived_.rows_by_slots))
      .as_read_only();
}

absl::Status PlanState::lend(bool limited,
                             std::unique_ptr<Workspace>* workspace) {
  base::MutexLock lock(mutex_);
  if (limited && pendings_ >= in_flight_)
    return base::make_error(
        {.reason = Reason::kResourceLimit,
         .what = "the plan has as many unfinished calls as it may",
         .expected = absl::StrCat("at most ", in_flight_),
         .actual = absl::StrCat(pendings_ + 1),
         .next_step = "finish a pending call, or prepare the plan for more"});
  if (idle_.empty()) {
    *workspace = std::make_unique<Workspace>();
  } else {
    *workspace = std::move(idle_.back());
    idle_.pop_back();
  }
  if (limited) ++pendings_;
  return absl::OkStatus();
}

void PlanState::give_back(std::unique_ptr<Workspace> workspace, bool limited) {
  base::MutexLock lock(mutex_);
  if (limited) --pendings_;
  idle_.push_back(std::move(workspace));
}

int64_t PlanState::staged_rows() {
  base::MutexLock lock(mutex_);
  const Moves& moves = moves_locked(parts.level);
  return std::max(moves.first.sent() + moves.second.sent(),
                  moves.first.received() + moves.second.received());
}

int64_t PlanState::staged_bytes() {
  base::MutexLock lock(mutex_);
  int64_t bytes = 0;
  for (const std::unique_ptr<Workspace>& one : idle_) bytes += one->bytes();
  return bytes;
}

absl::Status PlanState::prepare(int64_t row_bytes, int in_flight) {
  if (row_bytes < 1 || in_flight < 1)
    return base::make_error(
        {.reason = Reason::kInvalidArgument,
         .what = "a plan is prepared for rows and calls of at least 1",
         .actual = absl::StrCat(row_bytes, " bytes, ", in_flight, " calls"),
         .next_step = "give the bytes of a row and the calls in flight"});
  const int64_t bytes = staged_rows() * row_bytes;
  base::MutexLock lock(mutex_);
  while (static_cast<int>(idle_.size()) + pendings_ < in_flight)
    idle_.push_back(std::make_unique<Workspace>());
  for (const std::unique_ptr<Workspace>& one : idle_) {
    if (parts.level == MoeDedup::kNode) one->staged.grow(bytes);
    one->scratch.grow(2 * bytes);
  }
  in_flight_ = in_flight;
  return absl::OkStatus();
}

int64_t PlanState::next_call() {
  base::MutexLock lock(mutex_);
  return traffic_.execs++;
}

void PlanState::count_call(const Crossing& rows, int64_t row_bytes) {
  base::MutexLock lock(mutex_);
  traffic_.inter_rows = rows.inter;
  traffic_.intra_rows = rows.intra;
  traffic_.local_rows = rows.local;
  constexpr int64_t kTokenId = 4;
  traffic_.bytes_inter = rows.inter * (row_bytes + kTokenId);
  traffic_.bytes_intra = rows.intra * (row_bytes + kTokenId);
}

MoeTraffic PlanState::traffic() {
  base::MutexLock lock(mutex_);
  MoeTraffic traffic = traffic_;
  if (traffic.execs == 0) {
    const Crossing& rows = parts.level == MoeDedup::kNone ? parts.crossings.none
                           : parts.level == MoeDedup::kRank
                               ? parts.crossings.rank
                               : parts.crossings.node;
    traffic.inter_rows = rows.inter;
    traffic.intra_rows = rows.intra;
    traffic.local_rows = rows.local;
  }
  traffic.naive_inter_rows = parts.crossings.none.inter;
  traffic.dropped = parts.pairs_dropped;
  traffic.wait_ns = wait_ns_;
  traffic.wait_ns.resize(at(parts.ranks()));
  return traffic;
}

int64_t PlanState::come_to(int64_t call) {
  {
    base::MutexLock lock(mutex_);
    wait_ns_.resize(at(parts.ranks()));
  }
  const int64_t now_ns = Deadline::now_ns();
  if (const std::shared_ptr<comm::GroupBoard> board = group->group_board())
    board->come_to(static_cast<uint64_t>(call), now_ns);
  return now_ns;
}

void PlanState::count_waits(int64_t call, int64_t since_ns) {
  const std::shared_ptr<comm::GroupBoard> board = group->group_board();
  if (board == nullptr) return;
  base::MutexLock lock(mutex_);
  for (int r = 0; r < parts.ranks(); ++r) {
    if (r == parts.rank) continue;
    const int64_t came_ns = board->when_came(r, static_cast<uint64_t>(call));
    if (came_ns > since_ns) wait_ns_[at(r)] += came_ns - since_ns;
  }
}

void PlanState::keep_error(const absl::Status& error) {
  base::MutexLock lock(mutex_);
  error_.Update(error);
}

absl::Status PlanState::take_error() {
  base::MutexLock lock(mutex_);
  return std::exchange(error_, absl::OkStatus());
}

}  // namespace distwrap::moe
