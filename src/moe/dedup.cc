#include "moe/dedup.h"

#include "base/error.h"
#include "moe/rows.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Equal parts of `T` from each rank to each.
template <class T>
absl::Status swap(const Exchange& exchange, std::vector<T>& given,
                  std::vector<T>* got) {
  std::vector<int64_t> counts(given.size(), sizeof(T)), displs;
  for (size_t r = 0; r < given.size(); ++r)
    displs.push_back(static_cast<int64_t>(r * sizeof(T)));
  got->resize(given.size());
  return exchange
      .all_to_all({reinterpret_cast<uint8_t*>(got->data()), counts, displs},
                  {reinterpret_cast<uint8_t*>(given.data()), counts, displs},
                  kPlanTag, false)
      .status();
}

void mix(int64_t value, uint64_t* hash) {
  *hash = (*hash + static_cast<uint64_t>(value) + 1) * 0x9e3779b97f4a7c15u;
  *hash ^= *hash >> 29;
}

// The tokens of one rank's rows in a list.
void mix_rows(const Lists& lists, int rank, uint64_t* hash) {
  for (int64_t i = lists.row_first[at(rank)]; i < lists.row_first[at(rank) + 1];
       ++i)
    mix(lists.row_token[at(i)], hash);
}

struct Setup {
  int64_t tokens, width, slots, experts, dtype, lanes, number;
};

// The rows that a rank is about to send to another, or expects of it: the call,
// and the rows of both hops.
struct Header {
  int64_t call = 0, request = 0;
  uint64_t first = 0, second = 0;
};

// The finding of a rank.
struct Verdict {
  int32_t reason = 0;  // 0: nothing
  int32_t other = -1;  // the rank whose maps differ
  int64_t needed = 0;  // rows of the output
  char text[96] = {};
};

Header header_of(const DedupState& request, int64_t call) {
  return {.call = call, .request = request.number};
}

absl::Status refuse_map(const Exchange& exchange, const char* name,
                        const TensorView& map, int64_t count) {
  if (map.dtype() != DType::kI32 || !map.possible() || !map.contiguous() ||
      map.device() != kCpu)
    return exchange.error(
        {.reason = Reason::kMetadataType,
         .what = absl::StrCat(name, " has the wrong type or has gaps"),
         .expected = "contiguous i32 in host memory",
         .actual = map.text(),
         .next_step = "convert the map"});
  if (map.count() == count && map.data() != nullptr) return absl::OkStatus();
  return exchange.error({.reason = Reason::kInvalidArgument,
                         .what = absl::StrCat(name, " has the wrong size"),
                         .expected = absl::StrCat(count, " positions"),
                         .actual = map.data() == nullptr
                                       ? "no memory"
                                       : absl::StrCat(map.count()),
                         .next_step = "give a map of the documented shape"});
}

}  // namespace

absl::StatusOr<std::shared_ptr<DedupState>> begin_dedup(
    CallPlace place, const DedupArguments& given) {
  const Exchange exchange(place);
  const int ranks = exchange.size();
  if (given.tokens < 1 || given.tokens > INT32_MAX || given.width < 1 ||
      given.experts < 1 || given.slots < 1 || given.ranks_per_node < 0 ||
      static_cast<size_t>(given.dtype) >= sizeof internal::kDTypeBytes)
    return exchange.error(
        {.reason = Reason::kInvalidArgument,
         .what = "tokens, elements, slots and experts are at least 1",
         .actual = absl::StrCat(given.tokens, ", ", given.width, ", ",
                                given.slots, ", ", given.experts),
         .next_step = "give positive sizes"});
  int lanes = given.ranks_per_node;
  bool even = lanes == 0 || ranks % lanes == 0;
  if (lanes == 0) {
    const Topology hosts(place.group->host_of());
    lanes = static_cast<int>(hosts.members(0).size());
    for (int r = 0; r < ranks; ++r)
      even = even && hosts.node_of(r) == r / lanes &&
             hosts.members(hosts.node_of(r)).size() == at(lanes);
  }
  if (!even)
    return exchange.error(
        {.reason = Reason::kTopology,
         .what = "ranks are not numbered by node and lane, equally many on "
                 "each node",
         .expected = absl::StrCat("a multiple of ", lanes, " ranks"),
         .actual = absl::StrCat(ranks),
         .next_step = "use moe_plan, which takes any nodes"});
  static std::atomic<int64_t> requests{0};
  const Setup mine{given.tokens,
                   given.width,
                   given.slots,
                   given.experts,
                   static_cast<int64_t>(given.dtype),
                   lanes,
                   requests.fetch_add(1, std::memory_order_relaxed) % 65536};
  std::vector<Setup> out(at(ranks), mine), all;
  if (absl::Status status = swap(exchange, out, &all); !status.ok())
    return status;
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
  return state;
}

absl::StatusOr<std::shared_ptr<PlanState>> plan_of_maps(
    CallPlace place, DedupState& request, TensorView send, TensorView forward,
    TensorView recv, int64_t rows) {
  const Exchange exchange(place);
  const MapShape& shape = request.shape;
  const int ranks = exchange.size(), rank = exchange.rank();
  for (const auto& [name, map, count] :
       {std::tuple<const char*, const TensorView&, int64_t>(
            "send_indices", send, shape.nodes * shape.tokens),
        {"forward_indices", forward,
         int64_t{shape.lanes} * shape.nodes * shape.tokens},
        {"recv_indices", recv, int64_t{shape.experts} * ranks * shape.tokens}})
    if (absl::Status status = refuse_map(exchange, name, map, count);
        !status.ok())
      return status;
  const auto data = [](const TensorView& map) {
    return static_cast<const int32_t*>(map.data());
  };
  const MapViews maps{data(send), data(forward), data(recv)};

  // From here on all ranks take the same steps.
  const int64_t call = request.calls.fetch_add(1, std::memory_order_relaxed);
  Verdict mine;
  const auto find = [&](Reason reason, const std::string& text, int other) {
    if (mine.reason != 0) return;
    mine.reason = static_cast<int32_t>(reason);
    mine.other = other;
    text.copy(mine.text, sizeof mine.text - 1);
  };
  auto plan = std::make_shared<PlanState>();
  plan->group = place.group;
  plan->communicator = place.communicator;
  plan->number = request.number;
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
  Moves moves;
  std::vector<Header> given(at(ranks), header_of(request, call)), expected, got;
  if (const std::string wrong = check_maps(maps, shape); !wrong.empty()) {
    find(Reason::kIndexMap, wrong, -1);
  } else {
    read_maps(maps, shape, rank, &parts);
    mine.needed = parts.layout.rows;
    if (rows < mine.needed)
      find(Reason::kCapacity, "a buffer has too few rows", -1);
    if (!move_by_node(parts.forward, parts.forwarded.lists(), parts.layout,
                      parts.topology, rank, &moves))
      find(Reason::kIndexMap,
           "forward_indices and recv_indices of one rank differ", -1);
  }
  expected = given;
  if (mine.reason == 0) {
    const Lists& forwarded = parts.forwarded.lists();
    int64_t pair = 0;
    for (int s = 0; s < ranks; ++s) {
      mix_rows(parts.forward, s, &given[at(s)].first);
      mix_rows(forwarded, s, &expected[at(s)].first);
      for (int64_t i = forwarded.row_first[at(s)];
           i < forwarded.row_first[at(s) + 1]; ++i)
        for (const int64_t last = pair + forwarded.row_pairs[at(i)];
             pair < last; ++pair) {
          const int lane = forwarded.pair_bucket[at(pair)];
          const int to = rank / shape.lanes * shape.lanes + lane;
          mix(s, &given[at(to)].second);
          mix(forwarded.row_token[at(i)], &given[at(to)].second);
        }
      const int by = parts.topology.forwarder(s, parts.topology.node_of(rank));
      for (int64_t i = parts.layout.row_first[at(s)];
           i < parts.layout.row_first[at(s) + 1]; ++i) {
        mix(s, &expected[at(by)].second);
        mix(parts.layout.row_token[at(i)], &expected[at(by)].second);
      }
    }
  }
  if (absl::Status status = swap(exchange, given, &got); !status.ok())
    return status;
  // The rows that a rank forwards to itself are compared above.
  for (int r = 0; r < ranks; ++r) {
    if (got[at(r)].request != request.number || got[at(r)].call != call)
      find(Reason::kIndexMap, "ranks are in different calls of requests", r);
    else if (r != rank && got[at(r)].first != expected[at(r)].first)
      find(Reason::kIndexMap, "send_indices and forward_indices differ", r);
    else if (r != rank && got[at(r)].second != expected[at(r)].second)
      find(Reason::kIndexMap, "forward_indices and recv_indices differ", r);
  }
  std::vector<Verdict> told(at(ranks), mine), verdicts;
  if (absl::Status status = swap(exchange, told, &verdicts); !status.ok())
    return status;
  // A rank with a wrong map is named rather than one that only sees it.
  for (const bool own : {true, false})
    for (int r = 0; r < ranks; ++r) {
      Verdict& verdict = verdicts[at(r)];
      if (verdict.reason == 0 || (own && verdict.other >= 0)) continue;
      verdict.text[sizeof verdict.text - 1] = 0;
      ErrorInfo info{.reason = static_cast<Reason>(verdict.reason),
                     .what = verdict.text,
                     .ranks = {r}};
      if (verdict.other >= 0) info.ranks.push_back(verdict.other);
      std::sort(info.ranks.begin(), info.ranks.end());
      if (info.reason == Reason::kCapacity) {
        info.expected = absl::StrCat(verdict.needed, " rows or more");
        info.next_step = "give a larger buffer on that rank";
      }
      return exchange.error(std::move(info));
    }
  plan->adopt(MoeDedup::kNode, std::move(moves));
  return plan;
}

}  // namespace distwrap::moe
