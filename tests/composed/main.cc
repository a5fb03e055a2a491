// `distwrap bench` with composed operations over Gloo, of which only some
// operations are left, and with their parts to compare with:
//
//   distwrap-bench-composed reduce_scatter --backend none
//     --vs parts_messages,composed_messages --control
#include "bench_command.h"
#include "composed/contestants.h"
#include "composed/tape.h"
#include "conformance/linked.h"
#include "fakes/only.h"
#include "sdk/shapes.h"

#include <string>
#include <utility>
#include <vector>

namespace distwrap::composed {
namespace {

using fakes::compose_over;
using fakes::Only;
using fakes::only;

constexpr auto gloo = recorded<fakes::table_of<dw_plugin_query_v1_gloo>>;

constexpr uint64_t kDtypes = dw_sdk::kEveryType;
constexpr uint32_t kReductions = DW_BIT(DW_REDUCE_PREMUL_SUM + 1) - 1;
constexpr uint64_t kMessages = DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV);

constexpr Only only_of(const char* name, uint64_t ops) {
  return {
      name, ops, kDtypes, kReductions, DW_FLAG_CALLER_WAITS | DW_FLAG_PER_RANK,
      true};
}

constexpr Only kBare = only_of("bare", kMessages);
constexpr Only kTrees = only_of(
    "trees", kMessages | DW_BIT(DW_OP_REDUCE) | DW_BIT(DW_OP_BROADCAST));
constexpr Only kHalves =
    only_of("halves", DW_BIT(DW_OP_REDUCE_SCATTER) | DW_BIT(DW_OP_ALL_GATHER));
constexpr Only kExchanges =
    only_of("exchanges", DW_BIT(DW_OP_ALL_TO_ALL) | DW_BIT(DW_OP_ALL_GATHER) |
                             DW_BIT(DW_OP_BROADCAST));
constexpr Only kReduces = only_of("reduces", DW_BIT(DW_OP_ALL_REDUCE));

std::vector<bench::ContestantKind> kinds() {
  std::vector<bench::ContestantKind> all;
  const auto add = [&](const char* name, const char* summary,
                       const dw_backend_api& table) {
    for (auto& kind : kinds_of(name, summary, table)) {
      all.push_back(std::move(kind));
    }
  };
  add("gloo", "what Gloo has not, of what it has",
      hearing<compose_over<gloo>>());
  add("messages", "of send and recv",
      hearing<compose_over<only<gloo, kBare>>>());
  add("trees", "of reduce, broadcast, send and recv",
      hearing<compose_over<only<gloo, kTrees>>>());
  add("halves", "of reduce_scatter and all_gather",
      hearing<compose_over<only<gloo, kHalves>>>());
  add("exchanges", "of all_to_all, all_gather and broadcast",
      hearing<compose_over<only<gloo, kExchanges>>>());
  add("reduces", "of all_reduce",
      hearing<compose_over<only<gloo, kReduces>>>());
  return all;
}

}  // namespace
}  // namespace distwrap::composed

int main(int argc, char** argv) {
  return distwrap::cli::run_bench(
      {}, std::vector<std::string>(argv + 1, argv + argc),
      distwrap::composed::kinds());
}
