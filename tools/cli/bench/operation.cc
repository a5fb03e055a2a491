#include "bench/operation.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <numeric>

namespace distwrap::bench {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (Operation op : all_operations()) {
    all.emplace_back(operation_name(op));
  }
  return all;
}

// Insertions, deletions and replacements that turn `a` into `b`.
size_t edits(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

const std::vector<Operation>& all_operations() {
  static const std::vector<Operation> all = {
      Operation::kBarrier,       Operation::kAllReduce, Operation::kAllGather,
      Operation::kReduceScatter, Operation::kBroadcast, Operation::kAllToAll,
      Operation::kSendRecv};
  return all;
}

absl::string_view operation_name(Operation op) {
  switch (op) {
    case Operation::kBarrier:
      return "barrier";
    case Operation::kAllReduce:
      return "all_reduce";
    case Operation::kAllGather:
      return "all_gather";
    case Operation::kReduceScatter:
      return "reduce_scatter";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kAllToAll:
      return "all_to_all";
    case Operation::kSendRecv:
      return "send_recv";
  }
  return "?";
}

absl::StatusOr<Operation> parse_operation(absl::string_view name) {
  for (Operation op : all_operations()) {
    if (operation_name(op) == name) return op;
  }
  std::vector<std::string> known = names();
  known.emplace_back("all");
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no operation '", name, "'; did you mean ", nearest(name, known),
      "? Known: ", absl::StrJoin(known, " ")));
}

bool measured_elsewhere(absl::string_view name) {
  for (absl::string_view other :
       {"alltoallv", "win_put", "win_get", "all_gather_object", "memcpy"}) {
    if (name == other) return true;
  }
  return false;
}

bool reduces(Operation op) {
  return op == Operation::kAllReduce || op == Operation::kReduceScatter;
}

double bus_factor(Operation op, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case Operation::kAllReduce:
      return 2 * others;
    case Operation::kAllGather:
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return others;
    case Operation::kBroadcast:
    case Operation::kSendRecv:
      return 1;
    case Operation::kBarrier:
      return 0;
  }
  return 0;
}

std::string nearest(absl::string_view name,
                    const std::vector<std::string>& known) {
  if (known.empty()) return "";
  return *std::min_element(known.begin(), known.end(),
                           [&](const std::string& a, const std::string& b) {
                             return edits(name, a) < edits(name, b);
                           });
}

}  // namespace distwrap::bench
