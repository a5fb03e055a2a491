#include "bench/operation.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace distwrap::bench {
namespace {

// The properties of an operation, in the order of Operation.
struct Traits {
  Operation op;
  absl::string_view name;
  absl::string_view alias;  // "": none
  bool reduces;
  bool has_root;
  bool has_counts;
  // busbw / algbw is this value times (ranks - 1) / ranks, or the value alone.
  double factor;
  bool by_others;
};

constexpr Traits kTraits[] = {
    {Operation::kBarrier, "barrier", "", false, false, false, 0, false},
    {Operation::kBroadcast, "broadcast", "bcast", false, true, false, 1, false},
    {Operation::kReduce, "reduce", "", true, true, false, 1, false},
    {Operation::kAllReduce, "all_reduce", "", true, false, false, 2, true},
    {Operation::kGather, "gather", "", false, true, false, 1, true},
    {Operation::kScatter, "scatter", "", false, true, false, 1, true},
    {Operation::kAllGather, "all_gather", "", false, false, false, 1, true},
    {Operation::kReduceScatter, "reduce_scatter", "", true, false, false, 1,
     true},
    {Operation::kAllToAll, "all_to_all", "", false, false, false, 1, true},
    {Operation::kGatherV, "gather_v", "", false, true, true, 1, true},
    {Operation::kScatterV, "scatter_v", "", false, true, true, 1, true},
    {Operation::kAllGatherV, "all_gather_v", "", false, false, true, 1, true},
    {Operation::kReduceScatterV, "reduce_scatter_v", "", true, false, true, 1,
     true},
    {Operation::kAllToAllV, "all_to_all_v", "alltoallv", false, false, true, 1,
     true},
    {Operation::kScan, "scan", "", true, false, false, 1, false},
    {Operation::kExscan, "exscan", "", true, false, false, 1, false},
    {Operation::kSendRecv, "send_recv", "", false, false, false, 1, false},
    {Operation::kRing, "ring", "sendrecv", false, false, false, 1, false},
    {Operation::kWinPut, "win_put", "", false, false, false, 1, false},
    {Operation::kWinPutRate, "win_put_rate", "", false, false, false, 1, false},
    {Operation::kWinGet, "win_get", "", false, false, false, 1, false},
    {Operation::kWinFetchAdd, "win_fetch_add", "", false, false, false, 1,
     false},
    {Operation::kWinSignal, "win_signal", "", false, false, false, 1, false},
};

const Traits& traits(Operation op) { return kTraits[static_cast<size_t>(op)]; }

}  // namespace

const std::vector<Operation>& all_operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> ops;
    for (const Traits& one : kTraits) ops.push_back(one.op);
    return ops;
  }();
  return all;
}

absl::string_view operation_name(Operation op) { return traits(op).name; }

absl::string_view protocol_name(Operation op) {
  return op == Operation::kAllToAllV ? traits(op).alias : traits(op).name;
}

absl::StatusOr<Operation> parse_operation(absl::string_view name) {
  std::vector<std::string> known;
  for (const Traits& one : kTraits) {
    if (name == one.name || (name == one.alias && !name.empty())) {
      return one.op;
    }
    known.emplace_back(one.name);
  }
  known.emplace_back("all");
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no operation '", name, "'; did you mean ", nearest(name, known),
      "? Known: ", absl::StrJoin(known, " ")));
}

bool measured_elsewhere(absl::string_view name) {
  for (absl::string_view other : {"all_gather_object", "memcpy"}) {
    if (name == other) return true;
  }
  return false;
}

bool reduces(Operation op) { return traits(op).reduces; }
bool has_root(Operation op) { return traits(op).has_root; }
bool has_counts(Operation op) { return traits(op).has_counts; }
bool on_window(Operation op) { return op >= Operation::kWinPut; }

double bus_factor(Operation op, int ranks) {
  const Traits& one = traits(op);
  return one.by_others ? one.factor * (ranks - 1) / ranks : one.factor;
}

}  // namespace distwrap::bench
