#include "moe/dedup.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

void mix(int64_t value, uint64_t* hash) {
  *hash = (*hash + static_cast<uint64_t>(value) + 1) * 0x9e3779b97f4a7c15u;
  *hash ^= *hash >> 29;
}

// The rows of both hops by rank, as token or source * T + token, in the order
// in which they move.
struct HopRows {
  explicit HopRows(int ranks) : first(at(ranks)), second(at(ranks)) {}
  std::vector<std::vector<int64_t>> first, second;
};

uint64_t digest(const std::vector<int64_t>& rows) {
  uint64_t hash = 0;
  for (const int64_t row : rows) mix(row, &hash);
  return hash;
}

struct Setup {
  int64_t tokens, width, slots, experts, dtype, lanes, number, validate;
};

// A rank's view of the rows between it and another rank.
struct Header {
  int64_t call = 0, request = 0;
  uint64_t first = 0, second = 0;           // digests
  int64_t first_rows = 0, second_rows = 0;  // numbers of rows
};

// Lists the rows that this rank sends to each rank, and those that it expects.
void list_rows(const PlanParts& parts, const MapShape& shape, HopRows* sent,
               HopRows* expected) {
  const int ranks = shape.ranks(), rank = parts.rank;
  const Lists& forwarded = parts.forwarded.lists();
  int64_t pair = 0;
  for (int s = 0; s < ranks; ++s) {
    for (int64_t i = parts.forward.row_first[at(s)];
         i < parts.forward.row_first[at(s) + 1]; ++i)
      sent->first[at(s)].push_back(parts.forward.row_token[at(i)]);
    for (int64_t i = forwarded.row_first[at(s)];
         i < forwarded.row_first[at(s) + 1]; ++i) {
      const int64_t token = forwarded.row_token[at(i)];
      expected->first[at(s)].push_back(token);
      for (const int64_t last = pair + forwarded.row_pairs[at(i)]; pair < last;
           ++pair) {
        const int lane = forwarded.pair_bucket[at(pair)];
        const int to = rank / shape.lanes * shape.lanes + lane;
        sent->second[at(to)].push_back(s * shape.tokens + token);
      }
    }
    const int by = parts.topology.forwarder(s, parts.topology.node_of(rank));
    for (int64_t i = parts.layout.row_first[at(s)];
         i < parts.layout.row_first[at(s) + 1]; ++i)
      expected->second[at(by)].push_back(s * shape.tokens +
                                         parts.layout.row_token[at(i)]);
  }
}

// The first place at which two lists differ; nullopt: none.
std::optional<int64_t> difference(const std::vector<int64_t>& a,
                                  const std::vector<int64_t>& b) {
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const int64_t one = i < a.size() ? a[i] : INT64_MAX;
    const int64_t other = i < b.size() ? b[i] : INT64_MAX;
    if (one != other) return std::min(one, other);
  }
  return std::nullopt;
}

// Names the first token at which the rows of this rank and another one differ:
// both lists travel whole.
absl::Status compare_rows(const Exchange& exchange, const MapShape& shape,
                          const HopRows& sent, const HopRows& expected,
                          const std::vector<Header>& got, Fault* fault) {
  std::vector<int64_t> words, give, give_at, get, get_at;
  int64_t total = 0;
  for (size_t r = 0; r < got.size(); ++r) {
    give_at.push_back(8 * static_cast<int64_t>(words.size()));
    for (const auto* rows : {&sent.first[r], &sent.second[r]})
      words.insert(words.end(), rows->begin(), rows->end());
    give.push_back(8 * static_cast<int64_t>(words.size()) - give_at.back());
    get_at.push_back(8 * total);
    get.push_back(8 * (got[r].first_rows + got[r].second_rows));
    total += get.back() / 8;
  }
  std::vector<int64_t> in(at(total));
  const absl::StatusOr<Work> moved = exchange.all_to_all(
      {reinterpret_cast<uint8_t*>(in.data()), get, get_at},
      {reinterpret_cast<uint8_t*>(words.data()), give, give_at}, kPlanTag,
      false);
  if (!moved.ok()) return moved.status();
  for (int r = 0; r < exchange.size(); ++r) {
    if (r == exchange.rank()) continue;
    const auto begin = in.begin() + get_at[at(r)] / 8;
    const auto middle = begin + got[at(r)].first_rows;
    const auto end = middle + got[at(r)].second_rows;
    const std::vector<int64_t> first(begin, middle), second(middle, end);
    const auto name = [&](const char* arrays, int64_t source, int64_t token) {
      fault->set({.reason = Reason::kIndexMap,
                  .what = absl::StrCat(arrays, " differ, first at token ",
                                       token, " of rank ", source),
                  .ranks = {r}});
    };
    if (const auto token = difference(first, expected.first[at(r)]))
      name("send_indices and forward_indices", r, *token);
    if (const auto row = difference(second, expected.second[at(r)]))
      name("forward_indices and recv_indices", *row / shape.tokens,
           *row % shape.tokens);
  }
  return absl::OkStatus();
}

void check_map(const char* name, const TensorView& map, int64_t count,
               Fault* fault) {
  if (map.dtype() != DType::kI32 || !map.possible() || !map.contiguous() ||
      map.device() != kCpu)
    fault->set({.reason = Reason::kMetadataType,
                .what = absl::StrCat(name, " has the wrong type or has gaps"),
                .expected = "contiguous i32 in host memory",
                .actual = map.text(),
                .next_step = "convert the map"});
  else if (map.count() != count || map.data() == nullptr)
    fault->set({.reason = Reason::kInvalidArgument,
                .what = absl::StrCat(name, " has the wrong size"),
                .expected = absl::StrCat(count, " positions"),
                .actual = map.data() == nullptr ? "no memory"
                                                : absl::StrCat(map.count()),
                .next_step = "give a map of the documented shape"});
}

}  // namespace

absl::StatusOr<std::shared_ptr<DedupState>> begin_dedup(
    CallPlace place, const DedupArguments& given) {
  const Exchange exchange(place);
  const int ranks = exchange.size();
  Fault fault;
  if (given.tokens < 1 || given.tokens > INT32_MAX || given.width < 1 ||
      given.experts < 1 || given.slots < 1 || given.ranks_per_node < 0 ||
      static_cast<size_t>(given.dtype) >= sizeof internal::kDTypeBytes)
    fault.set({.reason = Reason::kInvalidArgument,
               .what = "tokens, elements, slots and experts are at least 1",
               .actual = absl::StrCat(given.tokens, ", ", given.width, ", ",
                                      given.slots, ", ", given.experts),
               .next_step = "give positive sizes"});
  int lanes = given.ranks_per_node;
  bool even = lanes <= 0 || ranks % lanes == 0;
  if (lanes <= 0) {
    const Topology hosts(place.group->host_of());
    lanes = static_cast<int>(hosts.members(0).size());
    for (int r = 0; r < ranks; ++r)
      even = even && hosts.node_of(r) == r / lanes &&
             hosts.members(hosts.node_of(r)).size() == at(lanes);
  }
  if (!even)
    fault.set({.reason = Reason::kTopology,
               .what = "ranks are not numbered by node and lane, equally many "
                       "on each node",
               .expected = absl::StrCat("a multiple of ", lanes, " ranks"),
               .actual = absl::StrCat(ranks),
               .next_step = "use moe_plan, which takes any nodes"});
  const Setup mine{given.tokens,
                   given.width,
                   given.slots,
                   given.experts,
                   static_cast<int64_t>(given.dtype),
                   lanes,
                   next_plan_number(),
                   checks_fully(*place.group)};
  const std::vector<Setup> told(at(ranks), mine);
  std::vector<Setup> all;
  const Agreement agreement(exchange);
  absl::Status met = agreement.tell(fault, absl::MakeConstSpan(told), &all);
  if (!met.ok()) return met;
  for (int r = 0; r < ranks; ++r)
    if (memcmp(&all[at(r)], &all[0], offsetof(Setup, number)) != 0)
      return exchange.error({.reason = Reason::kCallMismatch,
                             .what = "ranks begin requests of different sizes",
                             .ranks = {0, r},
                             .next_step = "give equal arguments on all ranks"});
  auto state = std::make_shared<DedupState>();
  state->group = place.group;
  state->shape = {ranks / lanes, lanes, given.tokens, given.experts};
  state->width = given.width;
  state->dtype = given.dtype;
  state->number = all[0].number;
  for (const Setup& one : all) state->validate |= one.validate != 0;
  return state;
}

absl::StatusOr<std::shared_ptr<PlanState>> plan_of_maps(
    CallPlace place, DedupState& request, const MapArguments& given,
    Fault fault, JudgeCall judge) {
  const Exchange exchange(place);
  const MapShape& shape = request.shape;
  const int ranks = exchange.size(), rank = exchange.rank();
  check_map("send_indices", given.send, shape.nodes * shape.tokens, &fault);
  check_map("forward_indices", given.forward,
            int64_t{shape.lanes} * shape.nodes * shape.tokens, &fault);
  check_map("recv_indices", given.recv,
            int64_t{shape.experts} * ranks * shape.tokens, &fault);
  const auto data = [](const TensorView& map) {
    return static_cast<const int32_t*>(map.data());
  };
  const MapViews maps{data(given.send), data(given.forward), data(given.recv)};

  const int64_t call = request.calls.fetch_add(1, std::memory_order_relaxed);
  auto plan = std::make_shared<PlanState>();
  plan->group = place.group;
  plan->communicator = place.communicator;
  plan->number = request.number;
  plan->first_call = call;
  PlanParts& parts = plan->parts;
  std::vector<int32_t> node_of;
  for (int r = 0; r < ranks; ++r) node_of.push_back(r / shape.lanes);
  parts.rank = rank;
  parts.topology = Topology(node_of);
  parts.experts = Experts(int64_t{ranks} * shape.experts, ranks, {});
  parts.form.expert_major = true;
  parts.level = MoeDedup::kNode;
  parts.routing.tokens = shape.tokens;
  parts.routing.slots = 1;
  if (!fault.found())
    if (const std::string wrong = check_maps(maps, shape); !wrong.empty())
      fault.set(Reason::kIndexMap, wrong);
  if (!fault.found()) {
    read_maps(maps, shape, rank, &parts);
    if (given.rows < parts.layout.rows)
      fault.set({.reason = Reason::kCapacity,
                 .what = "a buffer has too few rows",
                 .expected = absl::StrCat(parts.layout.rows, " rows or more"),
                 .actual = absl::StrCat(given.rows),
                 .next_step = "give a larger buffer on that rank"});
    if (!plan->move_by_node())
      fault.set(Reason::kIndexMap,
                "forward_indices and recv_indices of one rank differ");
    if (auto found = judge(*plan)) fault.set(*std::move(found));
  }
  HopRows sent(ranks), expected(ranks);
  if (!fault.found()) list_rows(parts, shape, &sent, &expected);
  std::vector<Header> told, got;
  for (size_t r = 0; r < at(ranks); ++r)
    told.push_back(
        {.call = call,
         .request = request.number,
         .first = digest(sent.first[r]),
         .second = digest(sent.second[r]),
         .first_rows = static_cast<int64_t>(sent.first[r].size()),
         .second_rows = static_cast<int64_t>(sent.second[r].size())});
  // A rank with a wrong map is named here, before those that only see it.
  const Agreement agreement(exchange);
  if (absl::Status status =
          agreement.tell(fault, absl::MakeConstSpan(told), &got);
      !status.ok())
    return status;
  if (request.validate)
    if (absl::Status status =
            compare_rows(exchange, shape, sent, expected, got, &fault);
        !status.ok())
      return status;
  const auto differ = [&](const char* what, int r) {
    fault.set({.reason = Reason::kIndexMap, .what = what, .ranks = {r}});
  };
  // The rows that a rank forwards to itself are compared above.
  for (int r = 0; r < ranks; ++r) {
    if (got[at(r)].request != request.number || got[at(r)].call != call)
      differ("ranks are in different calls of requests", r);
    else if (r != rank && got[at(r)].first != digest(expected.first[at(r)]))
      differ("send_indices and forward_indices differ", r);
    else if (r != rank && got[at(r)].second != digest(expected.second[at(r)]))
      differ("forward_indices and recv_indices differ", r);
  }
  if (absl::Status status = agreement.tell(fault); !status.ok()) return status;
  return plan;
}

}  // namespace distwrap::moe
